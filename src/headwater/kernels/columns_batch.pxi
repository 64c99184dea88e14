# A batch of rows: which are kept, and where each part of them goes.

cdef enum:
    # columnplan.py
    S_OP = 0
    S_SPACE_ID = 1
    S_SPACE = 2
    S_REPLICA_ID = 3
    S_LSN = 4
    S_TSN = 5
    S_IS_COMMIT = 6
    S_TIMESTAMP = 7
    S_GROUP_ID = 8
    S_FLAGS = 9
    S_INDEX_ID = 10
    S_KEY = 11
    S_BEFORE = 12
    S_AFTER = 13
    S_OPS = 14
    S_BODY = 15
    S_REQUEST = 16
    S_FIELD = 17
    S_RESCUED = 18
    S_INDEX_BASE = 19

cdef int64_t OFFSET_MAX = 0x7FFFFFFF


cdef class Columns:
    cdef Col *cols
    cdef int count
    cdef Py_ssize_t limit
    cdef size_t byte_limit
    cdef size_t held
    cdef readonly Py_ssize_t rows
    cdef readonly int64_t read
    cdef readonly int64_t misfits
    cdef readonly bint open
    cdef public bint skip
    cdef readonly bint watched
    cdef Variants writer
    cdef Spaces spaces
    cdef Wanted wanted
    cdef dict names
    cdef uint64_t last_type
    cdef bytes last_name          # of the type that the last row had
    cdef bint strict
    cdef bint has_fields
    cdef int rescued              # the column RESCUED, -1 for none
    cdef uint32_t field_count
    cdef int *field_columns
    cdef list field_names
    cdef list rescues             # (name, value) of the row at hand

    def __cinit__(self):
        self.cols = NULL
        self.field_columns = NULL
        memset(&self.wanted, 0, sizeof(Wanted))

    def __init__(self, columns, names, texts, row_limit, byte_limit, utf8=0, tagged=False, strict=True):
        cdef Py_ssize_t at
        if self.cols != NULL:
            raise RuntimeError("it is made already")
        if not 0 < row_limit < OFFSET_MAX or byte_limit < 1:
            raise ValueError("a batch has at least one row and one byte, and less than 2^31 rows")
        columns = list(columns)
        check_columns(columns)
        self.limit = row_limit
        self.byte_limit = byte_limit
        self.cols = <Col *> calloc(len(columns) + 1, sizeof(Col))
        if self.cols == NULL:
            raise MemoryError()
        self.count = <int> len(columns)
        self.rescued = -1
        for at in range(self.count):
            self.make_column(&self.cols[at], columns[at])
            if self.cols[at].source == S_RESCUED:
                self.rescued = <int> at
            self.has_fields = self.has_fields or S_FIELD <= self.cols[at].source <= S_RESCUED
        self.names = {int(code): name.encode() for code, name in names.items()}
        self.last_type = <uint64_t> 1 << 63
        self.writer = Variants()
        self.writer.texts = texts
        self.writer.utf8 = utf8
        self.writer.tagged = tagged
        self.strict = strict
        self.wanted.all_types = True
        self.spaces = Spaces()
        self.field_names = []

    cdef int make_column(self, Col *c, column) except -1:
        c.source, c.kind, c.a, c.b = column
        c.width = kind_width(c.kind)
        c.next = -1
        c.valid = <uint8_t *> malloc(self.limit)
        c.fixed = <uint8_t *> calloc(self.limit + 1, c.width if c.width else 4)
        c.fixed2 = <uint8_t *> calloc(self.limit + 1, 4) if c.kind == K_VARIANT else NULL
        if c.valid == NULL or c.fixed == NULL or (c.kind == K_VARIANT and c.fixed2 == NULL):
            raise MemoryError()
        memset(c.valid, 1, self.limit)
        return 0

    def __dealloc__(self):
        cdef int at
        if self.cols != NULL:
            for at in range(self.count):
                free(self.cols[at].valid)
                free(self.cols[at].fixed)
                free(self.cols[at].fixed2)
                free(self.cols[at].heap.data)
                free(self.cols[at].heap2.data)
            free(self.cols)
        free(self.field_columns)

    # ---- what is wanted

    def set_range(self, low, high):
        """Keep rows with low[replica_id] < lsn <= high[replica_id]."""
        cdef int at
        if len(low) != VCLOCK_MAX or len(high) != VCLOCK_MAX:
            raise ValueError(f"{VCLOCK_MAX} numbers each")
        for at in range(VCLOCK_MAX):
            self.wanted.low[at] = low[at]
            self.wanted.high[at] = high[at]
        self.wanted.has_range = True

    def set_times(self, begin, end):
        """Keep rows with begin <= timestamp < end."""
        self.wanted.begin = begin
        self.wanted.end = end
        self.wanted.has_times = True

    def set_types(self, types):
        """Keep rows of these types."""
        cdef uint64_t mask = 0
        for type in types:
            if not 0 <= type < 64:
                raise ValueError(f"type {type} is not below 64")
            mask |= <uint64_t> 1 << <int> type
        self.wanted.types = mask
        self.wanted.all_types = False

    def set_watched(self, space_ids):
        """Stop before rows of these spaces."""
        self.spaces.watched = frozenset(space_ids)
        self.spaces.forget()

    def set_spaces(self, names, keys, wanted):
        """Names and keys of spaces, and of which spaces rows are kept."""
        check_keys(keys)
        self.spaces.names = {space_id: name.encode() for space_id, name in names.items()}
        self.spaces.keys = {space_id: tuple(fields) for space_id, fields in keys.items()}
        self.spaces.wanted = None if wanted is None else frozenset(wanted)
        self.spaces.forget()

    def set_fields(self, fields, names):
        """The column of each field of the tuple, and its name."""
        cdef int *columns
        cdef Py_ssize_t at, count
        fields, names = list(fields), [name.encode() for name in names]
        check_fields(fields, names, [self.cols[at].source == S_FIELD for at in range(self.count)])
        count = len(fields)
        columns = <int *> malloc((count + 1) * sizeof(int))
        if columns == NULL:
            raise MemoryError()
        for at in range(count):
            columns[at] = fields[at]
        parts = next_parts([self.field_kind(&self.cols[at]) for at in range(self.count)], fields)
        for at in range(self.count):
            self.cols[at].next = parts[at]
        free(self.field_columns)
        self.field_columns = columns
        self.field_count = <uint32_t> count
        self.field_names = names

    cdef tuple field_kind(self, Col *c):
        return c.kind if c.source == S_FIELD else -1, c.a

    # ---- reading

    @property
    def size(self):
        """Bytes of any length that the rows take, roughly."""
        return self.held

    def decode(self, rows, Py_ssize_t offset, pass_watched=False, to_commit=False, framed=False):
        """Read rows from `offset` on."""
        cdef bp start = data_of(rows)
        cdef bp end = start + PyBytes_GET_SIZE(rows)
        cdef bp p, at, body, after
        cdef RowHead h
        cdef RowBody b
        cdef SpaceFacts facts
        cdef bint pass_one = pass_watched
        cdef bint until = to_commit
        cdef bint packets = framed
        cdef bint keep, last
        check_range(rows, offset, PyBytes_GET_SIZE(rows))
        p = start + offset
        self.watched = False
        while p < end and self.rows < self.limit and self.held < self.byte_limit:
            at = p
            if not next_row(&p, end, packets, start, &body, &after, &h):
                break
            facts = None
            if h.is_dml:
                if body == NULL or not row_body(body, h.type, &b):
                    raise RowError("can't parse row: no body of a change", at - start, h.lsn, -1, after - start)
                facts = self.spaces.at(b.space_id)
                if facts.watched and not pass_one:
                    self.watched = True
                    p = at
                    break
            pass_one = False
            last = h.flags & FLAG_COMMIT != 0
            keep = not self.skip and is_wanted(&self.wanted, &h)
            if keep and self.spaces.wanted is not None:
                keep = facts is not None and facts.wanted
            self.read += 1
            self.open = not last
            if last:
                self.skip = False
            if keep:
                try:
                    self.add(&h, &b, body, after, facts)
                except BaseException as error:
                    self.leave_out()
                    if not isinstance(error, (ValueError, RowError)):
                        raise
                    raise RowError(str(error), at - start, h.lsn, getattr(error, "column", -1), after - start) from None
            p = after
            if last and until:
                break
        return p - start

    cdef void leave_out(self):
        """Nothing of a row that was begun stays."""
        cdef Py_ssize_t row = self.rows
        cdef Col *c
        cdef int at
        for at in range(self.count):
            c = &self.cols[at]
            c.done = False
            if not c.valid[row]:
                c.valid[row] = 1
                c.nulls -= 1
            if c.width == 0:
                c.heap.size = (<int32_t *> c.fixed)[row]
            if c.kind == K_VARIANT:
                c.heap2.size = (<int32_t *> c.fixed2)[row]

    cdef int add(self, RowHead *h, RowBody *b, bp body, bp body_end, SpaceFacts facts) except -1:
        cdef Col *c
        cdef int at
        cdef size_t held = 0
        if self.has_fields:
            self.add_fields(b, facts)
        for at in range(self.count):
            c = &self.cols[at]
            if c.source < S_FIELD or c.source > S_RESCUED:
                self.add_source(c, h, b, body, body_end, facts)
            held += c.heap.size + c.heap2.size
            if c.heap.size > <size_t> OFFSET_MAX or c.heap2.size > <size_t> OFFSET_MAX:
                raise RowError("a batch of rows takes more than 2 GiB in one column", 0, 0, at)
        self.held = held
        self.rows += 1
        return 0

    cdef inline int add_source(
        self, Col *c, RowHead *h, RowBody *b, bp body, bp body_end, SpaceFacts facts
    ) except -1:
        """A column of the row itself."""
        cdef Py_ssize_t row = self.rows
        cdef double micros
        if c.source == S_LSN:
            (<int64_t *> c.fixed)[row] = h.lsn
        elif c.source == S_TSN:
            (<int64_t *> c.fixed)[row] = h.tsn
        elif c.source == S_TIMESTAMP:
            micros = h.timestamp * 1e6
            if h.timestamp == 0 or not -9.2e18 < micros < 9.2e18:
                put_null(c, row)
            else:
                (<int64_t *> c.fixed)[row] = rounded(micros)
        elif c.source == S_REPLICA_ID:
            (<int32_t *> c.fixed)[row] = <int32_t> h.replica_id
        elif c.source == S_IS_COMMIT:
            c.fixed[row] = h.flags & FLAG_COMMIT != 0
        elif c.source == S_OP:
            if h.type != self.last_type:
                self.last_name = self.names.get(h.type) or str(h.type).encode()
                self.last_type = h.type
            put_bytes(c, row, PyBytes_AS_STRING(self.last_name), PyBytes_GET_SIZE(self.last_name))
        elif c.source == S_GROUP_ID:
            (<int32_t *> c.fixed)[row] = <int32_t> h.group_id
        elif c.source == S_FLAGS:
            (<int32_t *> c.fixed)[row] = <int32_t> h.flags
        elif c.source == S_REQUEST:
            if body == NULL:
                put_null(c, row)
            else:
                put_bytes(c, row, body, body_end - body)
        elif c.source == S_BODY:
            if facts is not None or body == NULL:
                put_null(c, row)
            else:
                put_packed(c, row, body, self.writer)
        elif facts is None:
            put_null(c, row)
        else:
            self.add_of_change(c, row, b, facts)
        return 0

    cdef int add_of_change(self, Col *c, Py_ssize_t row, RowBody *b, SpaceFacts facts) except -1:
        """Columns that only a change of a space has."""
        cdef bp p = NULL
        if c.source == S_SPACE_ID:
            if b.space_id < 0:
                put_null(c, row)
            else:
                (<int32_t *> c.fixed)[row] = <int32_t> b.space_id
            return 0
        if c.source == S_SPACE:
            if facts.name is None:
                put_null(c, row)
            else:
                put_bytes(c, row, PyBytes_AS_STRING(facts.name), PyBytes_GET_SIZE(facts.name))
            return 0
        if c.source == S_INDEX_ID:
            (<int32_t *> c.fixed)[row] = <int32_t> b.index_id
            return 0
        if c.source == S_INDEX_BASE:
            if b.index_base < 0:
                put_null(c, row)
            else:
                (<int32_t *> c.fixed)[row] = <int32_t> b.index_base
            return 0
        if c.source == S_KEY:
            if b.key == NULL:
                return self.add_key(c, row, b.tuple if b.tuple != NULL else b.new, facts)
            p = b.key
        elif c.source == S_BEFORE:
            p = b.old
        elif c.source == S_AFTER:
            p = b.new if b.new != NULL else b.tuple
        elif c.source == S_OPS:
            p = b.ops
        if p == NULL:
            put_null(c, row)
        else:
            put_packed(c, row, p, self.writer)
        return 0

    cdef int add_key(self, Col *c, Py_ssize_t row, bp tuple, SpaceFacts facts) except -1:
        """The fields of the primary key, as an array of their own."""
        cdef Buf *key = &self.writer.scratch
        if tuple == NULL or facts.key == NULL:
            put_null(c, row)
            return 0
        key.size = 0
        buf_room(key, 3)
        key.size = put_array_head(key.data, facts.key_count) - key.data
        if not put_parts(key, tuple, facts.key, facts.key_count):
            put_null(c, row)
        elif c.kind == K_VARIANT:
            put_variant(c, row, key.data, self.writer)
        else:
            put_bytes(c, row, key.data, key.size)
        return 0

    cdef int add_fields(self, RowBody *b, SpaceFacts facts) except -1:
        """The fields of a tuple, each to its column."""
        cdef Py_ssize_t row = self.rows
        cdef uint32_t count = 0, at = 0
        cdef int column, k
        cdef Col *c
        cdef bp p = NULL
        self.rescues = None
        if facts is not None:
            p = b.new if b.new != NULL else b.tuple if b.tuple != NULL else b.old
        if p == NULL and facts is not None and b.key != NULL and b.index_id == 0 and facts.key != NULL:
            self.add_key_fields(b.key, facts)
        elif p != NULL:
            p = load_count(p, &count)
            while at < count:
                column = self.field_columns[at] if at < self.field_count else -1
                if column >= 0:
                    c = &self.cols[column]
                    c.done = True
                    if not put_value(c, row, p, self.writer):
                        self.misfit(c, row, at, p, column)
                    elif c.next >= 0:
                        self.add_parts(c.next, row, p)
                elif self.rescued >= 0:
                    self.rescue(at, p)
                elif at >= self.field_count:
                    break
                p = mp_skip(p)
                at += 1
        for k in range(self.count):
            c = &self.cols[k]
            if c.source == S_FIELD and not c.done:
                put_null(c, row)
            c.done = False
        if self.rescued >= 0:
            self.add_rescued(&self.cols[self.rescued], row)
        return 0

    cdef int add_key_fields(self, bp p, SpaceFacts facts) except -1:
        cdef uint32_t count, at
        cdef int column
        cdef uint32_t field
        cdef Col *c
        p = load_count(p, &count)
        for at in range(count if count < facts.key_count else facts.key_count):
            field = facts.key[at]
            column = self.field_columns[field] if field < self.field_count else -1
            if column >= 0 and not self.cols[column].done:
                c = &self.cols[column]
                c.done = True
                if not put_value(c, self.rows, p, self.writer):
                    self.misfit(c, self.rows, field, p, column)
                elif c.next >= 0:
                    self.add_parts(c.next, self.rows, p)
            p = mp_skip(p)
        return 0

    cdef int add_parts(self, int column, Py_ssize_t row, bp p) except -1:
        """Other parts of the value that went into this column."""
        cdef Col *c
        while column >= 0:
            c = &self.cols[column]
            c.done = True
            put_value(c, row, p, self.writer)
            column = c.next
        return 0

    cdef int misfit(self, Col *c, Py_ssize_t row, uint32_t field, bp p, int column) except -1:
        """A value without a place in its column."""
        self.misfits += 1
        if self.strict:
            raise RowError("a value has no place in its column", 0, 0, column)
        put_null(c, row)
        if self.rescued >= 0:
            self.rescue(field, p)
        return 0

    cdef int rescue(self, uint32_t field, bp p) except -1:
        cdef bp end = mp_skip(p)
        if self.rescues is None:
            self.rescues = []
        name = self.field_names[field] if field < self.field_count else str(field + 1).encode()
        self.rescues.append((name, (<const char *> p)[:end - p]))
        return 0

    cdef int add_rescued(self, Col *c, Py_ssize_t row) except -1:
        cdef bytes packed
        if self.rescues is None:
            put_null(c, row)
            return 0
        pieces = [b"\xdf" + len(self.rescues).to_bytes(4, "big")]
        for name, value in self.rescues:
            pieces.append(b"\xdb" + len(name).to_bytes(4, "big") + name)
            pieces.append(value)
        packed = b"".join(pieces)
        return put_variant(c, row, <bp> PyBytes_AS_STRING(packed), self.writer)

    # ---- giving

    def take(self):
        """The rows gathered, as Arrow buffers; the batch is empty then."""
        cdef Py_ssize_t rows = self.rows
        cdef Col *c
        cdef int at
        out = []
        for at in range(self.count):
            c = &self.cols[at]
            valid = pack_bits(c.valid, rows) if c.nulls else None
            if c.kind == K_BOOL:
                buffers = [pack_bits(c.fixed, rows)]
            elif c.width:
                buffers = [PyBytes_FromStringAndSize(<char *> c.fixed, rows * c.width)]
            else:
                buffers = [PyBytes_FromStringAndSize(<char *> c.fixed, (rows + 1) * 4), buf_bytes(&c.heap)]
                if c.kind == K_VARIANT:
                    buffers.append(PyBytes_FromStringAndSize(<char *> c.fixed2, (rows + 1) * 4))
                    buffers.append(buf_bytes(&c.heap2))
            out.append((c.nulls, valid, buffers))
            memset(c.valid, 1, rows)
            c.nulls = 0
            c.heap.size = c.heap2.size = 0
        self.rows = 0
        self.held = 0
        return rows, out


cdef extern from "math.h":
    double rint(double x) noexcept nogil


cdef inline int64_t rounded(double x) noexcept nogil:
    """To the nearest, halves to even, as Python's round."""
    return <int64_t> rint(x)

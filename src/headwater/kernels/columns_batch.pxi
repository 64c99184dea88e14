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
    VCLOCK_MAX = 32

cdef int64_t OFFSET_MAX = 0x7FFFFFFF


cdef class SpaceFacts:
    """What `set_spaces` told of one space."""

    cdef bytes name
    cdef tuple key
    cdef bint known
    cdef bint has_key
    cdef bint wanted
    cdef bint watched


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
    cdef dict names
    cdef dict facts
    cdef SpaceFacts last
    cdef int64_t last_id
    cdef object watched_ids
    cdef object wanted_ids
    cdef dict space_names
    cdef dict space_keys
    cdef bint all_spaces
    cdef bint strict
    cdef bint has_fields
    cdef int rescued              # the column RESCUED, -1 for none
    cdef bint has_range
    cdef bint has_times
    cdef uint64_t types           # bit mask
    cdef bint all_types
    cdef int64_t low[VCLOCK_MAX]
    cdef int64_t high[VCLOCK_MAX]
    cdef double begin
    cdef double end
    cdef uint32_t field_count
    cdef int *field_columns
    cdef list field_names
    cdef list misfit_at           # (field, address) of the row at hand

    def __cinit__(self):
        self.cols = NULL
        self.field_columns = NULL

    def __init__(self, columns, names, texts, row_limit, byte_limit, utf8=0, tagged=False, strict=True):
        cdef Py_ssize_t at
        cdef Col *c
        cdef int source, kind, a, b
        if row_limit < 1:
            raise ValueError("row_limit must be positive")
        self.count = len(columns)
        self.limit = row_limit
        self.byte_limit = byte_limit
        self.cols = <Col *> calloc(self.count + 1, sizeof(Col))
        if self.cols == NULL:
            raise MemoryError()
        self.rescued = -1
        for at in range(self.count):
            source, kind, a, b = columns[at]
            c = &self.cols[at]
            c.source, c.kind, c.a, c.b = source, kind, a, b
            c.width = kind_width(kind)
            c.valid = <uint8_t *> malloc(row_limit)
            c.fixed = <uint8_t *> calloc(row_limit + 1, c.width if c.width else 4)
            c.fixed2 = <uint8_t *> calloc(row_limit + 1, 4) if kind == K_VARIANT else NULL
            if c.valid == NULL or c.fixed == NULL or (kind == K_VARIANT and c.fixed2 == NULL):
                raise MemoryError()
            memset(c.valid, 1, row_limit)
            self.has_fields = self.has_fields or source == S_FIELD or source == S_RESCUED
            if source == S_RESCUED:
                self.rescued = <int> at
        self.names = {int(code): name.encode() for code, name in names.items()}
        self.writer = Variants()
        self.writer.texts = texts
        self.writer.utf8 = utf8
        self.writer.tagged = tagged
        self.strict = strict
        self.all_types = self.all_spaces = True
        self.watched_ids = self.wanted_ids = frozenset()
        self.space_names, self.space_keys = {}, {}
        self.field_names = []
        self.forget_spaces()

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
            raise ValueError("32 numbers each")
        for at in range(VCLOCK_MAX):
            self.low[at] = low[at]
            self.high[at] = high[at]
        self.has_range = True

    def set_times(self, begin, end):
        """Keep rows with begin <= timestamp < end."""
        self.begin = begin
        self.end = end
        self.has_times = True

    def set_types(self, types):
        """Keep rows of these types."""
        self.types = 0
        for type in types:
            self.types |= <uint64_t> 1 << <int> type
        self.all_types = False

    def set_watched(self, space_ids):
        """Stop before rows of these spaces."""
        self.watched_ids = frozenset(space_ids)
        self.forget_spaces()

    def set_spaces(self, names, keys, wanted):
        """Names and keys of spaces, and of which spaces rows are kept."""
        self.space_names = {space_id: name.encode() for space_id, name in names.items()}
        self.space_keys = {space_id: tuple(fields) for space_id, fields in keys.items()}
        self.all_spaces = wanted is None
        self.wanted_ids = frozenset(wanted or ())
        self.forget_spaces()

    def set_fields(self, fields, names):
        """The column of each field of the tuple, and its name."""
        cdef int *columns = <int *> malloc((len(fields) + 1) * sizeof(int))
        cdef Py_ssize_t at
        if columns == NULL:
            raise MemoryError()
        for at in range(len(fields)):
            columns[at] = fields[at]
            if columns[at] >= self.count or (columns[at] >= 0 and self.cols[columns[at]].source != S_FIELD):
                free(columns)
                raise ValueError(f"column {fields[at]} is not made of a field")
        free(self.field_columns)
        self.field_columns = columns
        self.field_count = len(fields)
        self.field_names = [name.encode() for name in names]

    cdef void forget_spaces(self):
        self.facts = {}
        self.last_id = -2
        self.last = None

    cdef SpaceFacts facts_of(self, int64_t space_id):
        cdef SpaceFacts found
        if space_id == self.last_id:
            return self.last
        known = self.facts.get(space_id)
        if known is None:
            found = SpaceFacts()
            found.known = space_id in self.space_names
            found.name = self.space_names.get(space_id, b"")
            found.has_key = space_id in self.space_keys
            found.key = self.space_keys.get(space_id, ())
            found.wanted = self.all_spaces or space_id in self.wanted_ids
            found.watched = space_id in self.watched_ids
            self.facts[space_id] = found
        else:
            found = known
        self.last_id = space_id
        self.last = found
        return found

    # ---- reading

    @property
    def size(self):
        """Bytes of any length that the rows take, roughly."""
        return self.held

    def decode(self, rows, Py_ssize_t offset, pass_watched=False, to_commit=False):
        """Read rows from `offset` on."""
        cdef bp start = data_of(rows)
        cdef bp end = start + PyBytes_GET_SIZE(rows)
        cdef bp p, body, after
        cdef bp next
        cdef RowHead h
        cdef RowBody b
        cdef SpaceFacts facts
        cdef bint pass_one = pass_watched
        cdef bint until = to_commit
        cdef bint keep, last
        check_range(rows, offset, PyBytes_GET_SIZE(rows))
        p = start + offset
        self.watched = False
        while p < end and self.rows < self.limit and self.held < self.byte_limit:
            after = row_check(p, end, &body, &h)
            if after == NULL:
                raise RowError("can't parse row", p - start, 0, -1)
            facts = None
            if h.is_dml:
                if body == NULL or not row_body(body, h.type, &b):
                    raise RowError("can't parse row: no body of a change", p - start, h.lsn, -1)
                facts = self.facts_of(b.space_id)
                if facts.watched and not pass_one:
                    self.watched = True
                    break
            pass_one = False
            last = h.flags & FLAG_COMMIT != 0
            self.read += 1
            keep = not self.skip and self.wants(&h, facts)
            if keep:
                try:
                    self.add(&h, &b, body, after, facts)
                except UnicodeError as error:
                    raise RowError(str(error), p - start, h.lsn, -1) from None
                except RowError as error:
                    error.offset, error.lsn = p - start, h.lsn
                    raise
            self.open = not last
            if last:
                self.skip = False
            p = after
            if last and until:
                break
        return p - start

    cdef inline bint wants(self, RowHead *h, SpaceFacts facts):
        if not self.all_types and (h.type >= 64 or not (self.types >> h.type) & 1):
            return False
        if not self.all_spaces and (facts is None or not facts.wanted):
            return False
        if self.has_range and (
            h.replica_id >= VCLOCK_MAX
            or h.lsn <= self.low[h.replica_id]
            or h.lsn > self.high[h.replica_id]
        ):
            return False
        return not self.has_times or self.begin <= h.timestamp < self.end

    cdef int add(self, RowHead *h, RowBody *b, bp body, bp body_end, SpaceFacts facts) except -1:
        cdef Py_ssize_t row = self.rows
        cdef Col *c
        cdef int at
        cdef double micros
        if self.has_fields:
            self.add_fields(b, facts)
        for at in range(self.count):
            c = &self.cols[at]
            if c.source == S_FIELD or c.source == S_RESCUED:
                continue
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
                self.add_name(c, row, self.names.get(h.type), h.type)
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
                    put_variant(c, row, body, self.writer)
            elif facts is None:
                put_null(c, row)
            else:
                self.add_of_change(c, row, h, b, facts)
        self.rows += 1
        self.held = 0
        for at in range(self.count):
            c = &self.cols[at]
            self.held += c.heap.size + c.heap2.size
            if c.heap.size > <size_t> OFFSET_MAX or c.heap2.size > <size_t> OFFSET_MAX:
                raise RowError("a batch of rows takes more than 2 GiB in one column", 0, 0, at)
        return 0

    cdef int add_name(self, Col *c, Py_ssize_t row, object name, uint64_t number) except -1:
        cdef bytes text = <bytes> name if name is not None else str(number).encode()
        return put_bytes(c, row, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))

    cdef int add_of_change(self, Col *c, Py_ssize_t row, RowHead *h, RowBody *b, SpaceFacts facts) except -1:
        """Columns that only a change of a space has."""
        cdef bp p = NULL
        if c.source == S_SPACE_ID:
            if b.space_id < 0:
                put_null(c, row)
            else:
                (<int32_t *> c.fixed)[row] = <int32_t> b.space_id
            return 0
        if c.source == S_SPACE:
            if facts.known:
                put_bytes(c, row, PyBytes_AS_STRING(facts.name), PyBytes_GET_SIZE(facts.name))
            else:
                put_null(c, row)
            return 0
        if c.source == S_INDEX_ID:
            (<int32_t *> c.fixed)[row] = <int32_t> b.index_id
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
            put_variant(c, row, p, self.writer)
        return 0

    cdef int add_key(self, Col *c, Py_ssize_t row, bp tuple, SpaceFacts facts) except -1:
        """The fields of the primary key, as an array of their own."""
        cdef uint32_t count, at, field
        cdef bp p, q
        cdef bytes packed = b""
        if tuple == NULL or not facts.has_key or len(facts.key) > 255:
            put_null(c, row)
            return 0
        tuple = load_count(tuple, &count)
        p = tuple
        at = 0
        for part in facts.key:
            field = part
            if field >= count:
                put_null(c, row)
                return 0
            if field < at:
                p = tuple
                at = 0
            while at < field:
                p = mp_skip(p)
                at += 1
            q = mp_skip(p)
            packed += (<const char *> p)[:q - p]
        packed = b"\xdc" + len(facts.key).to_bytes(2, "big") + packed
        put_variant(c, row, <bp> PyBytes_AS_STRING(packed), self.writer)
        return 0

    cdef int add_fields(self, RowBody *b, SpaceFacts facts) except -1:
        """The fields of a tuple, each to its column."""
        cdef Py_ssize_t row = self.rows
        cdef uint32_t count = 0, at = 0
        cdef int column, k
        cdef Col *c
        cdef bp p = NULL
        self.misfit_at = None
        if facts is not None:
            p = b.new if b.new != NULL else b.tuple if b.tuple != NULL else b.old
        if p == NULL and facts is not None and b.key != NULL and b.index_id == 0 and facts.has_key:
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
        for at in range(count if count < len(facts.key) else len(facts.key)):
            field = facts.key[at]
            column = self.field_columns[field] if field < self.field_count else -1
            if column >= 0:
                c = &self.cols[column]
                c.done = True
                if not put_value(c, self.rows, p, self.writer):
                    self.misfit(c, self.rows, field, p, column)
            p = mp_skip(p)
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
        if self.misfit_at is None:
            self.misfit_at = []
        name = self.field_names[field] if field < self.field_count else str(field + 1).encode()
        self.misfit_at.append((name, (<const char *> p)[:end - p]))
        return 0

    cdef int add_rescued(self, Col *c, Py_ssize_t row) except -1:
        cdef bytes packed
        if self.misfit_at is None:
            put_null(c, row)
            return 0
        pieces = [b"\xdf" + len(self.misfit_at).to_bytes(4, "big")]
        for name, value in self.misfit_at:
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


cdef bytes buf_bytes(Buf *b):
    return PyBytes_FromStringAndSize(<char *> b.data, b.size) if b.size else b""


cdef bytes pack_bits(uint8_t *p, Py_ssize_t count):
    """One bit for each byte, the first one lowest."""
    cdef Py_ssize_t at
    cdef bytes out = PyBytes_FromStringAndSize(NULL, (count + 7) // 8)
    cdef uint8_t *q = <uint8_t *> PyBytes_AS_STRING(out)
    memset(q, 0, (count + 7) // 8)
    for at in range(count):
        q[at >> 3] |= (p[at] != 0) << (at & 7)
    return out

# Tuples in the buffers of an Arrow array of binary: into requests, into rows of a snapshot.

cdef class Tuples:
    """`count` tuples from `first` on. No offset is believed."""

    cdef object held
    cdef const uint8_t *offsets
    cdef bp data
    cdef int64_t size
    cdef int64_t first
    cdef int64_t count

    def __init__(self, offsets, data, first, count):
        cdef Py_buffer *view
        ends, bodies = memoryview(offsets), memoryview(data)
        if not (ends.c_contiguous and bodies.c_contiguous):
            raise ValueError("a buffer with gaps")
        self.held = ends, bodies
        self.first, self.count = first, count
        if not (0 <= first < OFFSET_MAX and 0 <= count < OFFSET_MAX) or (first + count + 1) * 4 > ends.nbytes:
            raise ValueError(f"{count} tuples from {first} on do not lie in {ends.nbytes // 4} offsets")
        view = PyMemoryView_GET_BUFFER(ends)
        self.offsets = <bp> view.buf + 4 * self.first
        view = PyMemoryView_GET_BUFFER(bodies)
        self.data = <bp> view.buf
        self.size = view.len

    cdef inline bint at(self, int64_t row, bp *begin, bp *end) noexcept nogil:
        """False if its offsets do not lie in the data."""
        cdef int32_t first, last
        memcpy(&first, self.offsets + 4 * row, 4)
        memcpy(&last, self.offsets + 4 * row + 4, 4)
        begin[0] = self.data + first
        end[0] = self.data + last
        return 0 <= first <= last <= self.size

    cdef inline int array_at(self, int64_t row, bp *begin, bp *end) noexcept nogil:
        """0 and the tuple, or why it is none."""
        cdef Check ck
        if not self.at(row, begin, end):
            return FAULT_OFFSETS
        if begin[0] == end[0] or TYPE_OF[begin[0][0]] != MP_ARRAY:
            return FAULT_RAW
        ck.nesting = 0
        return 0 if mp_check(begin[0], end[0], &ck) == end[0] else FAULT_RAW

    cdef int fail(self, int fault, int64_t row) except -1:
        if fault == FAULT_MEMORY:
            raise MemoryError()
        raise PackError(tuple_fault(fault), self.first + row, -1)


cdef struct Change:
    uint8_t operator
    uint32_t field

cdef struct Asked:
    # What `pack_requests` makes of each tuple.
    uint64_t space_id
    uint64_t index_id
    uint64_t sync
    uint64_t stream_id
    uint32_t key_count
    uint32_t change_count
    uint32_t *key
    Change *change


cdef bp field_of(bp tuple, uint32_t number) noexcept nogil:
    """A field of the checked tuple, NULL if it is not there."""
    cdef uint32_t count
    cdef bp p = load_count(tuple, &count)
    if number >= count:
        return NULL
    while number:
        p = mp_skip(p)
        number -= 1
    return p


cdef int write_key(Asked *a, bp tuple, Buf *out) noexcept nogil:
    cdef uint32_t at
    cdef bp p
    if not write_byte(out, 0x20) or not write_head(out, a.key_count, 0x90, 0xDC):
        return FAULT_MEMORY
    for at in range(a.key_count):
        p = field_of(tuple, a.key[at])
        if p == NULL:
            return FAULT_FIELD
        if not write_raw(out, p, mp_skip(p) - p):
            return FAULT_MEMORY
    return 0


cdef int write_changes(Asked *a, bp tuple, uint8_t key, Buf *out) noexcept nogil:
    """Operations: [operator, field, argument] each."""
    cdef uint32_t at
    cdef bp p
    if not write_byte(out, key) or not write_head(out, a.change_count, 0x90, 0xDC):
        return FAULT_MEMORY
    for at in range(a.change_count):
        p = field_of(tuple, a.change[at].field)
        if p == NULL:
            return FAULT_FIELD
        if not (
            write_byte(out, 0x93) and write_byte(out, 0xA1) and write_byte(out, a.change[at].operator)
            and write_uint(out, a.change[at].field) and write_raw(out, p, mp_skip(p) - p)
        ):
            return FAULT_MEMORY
    return 0


cdef int write_request(Asked *a, uint8_t type, bp tuple, bp end, Buf *out) noexcept nogil:
    """xrow.c: a map of what the type asks for, in the order of its keys."""
    cdef bint keyed = type == TYPE_UPDATE or type == TYPE_DELETE
    cdef uint8_t count = 4 if type == TYPE_UPDATE else 2 if type == TYPE_INSERT or type == TYPE_REPLACE else 3
    cdef int fault
    if not (write_byte(out, 0x80 | count) and write_byte(out, 0x10) and write_uint(out, a.space_id)):
        return FAULT_MEMORY
    if keyed:
        if not (write_byte(out, 0x11) and write_uint(out, a.index_id)):
            return FAULT_MEMORY
        fault = write_key(a, tuple, out)
        return fault if fault or type == TYPE_DELETE else write_changes(a, tuple, 0x21, out)
    if not (write_byte(out, 0x21) and write_raw(out, tuple, end - tuple)):
        return FAULT_MEMORY
    return write_changes(a, tuple, 0x28, out) if type == TYPE_UPSERT else 0


cdef int write_packet(Asked *a, uint64_t number, uint8_t type, bp tuple, bp end, Buf *out) noexcept nogil:
    cdef size_t start = out.size
    cdef int fault
    if not room(out, 5):
        return FAULT_MEMORY
    out.size += 5
    if not (
        write_byte(out, 0x83 if a.stream_id else 0x82) and write_byte(out, 0) and write_uint(out, type)
        and write_byte(out, 1) and write_uint(out, a.sync + number)
    ):
        return FAULT_MEMORY
    if a.stream_id and not (write_byte(out, 0x0A) and write_uint(out, a.stream_id)):
        return FAULT_MEMORY
    fault = write_request(a, type, tuple, end, out)
    if fault:
        return fault
    if out.size - start - 5 > U32_MAX or out.size > <size_t> OFFSET_MAX:
        return FAULT_SIZE
    out.data[start] = 0xCE
    store_be(out.data + start + 1, out.size - start - 5, 4)
    return 0


cdef class Request:
    """Memory of `Asked`."""

    cdef Asked a
    cdef Buf out

    def __cinit__(self):
        memset(&self.a, 0, sizeof(Asked))
        memset(&self.out, 0, sizeof(Buf))

    def __init__(self, key_fields, changes):
        cdef uint32_t at
        self.a.key = <uint32_t *> calloc(len(key_fields) + 1, sizeof(uint32_t))
        self.a.change = <Change *> calloc(len(changes) + 1, sizeof(Change))
        if self.a.key == NULL or self.a.change == NULL:
            raise MemoryError()
        self.a.key_count, self.a.change_count = len(key_fields), len(changes)
        for at in range(self.a.key_count):
            self.a.key[at] = key_fields[at]
        for at in range(self.a.change_count):
            self.a.change[at].operator = ord(changes[at][0])
            self.a.change[at].field = changes[at][1]

    def __dealloc__(self):
        free(self.a.key)
        free(self.a.change)
        free(self.out.data)


def pack_requests(
    offsets, data, first, count, type, space_id, sync, stream_id=0, index_id=0, key_fields=(), changes=(), types=None
):
    """Packets of requests, one a tuple."""
    cdef Tuples tuples = Tuples(offsets, data, first, count)
    cdef bytes each = None if types is None else bytes(memoryview(types)[:count])
    cdef Request request
    cdef uint8_t one = type
    cdef bp begin
    cdef bp end
    cdef bp kinds = NULL
    cdef int64_t row = 0
    cdef int fault = 0
    if each is not None and len(each) != count:
        raise ValueError(f"{len(each)} types for {count} tuples")
    check_requests({type} if each is None else set(each), key_fields, changes)
    request = Request(key_fields, changes)
    request.a.space_id, request.a.index_id, request.a.sync, request.a.stream_id = space_id, index_id, sync, stream_id
    if each is not None:
        kinds = <bp> PyBytes_AS_STRING(each)
    with nogil:
        for row in range(tuples.count):
            fault = tuples.array_at(row, &begin, &end)
            if fault == 0:
                fault = write_packet(&request.a, row, one if kinds == NULL else kinds[row], begin, end, &request.out)
            if fault:
                break
    if fault:
        tuples.fail(fault, row)
    return buf_bytes(&request.out)


def pack_rows(offsets, data, first, count, space_id, group_id, lsn, timestamp, limit):
    """INSERT rows of a snapshot."""
    cdef Tuples tuples = Tuples(offsets, data, first, count)
    cdef Request request = Request((), ())
    cdef Buf *out = &request.out
    cdef uint64_t number = lsn, group = group_id, space = space_id
    cdef double when = timestamp
    cdef int64_t bytes_max = limit
    cdef uint64_t stamp
    cdef bp begin
    cdef bp end
    cdef uint8_t *p
    cdef uint8_t pairs
    cdef int64_t row = 0, rows = 0
    cdef int fault = 0
    memcpy(&stamp, &when, 8)
    if space > U32_MAX:
        raise ValueError(f"space {space_id}")
    with nogil:
        while rows < tuples.count and (rows == 0 or <int64_t> out.size < bytes_max):
            row = rows
            fault = tuples.array_at(row, &begin, &end)
            if fault == 0 and not room(out, 64 + (end - begin)):
                fault = FAULT_MEMORY
            if fault:
                break
            pairs = 1 + (group != 0) + (number + <uint64_t> row != 0) + (when != 0)
            p = out.data + out.size
            p[0] = 0x80 | pairs
            p[1] = 0
            p[2] = TYPE_INSERT
            p += 3
            if group:
                p[0] = 7
                p = store_uint(p + 1, group)
            if number + <uint64_t> row:
                p[0] = 3
                p = store_uint(p + 1, number + <uint64_t> row)
            if when != 0:
                p[0] = 4
                p[1] = 0xCB
                p = store_be(p + 2, stamp, 8)
            p[0] = 0x82
            p[1] = 0x10
            p[2] = 0xCE
            p = store_be(p + 3, space, 4)
            p[0] = 0x21
            memcpy(p + 1, begin, end - begin)
            out.size = p + 1 + (end - begin) - out.data
            rows += 1
    if fault:
        tuples.fail(fault, row)
    return buf_bytes(out), rows

# The header of a row, and the body of one that changes data (xrow.c, xrow_decode and xrow_decode_dml).

cdef enum:
    TYPE_INSERT = 2
    TYPE_REPLACE = 3
    TYPE_UPDATE = 4
    TYPE_DELETE = 5
    TYPE_UPSERT = 9
    TYPE_NOP = 12
    TYPE_INSERT_ARROW = 17
    TYPE_DELETE_RANGE = 18
    FLAG_COMMIT = 1

cdef uint64_t DML_MASK = (
    (1 << TYPE_INSERT) | (1 << TYPE_REPLACE) | (1 << TYPE_UPDATE) | (1 << TYPE_DELETE) | (1 << TYPE_UPSERT)
    | (1 << TYPE_INSERT_ARROW) | (1 << TYPE_DELETE_RANGE)
)

cdef struct RowHead:
    uint64_t type
    uint64_t replica_id
    uint64_t group_id
    uint64_t flags
    int64_t lsn
    int64_t tsn
    double timestamp
    bint is_dml

cdef struct RowBody:
    # NULL where the key is not there
    bp key
    bp tuple
    bp ops
    bp old
    bp new
    int64_t space_id     # -1 if it is not there
    int64_t index_base   # the same
    uint64_t index_id


cdef inline bint row_head(bp p, RowHead *h) noexcept nogil:
    """The checked map at p as a header; False if a key that counts has another type."""
    cdef uint32_t count, at
    cdef uint64_t key, value = 0, lsn = 0, distance = 0
    cdef bint has_tsn = False
    cdef uint8_t type
    memset(h, 0, sizeof(RowHead))
    if TYPE_OF[p[0]] != MP_MAP:
        return False
    p = load_count(p, &count)
    for at in range(count):
        if TYPE_OF[p[0]] != MP_UINT:
            return False
        key = load_uint(p)
        p += SIZE_OF[p[0]]
        type = TYPE_OF[p[0]]
        if key == 4:
            if type != MP_DOUBLE:
                return False
            h.timestamp = load_double(p)
        elif key <= 0x0B and key != 6:
            if type != MP_UINT:
                return False
            value = load_uint(p)
            if key == 0:
                h.type = value & <uint64_t> 0xFFFFFFFF
            elif key == 2:
                h.replica_id = value & <uint64_t> 0xFFFFFFFF
            elif key == 3:
                lsn = value
            elif key == 7:
                h.group_id = value & <uint64_t> 0xFFFFFFFF
            elif key == 8:
                distance = value
                has_tsn = True
            elif key == 9:
                h.flags = value & 0xFF
        p = mp_skip(p)
    h.lsn = <int64_t> lsn
    h.tsn = <int64_t> (lsn - distance)
    if not has_tsn:
        h.flags |= FLAG_COMMIT
    h.is_dml = h.type < 64 and (DML_MASK >> h.type) & 1
    return True


cdef inline bint row_body(bp p, uint64_t row_type, RowBody *b) noexcept nogil:
    """The checked map at p as the body of a change; False if a key that counts has another type."""
    cdef uint32_t count, at
    cdef uint64_t key
    cdef uint8_t type
    memset(b, 0, sizeof(RowBody))
    b.space_id = b.index_base = -1
    if TYPE_OF[p[0]] != MP_MAP:
        return False
    p = load_count(p, &count)
    for at in range(count):
        if TYPE_OF[p[0]] != MP_UINT:
            return False
        key = load_uint(p)
        p += SIZE_OF[p[0]]
        type = TYPE_OF[p[0]]
        if key == 0x10:
            if type != MP_UINT:
                return False
            b.space_id = <int64_t> (load_uint(p) & <uint64_t> 0xFFFFFFFF)
        elif key == 0x11:
            if type != MP_UINT:
                return False
            b.index_id = load_uint(p) & <uint64_t> 0xFFFFFFFF
        elif key == 0x15:
            if type != MP_UINT:
                return False
            b.index_base = <int64_t> (load_uint(p) & <uint64_t> 0xFFFFFFFF)
        elif key == 0x20 or key == 0x21 or key == 0x28 or key == 0x2C or key == 0x2D:
            if type != MP_ARRAY:
                return False
            if key == 0x20:
                b.key = p
            elif key == 0x21:
                b.tuple = p
            elif key == 0x28:
                b.ops = p
            elif key == 0x2C:
                b.old = p
            else:
                b.new = p
        p = mp_skip(p)
    if row_type == TYPE_UPDATE:
        # Its operations have the key that a tuple has elsewhere.
        b.ops = b.tuple
        b.tuple = NULL
    return True


cdef inline bp row_check(bp p, bp end, bp *body, RowHead *h) noexcept nogil:
    """Behind the row at p: its header in `h`, its body at `body` (NULL without one). NULL if it is no row."""
    cdef Check ck
    cdef bp after
    ck.nesting = 0
    body[0] = NULL
    after = mp_check(p, end, &ck)
    if after == NULL or not row_head(p, h):
        return NULL
    if after == end or h.type == TYPE_NOP:
        return after
    body[0] = after
    return mp_check(after, end, &ck)


cdef inline uint8_t *put_array_head(uint8_t *p, uint32_t count) noexcept nogil:
    """Behind the head of an array of less than 65,536 values."""
    if count < 16:
        p[0] = <uint8_t> (0x90 | count)
        return p + 1
    p[0] = 0xDC
    p[1] = <uint8_t> (count >> 8)
    p[2] = <uint8_t> count
    return p + 3


cdef int put_parts(Buf *out, bp tuple, const uint32_t *fields, uint32_t count) except -1:
    """These fields of the checked tuple, one after another; 0 if it has one of them not."""
    cdef uint32_t size, at = 0, part
    cdef bp first, p
    cdef bp after
    first = load_count(tuple, &size)
    p = first
    for part in range(count):
        if fields[part] >= size:
            return 0
        if fields[part] < at:
            p = first
            at = 0
        while at < fields[part]:
            p = mp_skip(p)
            at += 1
        after = mp_skip(p)
        buf_put(out, p, after - p)
    return 1


cdef inline int next_row(bp *p, bp end, bint framed, bp start, bp *body, bp *after, RowHead *h) except -1:
    """The row at p, which moves behind the length of a packet. 0 for a packet that is not whole. RowError."""
    cdef bp at = p[0]
    cdef bp row = at
    cdef bp stop = end
    cdef uint64_t size
    if framed:
        if TYPE_OF[at[0]] != MP_UINT:
            raise RowError("a packet does not begin with its length", at - start, 0, -1, 0)
        if SIZE_OF[at[0]] > end - at:
            return 0
        size = load_uint(at)
        row = at + SIZE_OF[at[0]]
        if size > <uint64_t> (end - row):
            return 0
        stop = row + size
        p[0] = row
    after[0] = row_check(row, stop, body, h)
    if after[0] == NULL or (framed and after[0] != stop):
        raise RowError("can't parse row", at - start, 0, -1, stop - start if framed else 0)
    return 1


def pick(rows, Py_ssize_t offset, space_ids, framed=False):
    """Where the rows of some spaces lie."""
    cdef bp start = data_of(rows)
    cdef bp end = start + PyBytes_GET_SIZE(rows)
    cdef bp p, at, after, body, first
    cdef RowHead h
    cdef RowBody b
    cdef bint packets = framed
    cdef int64_t space_id
    found = []
    wanted = frozenset(space_ids)
    check_range(rows, offset, PyBytes_GET_SIZE(rows))
    p = start + offset
    while p < end:
        at = p
        if not next_row(&p, end, packets, start, &body, &after, &h):
            break
        if body != NULL and h.is_dml and h.type <= TYPE_UPSERT:
            # Almost every body begins with its space, so that the rest need not be looked at.
            first = body + 1
            if body[0] & 0xF0 == 0x80 and body[0] != 0x80 and first[0] == 0x10 and TYPE_OF[first[1]] == MP_UINT:
                space_id = <int64_t> (load_uint(first + 1) & <uint64_t> 0xFFFFFFFF)
            elif row_body(body, h.type, &b):
                space_id = b.space_id
            else:
                raise RowError("can't parse row", at - start, h.lsn, -1, after - start)
            if space_id in wanted:
                found.append((p - start, after - start))
        p = after
    return found


def unframe(data, Py_ssize_t offset, Py_ssize_t end):
    """The rows of whole packets."""
    cdef bp start = data_of(data)
    cdef bp p, at, after, body
    cdef bp stop
    cdef RowHead h
    cdef Buf out
    check_range(data, offset, end)
    p = start + offset
    stop = start + end
    memset(&out, 0, sizeof(Buf))
    try:
        while p < stop:
            at = p
            if not next_row(&p, stop, True, start, &body, &after, &h):
                break
            buf_put(&out, p, after - p)
            if body == NULL and h.type != TYPE_NOP:
                buf_put(&out, <const char *> b"\x80", 1)
            p = after
        return buf_bytes(&out), p - start
    finally:
        free(out.data)

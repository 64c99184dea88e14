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
    b.space_id = -1
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


def pick(rows, Py_ssize_t offset, space_ids):
    """Where the rows of some spaces lie."""
    cdef bp start = data_of(rows)
    cdef bp end = start + PyBytes_GET_SIZE(rows)
    cdef bp p, after, body
    cdef RowHead h
    cdef RowBody b
    cdef uint64_t first = 0
    cdef bp at
    found = []
    wanted = frozenset(space_ids)
    check_range(rows, offset, PyBytes_GET_SIZE(rows))
    p = start + offset
    while p < end:
        after = row_check(p, end, &body, &h)
        if after == NULL:
            raise RowError("can't parse row", p - start, 0, -1)
        if body != NULL and h.is_dml and h.type <= TYPE_UPSERT:
            # Almost every body begins with its space, so that the rest need not be looked at.
            at = body + 1
            if body[0] & 0xF0 == 0x80 and body[0] != 0x80 and at[0] == 0x10 and TYPE_OF[at[1]] == MP_UINT:
                first = load_uint(at + 1)
                if first in wanted:
                    found.append((p - start, after - start))
            elif not row_body(body, h.type, &b):
                raise RowError("can't parse row", p - start, h.lsn, -1)
            elif b.space_id in wanted:
                found.append((p - start, after - start))
        p = after
    return found

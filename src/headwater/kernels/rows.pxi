# Rows as the journal and the wire have them (xrow.c, xrow_header_encode, xrow_encode_dml).

cdef enum:
    # iproto_constants.h
    TYPE_SELECT = 1
    TYPE_INSERT = 2
    TYPE_REPLACE = 3
    TYPE_DELETE = 5
    TYPE_PING = 0x40
    KEY_TYPE = 0x00
    KEY_SYNC = 0x01
    KEY_REPLICA_ID = 0x02
    KEY_LSN = 0x03
    KEY_TIMESTAMP = 0x04
    KEY_SCHEMA_VERSION = 0x05
    KEY_GROUP_ID = 0x07
    KEY_TSN = 0x08
    KEY_FLAGS = 0x09
    KEY_STREAM_ID = 0x0A
    KEY_SPACE_ID = 0x10
    KEY_INDEX_ID = 0x11
    KEY_LIMIT = 0x12
    KEY_OFFSET = 0x13
    KEY_ITERATOR = 0x14
    KEY_FETCH_POSITION = 0x1F
    KEY_KEY = 0x20
    KEY_TUPLE = 0x21
    KEY_DATA = 0x30
    FLAG_COMMIT = 1
    FLAG_WAIT_SYNC = 2
    FLAG_WAIT_ACK = 4
    GROUP_LOCAL = 1
    ROW_HEAD = 80          # bytes of a row header and of the body before the tuple or key, at most


cdef inline uint8_t *put_row_header(
    uint8_t *out, uint32_t type, uint32_t replica_id, uint32_t group_id, uint64_t lsn, double when,
    bint has_tsn, uint64_t tsn_diff, uint32_t flags
) noexcept nogil:
    """The header map; what is 0 is left out, except the type and a difference of a transaction's rows."""
    cdef uint8_t *p = out + 1
    cdef uint8_t n = 1
    p[0] = KEY_TYPE
    p = put_uint(p + 1, type)
    if replica_id:
        p[0] = KEY_REPLICA_ID
        p = put_uint(p + 1, replica_id)
        n += 1
    if group_id:
        p[0] = KEY_GROUP_ID
        p = put_uint(p + 1, group_id)
        n += 1
    if lsn:
        p[0] = KEY_LSN
        p = put_uint(p + 1, lsn)
        n += 1
    if when != 0:
        p[0] = KEY_TIMESTAMP
        p = put_double(p + 1, when)
        n += 1
    if has_tsn:
        p[0] = KEY_TSN
        p = put_uint(p + 1, tsn_diff)
        n += 1
    if flags:
        p[0] = KEY_FLAGS
        p = put_uint(p + 1, flags)
        n += 1
    out[0] = 0x80 | n
    return p


cdef inline bint rows_room(Mx *mx, size_t more) noexcept nogil:
    """Room for one row whose body has `more` bytes of tuple or key; False without memory."""
    return not mx.rows_enabled or (buffer_room(&mx.rows, more + ROW_HEAD) and buffer_room(&mx.ends, 8))


cdef inline void rows_end(Mx *mx, uint8_t *end, bint last) noexcept nogil:
    """A row ends here; the `last` one of its transaction is an end that take_rows tells."""
    cdef uint64_t at
    mx.rows.size = end - mx.rows.data
    mx.rows_count += 1
    if last:
        at = mx.rows.size
        memcpy(mx.ends.data + mx.ends.size, &at, 8)
        mx.ends.size += 8


cdef inline void row_dml(
    Mx *mx, Space *s, uint32_t type, uint32_t index_id, uint8_t key, bp data, size_t size
) noexcept nogil:
    """One autocommitted change as a row of its own: `{10 space, [11 index], key: data}`. rows_room came before."""
    cdef uint32_t component = 0 if s.local else mx.replica_id
    cdef uint8_t *p
    if s.temporary:
        return
    mx.vclock[component] += 1
    if not mx.rows_enabled:
        return
    p = put_row_header(
        mx.rows.data + mx.rows.size, type, component, GROUP_LOCAL if s.local else 0,
        <uint64_t> mx.vclock[component], mx.timestamp, False, 0, 0,
    )
    p[0] = 0x80 | (1 + (s.id != 0) + (index_id != 0))
    p += 1
    if s.id:
        p[0] = KEY_SPACE_ID
        p = put_uint(p + 1, s.id)
    if index_id:
        p[0] = KEY_INDEX_ID
        p = put_uint(p + 1, index_id)
    p[0] = key
    memcpy(p + 1, data, size)
    rows_end(mx, p + 1 + size, True)

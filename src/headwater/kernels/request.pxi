# A request or a row, taken apart without a copy. What is not plain is refused, for the ordinary path.

cdef struct Request:
    uint64_t type
    uint64_t sync
    uint64_t space_id
    uint64_t index_id
    uint64_t limit
    uint64_t offset
    uint64_t iterator
    bp key
    bp key_end
    bp tuple
    bp tuple_end
    uint32_t seen          # body keys that were there: bits HAS_*
    # rows only
    uint64_t replica_id
    uint64_t lsn
    uint64_t flags
    bool_t in_tsn          # one of several rows of a transaction

cdef enum:
    HAS_SPACE = 1
    HAS_INDEX = 2
    HAS_LIMIT = 4
    HAS_OFFSET = 8
    HAS_ITERATOR = 16
    HAS_FETCH = 32
    HAS_KEY = 64
    HAS_TUPLE = 128


cdef inline bp read_uint(bp p, bp end, uint64_t *value) noexcept nogil:
    """Behind the MP_UINT at p; NULL if it is none or not complete."""
    if p >= end:
        return NULL
    if p[0] < 0x80:
        value[0] = p[0]
        return p + 1
    if TYPE_OF[p[0]] != MP_UINT or SIZE_OF[p[0]] > end - p:
        return NULL
    value[0] = load_uint(p)
    return p + SIZE_OF[p[0]]


cdef inline bp read_map(bp p, bp end, uint32_t *count) noexcept nogil:
    """First key of a map of at most 15 pairs; NULL for anything else."""
    if p >= end or p[0] & 0xF0 != 0x80:
        return NULL
    count[0] = p[0] & 0x0F
    return p + 1


cdef inline bp read_array(bp p, bp end, bp *after) noexcept nogil:
    """Behind the array at p, checked; NULL if it is none or wrong. `after` is the same, to be kept."""
    cdef Check ck
    if p >= end or TYPE_OF[p[0]] != MP_ARRAY:
        return NULL
    ck.nesting = 0
    after[0] = mp_check(p, end, &ck)
    return after[0]


cdef bp read_body(bp p, bp end, Request *r) noexcept nogil:
    """The body map at p: behind it, NULL if there is anything that is not known here."""
    cdef uint32_t count
    cdef uint8_t key
    p = read_map(p, end, &count)
    r.seen = 0
    r.index_id = 0
    r.offset = 0
    r.iterator = 0
    while p != NULL and count:
        count -= 1
        if p >= end:
            return NULL
        key = p[0]
        p += 1
        if key == KEY_SPACE_ID:
            r.seen |= HAS_SPACE
            p = read_uint(p, end, &r.space_id)
        elif key == KEY_TUPLE:
            r.seen |= HAS_TUPLE
            r.tuple = p
            p = read_array(p, end, &r.tuple_end)
        elif key == KEY_KEY:
            r.seen |= HAS_KEY
            r.key = p
            p = read_array(p, end, &r.key_end)
        elif key == KEY_INDEX_ID:
            r.seen |= HAS_INDEX
            p = read_uint(p, end, &r.index_id)
        elif key == KEY_LIMIT:
            r.seen |= HAS_LIMIT
            p = read_uint(p, end, &r.limit)
        elif key == KEY_OFFSET:
            r.seen |= HAS_OFFSET
            p = read_uint(p, end, &r.offset)
        elif key == KEY_ITERATOR:
            r.seen |= HAS_ITERATOR
            p = read_uint(p, end, &r.iterator)
        elif key == KEY_FETCH_POSITION and p < end and p[0] == 0xC2:
            r.seen |= HAS_FETCH
            p += 1
        else:
            return NULL
    return p


cdef bp read_frame(bp p, bp end, Request *r, uint64_t schema_version) noexcept nogil:
    """One packet: behind it, NULL if it is not complete or not of the plain kind."""
    cdef uint64_t size
    cdef uint64_t value = 0
    cdef uint32_t count
    cdef uint8_t key
    p = read_uint(p, end, &size)
    if p == NULL or size > <uint64_t> (end - p):
        return NULL
    end = p + size
    p = read_map(p, end, &count)
    r.type = 0
    r.sync = 0
    while p != NULL and count:
        count -= 1
        if p >= end:
            return NULL
        key = p[0]
        p = read_uint(p + 1, end, &value)
        if key == KEY_TYPE:
            r.type = value
        elif key == KEY_SYNC:
            r.sync = value
        elif key == KEY_SCHEMA_VERSION:
            if value != 0 and value != schema_version:
                return NULL
        elif key != KEY_STREAM_ID or value != 0:
            return NULL
    if p == NULL:
        return NULL
    r.seen = 0
    if p < end:
        p = read_body(p, end, r)
    return p if p == end else NULL


cdef bp read_row(bp p, bp end, Request *r) noexcept nogil:
    """One row of a file, header and body: behind it, NULL if it is not of the plain kind."""
    cdef uint64_t value = 0
    cdef uint32_t count
    cdef uint8_t key
    p = read_map(p, end, &count)
    r.type = 0
    r.replica_id = 0
    r.lsn = 0
    r.flags = 0
    r.in_tsn = False
    while p != NULL and count:
        count -= 1
        if p >= end:
            return NULL
        key = p[0]
        p += 1
        if key == KEY_TIMESTAMP:
            if end - p < 9 or p[0] != 0xCB:
                return NULL
            p += 9
            continue
        p = read_uint(p, end, &value)
        if key == KEY_TYPE:
            r.type = value
        elif key == KEY_REPLICA_ID:
            r.replica_id = value
        elif key == KEY_LSN:
            r.lsn = value
        elif key == KEY_TSN:
            r.in_tsn = True
        elif key == KEY_FLAGS:
            r.flags = value
        elif key != KEY_GROUP_ID:
            return NULL
    if p == NULL or r.replica_id > 31 or r.lsn > <uint64_t> 0x7FFFFFFFFFFFFFFF:
        return NULL
    return read_body(p, end, r)

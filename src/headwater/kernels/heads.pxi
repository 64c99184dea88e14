# Headers of rows, in files and in packets: what a transaction is made of, without a look at bodies.

cdef enum:
    NUMBERS = 10           # header keys below this are numbers, but for the time and two that rows do not have
    NUMBER_KEYS = (1 << 0) | (1 << 1) | (1 << 2) | (1 << 3) | (1 << 7) | (1 << 8) | (1 << 9)
    HEAD_MAX = 64          # bytes that put_head writes, at most
    TYPE_UPDATE = 4
    TYPE_UPSERT = 9
    TYPE_NOP = 12
    TYPE_RAFT = 30
    TYPE_PROMOTE = 31
    TYPE_DEMOTE = 32
    TYPE_CONFIRM = 40
    TYPE_ROLLBACK = 41
    TYPE_ERROR = 0x8000

cdef struct Head:
    uint64_t type
    uint64_t replica_id
    uint64_t group_id
    uint64_t lsn
    uint64_t stamp         # the time, as the bits of a double
    uint64_t tsn           # equal to the LSN for a transaction of one row
    uint8_t flags          # COMMIT is set for a transaction of one row too
    bool_t is_part         # one of several rows of a transaction
    bool_t odd             # has keys that the plain kinds of rows do not have
    bool_t many_ids        # has several replica ids
    bp replica_at          # where its replica id is, NULL without one


cdef inline double head_time(Head *h) noexcept nogil:
    cdef double when
    memcpy(&when, &h.stamp, 8)
    return when


cdef inline bp read_head(bp p, bp end, Head *h) noexcept nogil:
    """Behind the header at p, NULL if there is none (xrow.c, xrow_decode)."""
    cdef uint64_t number[NUMBERS]
    cdef uint64_t key
    cdef uint32_t count
    cdef uint32_t seen = 0
    cdef bp at
    cdef Check ck
    if p >= end or TYPE_OF[p[0]] != MP_MAP or 1 + WIDTH_OF[p[0]] > end - p:
        return NULL
    p = load_count(p, &count)
    memset(number, 0, sizeof(number))
    h.stamp = 0
    h.odd = False
    h.many_ids = False
    h.replica_at = NULL
    while count:
        count -= 1
        p = read_uint(p, end, &key)
        if p == NULL:
            return NULL
        if key == KEY_TIMESTAMP:
            if end - p < 9 or p[0] != 0xCB:
                return NULL
            h.stamp = load_be(p + 1, 8)
            p += 9
        elif key < NUMBERS and NUMBER_KEYS >> key & 1:
            at = p
            p = read_uint(p, end, &number[key])
            if p == NULL:
                return NULL
            if key == KEY_REPLICA_ID:
                h.many_ids = h.replica_at != NULL
                h.replica_at = at
            seen |= <uint32_t> 1 << key
        else:
            h.odd = True
            ck.nesting = 0
            p = mp_check(p, end, &ck)
            if p == NULL:
                return NULL
    h.type = number[KEY_TYPE]
    h.replica_id = number[KEY_REPLICA_ID]
    h.group_id = number[KEY_GROUP_ID]
    h.lsn = number[KEY_LSN]
    h.tsn = h.lsn - number[KEY_TSN]
    h.flags = <uint8_t> number[KEY_FLAGS]
    h.is_part = seen >> KEY_TSN & 1
    if not h.is_part:
        h.flags |= FLAG_COMMIT
    if h.replica_id > 31 or h.lsn > <uint64_t> 0x7FFFFFFFFFFFFFFF or h.type > U32_MAX or h.group_id > U32_MAX:
        return NULL
    return p


cdef inline uint8_t *put_head(uint8_t *out, Head *h, uint8_t flags, uint64_t sync) noexcept nogil:
    """The header anew, with these flags: a map of what is not zero, in this order. The TSN is written as its distance
    from the LSN, and neither it nor the commit flag for a transaction of one row (xrow.c, xrow_header_encode)."""
    cdef uint8_t *p = out + 1
    cdef uint8_t n = 1
    cdef bint several = h.tsn != 0 and (h.tsn != h.lsn or not flags & FLAG_COMMIT)
    if not several or h.tsn == h.lsn:
        flags &= <uint8_t> ~FLAG_COMMIT
    p[0] = KEY_TYPE
    p = put_uint(p + 1, h.type)
    if sync:
        p[0] = KEY_SYNC
        p = put_uint(p + 1, sync)
        n += 1
    if h.replica_id:
        p[0] = KEY_REPLICA_ID
        p = put_uint(p + 1, h.replica_id)
        n += 1
    if h.group_id:
        p[0] = KEY_GROUP_ID
        p = put_uint(p + 1, h.group_id)
        n += 1
    if h.lsn:
        p[0] = KEY_LSN
        p = put_uint(p + 1, h.lsn)
        n += 1
    if head_time(h) != 0:
        p[0] = KEY_TIMESTAMP
        p[1] = 0xCB
        p = put_be(p + 2, h.stamp, 8)
        n += 1
    if several:
        p[0] = KEY_TSN
        p = put_uint(p + 1, h.lsn - h.tsn)
        n += 1
    if flags:
        p[0] = KEY_FLAGS
        p = put_uint(p + 1, flags)
        n += 1
    out[0] = 0x80 | n
    return p

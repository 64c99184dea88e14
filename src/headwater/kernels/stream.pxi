# What a master sends, straight into the store (applier.cc).

cdef enum:
    PACKET_UNKNOWN = 0     # its body is not of the plain kind
    PACKET_NOP = 1
    PACKET_CHANGE = 2

cdef struct Packet:
    Head head
    Request row            # its body; nothing is `seen` unless the packet is a change
    int kind
    bp body
    bp end

cdef struct Stream:
    Apply apply
    uint64_t rows          # of whole transactions that are done
    bp begin               # of the transaction that is open, NULL without one
    bp end                 # and its end
    uint64_t open_rows     # rows of it
    uint64_t tsn           # of what is new of it; 0 before the first such row
    # where things stood before it
    uint64_t undo
    size_t bytes
    uint64_t count
    uint64_t replica_id
    int64_t lsn
    double when            # of the last row of the last whole transaction


cdef inline bp read_packet(bp p, bp end, Packet *k) noexcept nogil:
    """Behind the packet at p; NULL if it is not whole, or its header is not that of a plain row."""
    cdef uint64_t size
    p = read_uint(p, end, &size)
    if p == NULL or size > <uint64_t> (end - p):
        return NULL
    k.end = p + size
    k.body = read_head(p, k.end, &k.head)
    return k.end if k.body != NULL and not k.head.odd and k.head.group_id == 0 else NULL


cdef inline void read_packet_body(Packet *k) noexcept nogil:
    k.kind = PACKET_UNKNOWN
    k.row.type = k.head.type
    k.row.seen = 0
    if k.head.type == TYPE_NOP:
        if k.body == k.end:
            k.kind = PACKET_NOP
    elif k.head.type <= TYPE_DELETE:
        if read_body(k.body, k.end, &k.row) == k.end and apply_known(&k.row):
            k.kind = PACKET_CHANGE
        else:
            k.row.seen = 0


cdef inline bint is_dml(uint64_t type) noexcept nogil:
    """May it be passed over when it was seen?"""
    return TYPE_INSERT <= type <= TYPE_DELETE or type == TYPE_UPSERT or type == TYPE_NOP


cdef bp stream_whole(bp p, bp end) noexcept nogil:
    """Behind the transaction of several rows at p; NULL if it is not whole or not in order (applier.cc,
    set_next_tx_row)."""
    cdef Packet k
    cdef uint64_t replica_id = 0
    cdef uint64_t tsn = 0
    cdef uint64_t lsn = 0
    while True:
        p = read_packet(p, end, &k)
        if p == NULL or not is_dml(k.head.type) or not k.head.is_part or k.head.lsn <= lsn:
            return NULL
        if lsn == 0:
            replica_id = k.head.replica_id
            tsn = k.head.lsn
        if k.head.replica_id != replica_id or k.head.tsn != tsn:
            return NULL
        lsn = k.head.lsn
        if k.head.flags & FLAG_COMMIT:
            return p


cdef inline void stream_open(Stream *s, bp begin, bp end, Head *h) noexcept nogil:
    cdef Mx *mx = s.apply.mx
    s.begin = begin
    s.end = end
    s.open_rows = 0
    s.tsn = 0
    s.undo = mx.tail
    s.bytes = mx.rows.size
    s.count = mx.rows_count
    s.replica_id = h.replica_id
    s.lsn = mx.vclock[h.replica_id]


cdef int stream_back(Stream *s) except -1:
    """Nothing is left of the open transaction. No row of it that stands in the journal was a last one."""
    cdef Mx *mx = s.apply.mx
    cdef Undo u
    mx.rows.size = s.bytes
    mx.rows_count = s.count
    mx.vclock[s.replica_id] = s.lsn
    while mx.tail > s.undo:
        mx.tail -= 1
        u = mx.undo[mx.tail & (mx.undo_room - 1)]
        undo_rollback(mx, &u)
    return 0


cdef inline bint stream_change(Stream *s, Packet *k) noexcept nogil:
    """One change into its space, or none of it."""
    cdef Space *space
    if k.kind == PACKET_NOP:
        return True
    if k.kind != PACKET_CHANGE:
        return False
    space = apply_space(s.apply.mx, &k.row)
    if space == NULL or space.local or space.temporary:
        return False
    return apply_delete(space, &k.row) if k.row.type == TYPE_DELETE else apply_put(&s.apply, space, &k.row)


cdef bint stream_row(Stream *s, Packet *k) noexcept nogil:
    """A row that is new, and on its way to our journal as its origin numbered it. False: nothing was touched."""
    cdef Mx *mx = s.apply.mx
    cdef size_t size = k.end - k.body
    cdef uint8_t *p
    if k.head.flags & ~FLAG_COMMIT or not rows_room(mx, size) or not stream_change(s, k):
        return False
    mx.vclock[k.head.replica_id] = <int64_t> k.head.lsn
    if s.tsn == 0:
        s.tsn = k.head.lsn
    k.head.tsn = s.tsn
    if mx.rows_enabled:
        p = put_head(mx.rows.data + mx.rows.size, &k.head, k.head.flags, 0)
        memcpy(p, k.body, size)
        rows_end(mx, p + size, k.head.flags & FLAG_COMMIT != 0)
    return True


cdef inline bint stream_begin(Stream *s, bp begin, bp end, Packet *k) noexcept nogil:
    """The transaction whose first packet is this. False if it is not to be begun."""
    cdef bp after = k.end
    if k.head.is_part:
        after = stream_whole(begin, end)
    elif not is_dml(k.head.type) or k.head.lsn == 0:
        after = NULL
    if after == NULL or k.head.replica_id == 0:
        return False
    stream_open(s, begin, after, &k.head)
    return True


cdef inline bint stream_one(Stream *s, bp begin, bp end, Packet *k) noexcept nogil:
    """False: here it stops, and the open transaction, if there is one, is to be taken back."""
    if s.begin == NULL and not stream_begin(s, begin, end, k):
        return False
    s.open_rows += 1
    if <int64_t> k.head.lsn > s.apply.mx.vclock[k.head.replica_id] and not stream_row(s, k):
        return False
    if k.end == s.end:
        s.begin = NULL
        s.rows += s.open_rows
        s.when = head_time(&k.head)
    return True


cdef bp stream_all(Stream *s, bp p, bp end) noexcept nogil:
    """Packets from p on until a transaction is not for this path: where that one begins. If it was begun it is open
    still (`s.begin`)."""
    cdef Packet k[AHEAD]
    cdef Lookahead look
    cdef uint32_t n, i
    cdef bp at
    while True:
        n = 0
        at = p
        look.n = 0
        while n < AHEAD and at < end:
            at = read_packet(at, end, &k[n])
            if at == NULL:
                break
            read_packet_body(&k[n])
            ahead_request(&look, s.apply.mx, &k[n].row)
            n += 1
        ahead_fetch(&look)
        for i in range(n):
            if not stream_one(s, p, end, &k[i]):
                return s.begin if s.begin != NULL else p
            p = k[i].end
        if n < AHEAD:
            return s.begin if s.begin != NULL else p


cdef bp load_all(Apply *a, bp p, bp end) noexcept nogil:
    """INSERT packets from p on until one is not for this path: where that one begins."""
    cdef Packet k
    cdef Space *space
    while p < end:
        if read_packet(p, end, &k) == NULL or k.head.type != TYPE_INSERT:
            return p
        read_packet_body(&k)
        if k.kind != PACKET_CHANGE:
            return p
        space = apply_space(a.mx, &k.row)
        if space == NULL or not apply_put(a, space, &k.row):
            return p
        a.rows += 1
        p = k.end
    return p

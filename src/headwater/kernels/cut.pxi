# A master's stream, cut where transactions end, for who reads it without a store.

cdef struct Cut:
    uint64_t rows          # of whole transactions
    uint64_t rows_max      # no further transaction is begun once there are so many
    int64_t last[32]       # the greatest LSN of each replica
    double when            # of the last row


cdef inline bp cut_one(Cut *c, bp p, bp end) noexcept nogil:
    """Behind the transaction at p; NULL if it is not whole, not in order, not plain, or waits for others."""
    cdef Packet k
    cdef uint64_t replica_id = 0
    cdef uint64_t tsn = 0
    cdef uint64_t lsn = 0
    cdef uint64_t rows = 0
    while True:
        p = read_packet(p, end, &k)
        if p == NULL or not is_dml(k.head.type) or k.head.lsn <= lsn or k.head.replica_id == 0:
            return NULL
        if lsn == 0:
            replica_id = k.head.replica_id
            tsn = k.head.lsn
        if k.head.replica_id != replica_id or k.head.tsn != tsn or k.head.flags & ~FLAG_COMMIT:
            return NULL
        lsn = k.head.lsn
        rows += 1
        if k.head.flags & FLAG_COMMIT:
            c.rows += rows
            c.last[replica_id] = <int64_t> lsn
            c.when = head_time(&k.head)
            return p


cdef bp cut_all(Cut *c, bp p, bp end) noexcept nogil:
    cdef bp after
    while p < end and c.rows < c.rows_max:
        after = cut_one(c, p, end)
        if after == NULL:
            return p
        p = after
    return p


def cut_frames(data, Py_ssize_t offset, Py_ssize_t end, Py_ssize_t rows_max):
    """Whole plain transactions among packets, and how far they lead."""
    cdef Cut c
    cdef bp start = data_of(data)
    cdef bp stop
    cdef uint32_t i
    check_range(data, offset, end)
    memset(&c, 0, sizeof(c))
    c.rows_max = rows_max
    with nogil:
        stop = cut_all(&c, start + offset, start + end)
    return stop - start, c.rows, [(i, c.last[i]) for i in range(32) if c.last[i]], c.when

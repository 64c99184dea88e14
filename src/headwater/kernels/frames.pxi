# A batch of the journal as packets, and what one peer gets of it (relay.cc, relay_filter_row, relay_process_row).
#
# Mostly a peer lacks all of a batch, or nothing of it is for that peer. The least and the greatest LSN of each replica
# in the batch tell which, without a look at a row.

cdef enum:
    FRAME_HEAD = 5         # ce<u32>
    FRAME_UNLOCKED = 65536 # bytes of rows that are framed without the GIL: such a batch may come from a file

cdef struct Span:
    uint32_t replica_id
    int64_t low            # least and greatest LSN of it
    int64_t high

cdef struct Framing:
    Buffer ends            # size_t offsets after each row
    size_t count
    Span span[32]
    uint32_t ids           # spans with rows
    bool_t plain
    bool_t exact           # no header needs a change, and LSNs grow
    double when            # of the last row
    bp bad                 # where there is no row
    bool_t inside          # between the first and the last row of a transaction


cdef inline bint depends_on_peer(Head *h) noexcept nogil:
    if h.group_id == GROUP_LOCAL:
        return h.replica_id != 0
    if h.type < TYPE_RAFT:
        return False
    return h.type <= TYPE_DEMOTE or h.type == TYPE_CONFIRM or h.type == TYPE_ROLLBACK


cdef inline void framing_count(Framing *f, Head *h) noexcept nogil:
    """What one row means for the batch."""
    cdef Span *span = &f.span[h.replica_id]
    cdef uint32_t bit = <uint32_t> 1 << h.replica_id
    if not f.ids & bit:
        f.ids |= bit
        span.low = <int64_t> h.lsn
    elif <int64_t> h.lsn <= span.high:
        f.exact = False
        if <int64_t> h.lsn < span.low:
            span.low = <int64_t> h.lsn
    if <int64_t> h.lsn > span.high:
        span.high = <int64_t> h.lsn
    if depends_on_peer(h):
        f.plain = False
    if h.odd or (h.group_id == GROUP_LOCAL and h.replica_id != 0):
        f.exact = False
    if not f.inside and h.lsn != h.tsn:
        f.exact = False
    f.inside = not h.flags & FLAG_COMMIT


cdef bint framing_read(Framing *f, bp start, bp end) noexcept nogil:
    """Find the rows. False where there is none (`bad`), or without memory."""
    cdef Head h
    cdef Check ck
    cdef bp p = start
    cdef bp at
    cdef size_t after
    f.bad = NULL
    h.stamp = 0
    while p < end:
        at = p
        p = read_head(p, end, &h)
        if p != NULL and p < end and h.type != TYPE_NOP:
            at = p
            ck.nesting = 0
            p = mp_check(p, end, &ck) if TYPE_OF[p[0]] == MP_MAP else NULL
        if p == NULL:
            f.bad = at
            return False
        framing_count(f, &h)
        if not buffer_room(&f.ends, sizeof(size_t)):
            return False
        after = p - start
        memcpy(f.ends.data + f.ends.size, &after, sizeof(size_t))
        f.ends.size += sizeof(size_t)
        f.count += 1
    f.when = head_time(&h)
    return True


cdef void framing_write(Framing *f, bp rows, uint8_t *out) noexcept nogil:
    cdef const size_t *end = <const size_t *> f.ends.data
    cdef size_t begin = 0
    cdef size_t size, i
    for i in range(f.count):
        size = end[i] - begin
        out[0] = 0xCE
        put_be(out + 1, size, 4)
        memcpy(out + FRAME_HEAD, rows + begin, size)
        out += FRAME_HEAD + size
        begin = end[i]


def frame_rows(rows):
    """Rows as they stand in a file, each framed as a packet. MsgPackError if they are none."""
    cdef Framing f
    cdef bp start = data_of(rows)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(rows)
    cdef bint good
    memset(&f, 0, sizeof(f))
    f.plain = True
    f.exact = True
    try:
        if size < FRAME_UNLOCKED:
            good = framing_read(&f, start, start + size)
        else:
            with nogil:
                good = framing_read(&f, start, start + size)
        if not good:
            if f.bad == NULL:
                raise MemoryError
            raise MsgPackError(f"no row at offset {f.bad - start}")
        return frames_new(&f, start, size)
    finally:
        free(f.ends.data)


cdef Frames frames_new(Framing *f, bp rows, Py_ssize_t size):
    cdef Frames frames = Frames.__new__(Frames)
    cdef uint8_t *out
    cdef uint32_t i
    frames.data = PyBytes_FromStringAndSize(NULL, size + <Py_ssize_t> f.count * FRAME_HEAD)
    out = <uint8_t *> PyBytes_AS_STRING(frames.data)
    if size < FRAME_UNLOCKED:
        framing_write(f, rows, out)
    else:
        with nogil:
            framing_write(f, rows, out)
    frames.count = f.count
    frames.plain = f.plain
    frames.exact = f.exact
    frames.timestamp = f.when
    for i in range(32):
        frames.spans += f.ids >> i & 1
    frames.span = <Span *> malloc((frames.spans + 1) * sizeof(Span))
    if frames.span == NULL:
        raise MemoryError
    frames.spans = 0
    for i in range(32):
        if f.ids >> i & 1:
            f.span[i].replica_id = i
            frames.span[frames.spans] = f.span[i]
            frames.spans += 1
    return frames


cdef struct Pick:
    uint32_t skip
    int64_t own
    int64_t own_limit
    uint64_t sync
    int64_t have[32]
    Buffer out
    uint64_t rows


cdef inline bint pick_skips(Pick *k, uint64_t replica_id, uint64_t lsn) noexcept nogil:
    if k.skip >> replica_id & 1:
        return True
    return k.own != 0 and <int64_t> replica_id == k.own and <int64_t> lsn > k.own_limit


cdef bint pick_put(Pick *k, bp begin, Head *h, bp body, bp end, uint8_t flags) noexcept nogil:
    """One packet. False without memory."""
    cdef Head changed
    cdef uint8_t *p
    if not buffer_room(&k.out, <size_t> (end - begin) + FRAME_HEAD + HEAD_MAX):
        return False
    p = k.out.data + k.out.size
    if h.group_id != GROUP_LOCAL and not k.sync and flags == h.flags and not h.odd:
        memcpy(p, begin - FRAME_HEAD, end - begin + FRAME_HEAD)
        k.out.size += end - begin + FRAME_HEAD
        return True
    changed = h[0]
    if h.group_id == GROUP_LOCAL:
        # Tarantool before 1.10.5 numbered local rows like others: peers get the number, not the change.
        changed.type = TYPE_NOP
        changed.group_id = 0
        end = body
    p = put_head(p + FRAME_HEAD, &changed, flags, k.sync)
    memcpy(p, body, end - body)
    p += end - body
    k.out.data[k.out.size] = 0xCE
    put_be(k.out.data + k.out.size + 1, p - k.out.data - k.out.size - FRAME_HEAD, 4)
    k.out.size = p - k.out.data
    return True


cdef bint pick_rows(Pick *k, bp p, bp end) noexcept nogil:
    """Row by row. False without memory."""
    cdef Head h, kept
    cdef bp begin, after, body
    cdef bp kept_begin = NULL  # the last row of this transaction that stays
    cdef bp kept_body = NULL
    cdef bp kept_end = NULL
    cdef size_t kept_at = 0    # where it lies in `out`
    cdef uint64_t tsn = 0      # of what stays of this transaction
    cdef bint new
    while p < end:
        begin = p + FRAME_HEAD
        after = begin + load_be(p + 1, 4)
        body = read_head(begin, after, &h)
        p = after
        if not h.is_part:
            kept_begin = NULL
        new = <int64_t> h.lsn > k.have[h.replica_id]
        if new:
            k.have[h.replica_id] = <int64_t> h.lsn
        if new and not pick_skips(k, h.replica_id, h.lsn):
            # applier.cc, set_next_tx_row: the TSN is the LSN of the first row, also where a peer has the first ones.
            if kept_begin == NULL:
                tsn = h.lsn
            if h.tsn != tsn:
                h.tsn = tsn
                h.odd = True
            kept = h
            kept_begin, kept_body, kept_end, kept_at = begin, body, after, k.out.size
            k.rows += 1
            if not pick_put(k, begin, &h, body, after, h.flags):
                return False
        elif h.flags & FLAG_COMMIT and kept_begin != NULL:
            k.out.size = kept_at
            if not pick_put(k, kept_begin, &kept, kept_body, kept_end, h.flags):
                return False
        if h.flags & FLAG_COMMIT:
            kept_begin = NULL
    return True


cdef class Frames:
    """A batch of the journal as packets. It never changes; any number of relays share it."""

    cdef readonly bytes data
    cdef readonly bint plain
    cdef readonly double timestamp
    cdef bint exact
    cdef Py_ssize_t count
    cdef Span *span
    cdef uint32_t spans

    def __init__(self):
        raise TypeError("frames come from frame_rows")

    def __dealloc__(self):
        free(self.span)

    def __len__(self):
        return self.count

    @property
    def last(self):
        """(replica id, greatest LSN of it), by growing id."""
        return [(self.span[i].replica_id, self.span[i].high) for i in range(self.spans)]

    def pick(self, list have not None, skip, own, own_limit, sync):
        """What one peer gets of it, and how many rows that is."""
        cdef Pick k
        cdef Span *span
        cdef uint32_t i
        cdef bint all_of_it = self.exact
        cdef bint some = False
        if len(have) != 32:
            raise ValueError(f"a position has 32 LSNs, not {len(have)}")
        k.skip = <uint32_t> (skip & 0xFFFFFFFF) | 1
        k.own = own
        k.own_limit = min(own_limit, 0x7FFFFFFFFFFFFFFF)
        k.sync = sync
        for i in range(self.spans):
            span = &self.span[i]
            k.have[span.replica_id] = have[span.replica_id]
            if k.have[span.replica_id] >= span.low or pick_skips(&k, span.replica_id, span.high):
                all_of_it = False
            if k.have[span.replica_id] < span.high and not pick_skips(&k, span.replica_id, span.low):
                some = True
        if some and (k.sync or not all_of_it):
            return self.walk(have, &k)
        self.move(have)
        return (self.data, self.count) if some else (b"", 0)

    cdef object walk(self, list have, Pick *k):
        cdef bp start = <bp> PyBytes_AS_STRING(self.data)
        memset(&k.out, 0, sizeof(Buffer))
        k.rows = 0
        try:
            if not pick_rows(k, start, start + PyBytes_GET_SIZE(self.data)):
                raise MemoryError
            out = PyBytes_FromStringAndSize(<const char *> k.out.data, k.out.size)
        finally:
            free(k.out.data)
        self.move(have)
        return out, k.rows

    cdef int move(self, list have) except -1:
        cdef uint32_t i
        for i in range(self.spans):
            if have[self.span[i].replica_id] < self.span[i].high:
                have[self.span[i].replica_id] = self.span[i].high
        return 0

    def rows(self):
        """(begin, end, type, replica id, LSN, is it the last of its transaction) of each row."""
        cdef bp start = <bp> PyBytes_AS_STRING(self.data)
        cdef bp end = start + PyBytes_GET_SIZE(self.data)
        cdef bp p = start
        cdef bp begin
        cdef Head h
        out = []
        while p < end:
            begin = p + FRAME_HEAD
            p = begin + load_be(p + 1, 4)
            read_head(begin, p, &h)
            out.append((begin - start, p - start, h.type, h.replica_id, h.lsn, bool(h.flags & FLAG_COMMIT)))
        return out

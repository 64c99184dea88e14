# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: nonecheck=False, overflowcheck=False, binding=True
"""From logs to states: what rows say, and rows parted by primary key. The contract is `_split.pyi`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_Clear
from cpython.ref cimport PyObject, Py_XDECREF, Py_XINCREF
from libc.math cimport isnan
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

from headwater.errors import MsgPackError
from headwater.kernels.columnplan import RowError

__all__ = ["Splitter", "Survey", "keys_of", "number", "tuples_of", "unframe"]

include "mp.pxi"
include "ext.pxi"
include "number.pxi"
include "compare.pxi"
include "types.pxi"
include "probe.pxi"
include "keydef.pxi"
include "columns_buffer.pxi"
include "columns_row.pxi"

cdef enum:
    TYPE_RAFT = 30
    TYPE_PROMOTE = 31
    TYPE_DEMOTE = 32
    TYPE_CONFIRM = 40
    TYPE_ROLLBACK = 41
    FLAG_WAIT_SYNC = 2
    FLAG_WAIT_ACK = 4
    STOP_END = 0
    STOP_BEYOND = 1
    STOP_WORD = 2
    REPLICAS = 32
    HEAD_MAX = 64          # bytes of a header that is written here, at most

cdef uint64_t I64_MAX = <uint64_t> 0x7FFFFFFFFFFFFFFF


cdef int fill_lsns(object numbers, int64_t *out) except -1:
    cdef int at
    if len(numbers) != REPLICAS:
        raise ValueError(f"{REPLICAS} numbers are needed, not {len(numbers)}")
    for at in range(REPLICAS):
        out[at] = numbers[at]
    return 0


cdef bp read_row(bytes rows, bp p, bp end, bp *body, RowHead *h) except NULL:
    """Behind the row at p."""
    cdef bp after = row_check(p, end, body, h)
    if after == NULL or h.replica_id >= REPLICAS:
        raise RowError("can't parse row", p - data_of(rows), h.lsn if after != NULL else 0, -1)
    return after


cdef int64_t space_of(bytes rows, bp p, bp body, RowHead *h) except? -2:
    """The space of a change; -1 without one."""
    cdef RowBody b
    cdef bp at = body + 1
    if body == NULL:
        return -1
    # Almost every body begins with its space, so that the rest need not be looked at.
    if body[0] & 0xF0 == 0x80 and body[0] != 0x80 and at[0] == 0x10 and TYPE_OF[at[1]] == MP_UINT:
        return <int64_t> (load_uint(at + 1) & U32_MAX)
    if not row_body(body, h.type, &b):
        raise RowError("can't parse row", p - data_of(rows), h.lsn, -1)
    return b.space_id


# ---- spaces by id ----------------------------------------------------------------------------------

cdef struct Slot:
    int64_t space_id       # -1: free
    uint64_t rows
    uint64_t size
    int32_t index          # of what is known of the space, -1 for nothing

cdef struct Table:
    Slot *slot
    uint32_t cap           # a power of two
    uint32_t used


cdef int table_init(Table *t, uint32_t cap) except -1:
    cdef uint32_t at
    t.slot = <Slot *> calloc(cap, sizeof(Slot))
    if t.slot == NULL:
        raise MemoryError
    t.cap = cap
    t.used = 0
    for at in range(cap):
        t.slot[at].space_id = -1
        t.slot[at].index = -1
    return 0


cdef inline Slot *table_look(Table *t, int64_t space_id) noexcept nogil:
    """Its slot, or a free one."""
    cdef uint32_t at = (<uint32_t> space_id * <uint32_t> 2654435761) & (t.cap - 1)
    while t.slot[at].space_id != space_id and t.slot[at].space_id != -1:
        at = (at + 1) & (t.cap - 1)
    return &t.slot[at]


cdef Slot *table_put(Table *t, int64_t space_id) except NULL:
    cdef Slot *slot = table_look(t, space_id)
    cdef Table wider
    cdef uint32_t at
    if slot.space_id != -1:
        return slot
    if t.used * 2 >= t.cap:
        table_init(&wider, t.cap * 2)
        for at in range(t.cap):
            if t.slot[at].space_id != -1:
                table_look(&wider, t.slot[at].space_id)[0] = t.slot[at]
        wider.used = t.used
        free(t.slot)
        t[0] = wider
        slot = table_look(t, space_id)
    slot.space_id = space_id
    t.used += 1
    return slot


# ---- what a log says -------------------------------------------------------------------------------

cdef struct Waiting:
    uint64_t owner
    int64_t first
    int64_t lsn
    uint64_t row
    bint is_sync


cdef class Survey:
    """What the rows of a log say, as far as a range reaches."""

    cdef int64_t low[REPLICAS]
    cdef int64_t high[REPLICAS]
    cdef int64_t reached[REPLICAS]
    cdef int64_t named[REPLICAS]
    cdef double until
    cdef int64_t system_max
    cdef uint64_t step, since
    cdef frozenset sync_spaces
    cdef bint is_old
    cdef Table table
    cdef Waiting *queue
    cdef size_t queue_at, queue_end, queue_cap
    cdef list notable, samples
    cdef bint has_word
    # Of the transaction that is being taken in.
    cdef uint64_t tx_row, tx_owner
    cdef int64_t tx_first, tx_last
    cdef bint tx_sync
    cdef bint skips
    cdef readonly uint64_t rows, kept, skipped
    cdef readonly double begin, end

    def __cinit__(self, low, high, until, system_max, sync_spaces=(), sample_step=0, skips=False):
        fill_lsns(low, self.low)
        fill_lsns(high, self.high)
        self.until = until
        self.system_max = system_max
        self.sync_spaces = frozenset(sync_spaces)
        self.is_old = bool(self.sync_spaces)
        self.step = sample_step
        self.skips = skips
        self.since = sample_step
        self.notable = []
        self.samples = []
        table_init(&self.table, 64)

    def __dealloc__(self):
        free(self.table.slot)
        free(self.queue)

    def walk(self, bytes rows not None, Py_ssize_t offset):
        """Read transactions from `offset` on: where it stopped, and why."""
        cdef bp start = data_of(rows)
        cdef bp end = start + PyBytes_GET_SIZE(rows)
        cdef bp p, after, body
        cdef RowHead h
        check_range(rows, offset, PyBytes_GET_SIZE(rows))
        self.notable = []
        self.samples = []
        self.has_word = False
        p = start + offset
        while p < end:
            after = read_row(rows, p, end, &body, &h)
            if h.flags & FLAG_COMMIT:
                if self.is_beyond(&h) or h.timestamp > self.until:
                    if not self.skips:
                        return p - start, STOP_BEYOND
                    self.skip(1)
                    p = after
                    continue
                self.tx_owner = 0
                self.tx_sync = False
                self.take(rows, p, after, body, &h)
                self.end_of(&h)
            else:
                after = self.several(rows, p, end)
                if after == p:
                    return p - start, STOP_BEYOND
            p = after
            if self.has_word:
                return p - start, STOP_WORD
        return end - start, STOP_END

    cdef void skip(self, uint64_t count) noexcept:
        self.rows += count
        self.skipped += count

    cdef bint is_beyond(self, RowHead *h) noexcept:
        return h.replica_id != 0 and h.lsn > self.high[h.replica_id]

    cdef bp several(self, bytes rows, bp p, bp end) except NULL:
        """Behind the transaction of several rows at p, or p itself if it is beyond the range."""
        cdef bp at = p
        cdef bp after, body
        cdef RowHead h
        cdef uint64_t count = 0
        cdef bint beyond = False
        while True:
            if at >= end:
                raise RowError("a transaction is not finished", p - data_of(rows), h.lsn, -1)
            at = read_row(rows, at, end, &body, &h)
            count += 1
            beyond |= self.is_beyond(&h)
            if h.flags & FLAG_COMMIT:
                break
        if beyond or h.timestamp > self.until:
            if not self.skips:
                return p
            self.skip(count)
            return at
        self.tx_owner = 0
        self.tx_sync = False
        while p < at:
            after = read_row(rows, p, end, &body, &h)
            self.take(rows, p, after, body, &h)
            p = after
        self.end_of(&h)
        return at

    cdef int take(self, bytes rows, bp p, bp after, bp body, RowHead *h) except -1:
        """One row."""
        cdef uint64_t number = self.rows
        cdef uint64_t r = h.replica_id
        cdef int64_t space_id
        cdef Slot *slot
        cdef bp start = data_of(rows)
        self.rows += 1
        if h.lsn > self.high[r]:
            return 0
        if h.lsn > self.reached[r]:
            self.reached[r] = h.lsn
        if h.lsn <= self.low[r]:
            return 0
        if r and self.tx_owner == 0:
            self.tx_owner = r
            self.tx_first = h.lsn
            self.tx_row = number
        if r:
            self.tx_last = h.lsn
        if self.kept == 0 or h.timestamp < self.begin:
            self.begin = h.timestamp
        if self.kept == 0 or h.timestamp > self.end:
            self.end = h.timestamp
        self.kept += 1
        if h.is_dml:
            space_id = space_of(rows, p, body, h)
            slot = table_put(&self.table, space_id)
            slot.rows += 1
            slot.size += <uint64_t> (after - p)
            if space_id <= self.system_max:
                self.notable.append((number, p - start, after - start))
            elif self.step:
                self.since += <uint64_t> (after - p)
                if self.since >= self.step:
                    self.since = 0
                    self.samples.append((p - start, after - start))
            if self.is_old and space_id in self.sync_spaces:
                self.tx_sync = True
        elif h.type == TYPE_CONFIRM:
            self.confirm(rows, p, body, h)
        elif h.type == TYPE_ROLLBACK or h.type == TYPE_PROMOTE or h.type == TYPE_DEMOTE:
            self.has_word = True
            self.notable.append((number, p - start, after - start))
        elif h.type == TYPE_RAFT:
            self.notable.append((number, p - start, after - start))
        return 0

    cdef int end_of(self, RowHead *h) except -1:
        """The last row of a transaction: does it wait?"""
        cdef Waiting *w
        cdef bint is_sync
        if self.tx_owner == 0:
            return 0
        is_sync = h.flags & FLAG_WAIT_ACK != 0 or self.tx_sync
        if not is_sync and not h.flags & FLAG_WAIT_SYNC and not (self.is_old and self.queue_at < self.queue_end):
            return 0
        if self.queue_end == self.queue_cap:
            self.queue_room()
        w = &self.queue[self.queue_end]
        self.queue_end += 1
        w.owner = self.tx_owner
        w.first = self.tx_first
        w.lsn = self.tx_last
        w.row = self.tx_row
        w.is_sync = is_sync
        return 0

    cdef int queue_room(self) except -1:
        cdef size_t n = self.queue_end - self.queue_at
        cdef size_t cap = self.queue_cap if n * 2 < self.queue_cap else (self.queue_cap * 2 or 64)
        cdef Waiting *queue = <Waiting *> malloc(cap * sizeof(Waiting))
        if queue == NULL:
            raise MemoryError
        if n:
            memcpy(queue, self.queue + self.queue_at, n * sizeof(Waiting))
        free(self.queue)
        self.queue = queue
        self.queue_cap = cap
        self.queue_at = 0
        self.queue_end = n
        return 0

    cdef int confirm(self, bytes rows, bp p, bp body, RowHead *h) except -1:
        """Everything of an owner up to an LSN is final (xrow.c, xrow_decode_synchro)."""
        cdef uint32_t count, at
        cdef uint64_t key, owner = 0, lsn = 0
        cdef Waiting *w
        if body == NULL or TYPE_OF[body[0]] != MP_MAP:
            raise RowError("can't parse row", p - data_of(rows), h.lsn, -1)
        body = load_count(body, &count)
        for at in range(count):
            key = load_uint(body) if TYPE_OF[body[0]] == MP_UINT else 0
            body = mp_skip(body)
            if (key == 2 or key == 3) and TYPE_OF[body[0]] != MP_UINT:
                raise RowError("can't parse row", p - data_of(rows), h.lsn, -1)
            if key == 2:
                owner = load_uint(body)
            elif key == 3:
                lsn = load_uint(body)
            body = mp_skip(body)
        if owner >= REPLICAS or lsn > I64_MAX:
            raise RowError("can't parse row", p - data_of(rows), h.lsn, -1)
        if <int64_t> lsn > self.named[owner]:
            self.named[owner] = <int64_t> lsn
        while self.queue_at < self.queue_end:
            w = &self.queue[self.queue_at]
            if w.owner != owner or w.lsn > <int64_t> lsn:
                break
            self.queue_at += 1
        return 0

    def take_notable(self):
        out, self.notable = self.notable, []
        return out

    def take_samples(self):
        out, self.samples = self.samples, []
        return out

    def last(self):
        return [(at, self.reached[at]) for at in range(REPLICAS) if self.reached[at]]

    def spaces(self):
        cdef uint32_t at
        return {
            self.table.slot[at].space_id: (self.table.slot[at].rows, self.table.slot[at].size)
            for at in range(self.table.cap)
            if self.table.slot[at].space_id != -1
        }

    def waiting(self):
        cdef size_t at
        out = []
        for at in range(self.queue_at, self.queue_end):
            w = self.queue[at]
            out.append((w.owner, w.first, w.lsn, w.row, bool(w.is_sync)))
        return out

    def confirmed(self):
        return [(at, self.named[at]) for at in range(REPLICAS) if self.named[at]]

    def new_queue(self):
        self.queue_at = self.queue_end = 0
        memset(self.named, 0, sizeof(self.named))


# ---- rows parted by key ----------------------------------------------------------------------------

cdef class _Space:
    """How the rows of one space are parted."""

    cdef KeyDef by_tuple       # parts as they lie in a tuple
    cdef KeyDef by_key         # as they lie in a key
    cdef list bounds           # keeps the bytes that the probes point at
    cdef Probe *of_tuple       # a probe of each bound, to compare tuples with
    cdef Probe *of_key         # and keys
    cdef uint32_t count
    cdef uint32_t first
    cdef int64_t number_field
    cdef bint has_number
    cdef int64_t least, greatest

    def __cinit__(self, parts, bounds, first, number_field):
        cdef uint32_t at, n
        cdef bp p
        self.by_tuple = KeyDef([KeyPart(field, type_, nullable, False, sort_key) for field, type_, nullable, sort_key in parts])
        self.by_key = KeyDef([
            KeyPart(place, type_, nullable, False, sort_key) for place, (_, type_, nullable, sort_key) in enumerate(parts)
        ])
        self.bounds = list(bounds)
        self.first = first
        self.number_field = number_field
        self.of_tuple = <Probe *> calloc(len(self.bounds) + 1, sizeof(Probe))
        self.of_key = <Probe *> calloc(len(self.bounds) + 1, sizeof(Probe))
        if self.of_tuple == NULL or self.of_key == NULL:
            raise MemoryError
        for at in range(len(self.bounds)):
            p = key_checked(self.by_key.kd, self.bounds[at], False, &n)
            if n != self.by_key.kd.own:
                raise ValueError("a bound has a value for every part of the key")
            if probe_key(&self.of_tuple[at], self.by_tuple.kd, p, n) < 0:
                probe_failed(self.by_tuple.kd)
            self.count = at + 1
            if probe_key(&self.of_key[at], self.by_key.kd, p, n) < 0:
                probe_done(&self.of_tuple[at])
                self.count = at
                probe_failed(self.by_key.kd)

    def __dealloc__(self):
        cdef uint32_t at
        for at in range(self.count):
            probe_done(&self.of_tuple[at])
            probe_done(&self.of_key[at])
        free(self.of_tuple)
        free(self.of_key)

    cdef bint fits(self, KDef *kd, bp array) noexcept:
        """Has the checked array values for all parts, of types that have an order?"""
        cdef bp f[PART_MAX]
        cdef uint32_t at
        fields_of(kd, kd.own, array, f)
        for at in range(kd.own):
            if field_accepts(kd.part[at].type, kd.part[at].nullable, f[at]) != FIELD_OK:
                return False
        return True

    cdef uint32_t bucket(self, bp array, bint is_key) except? 0xFFFFFFFF:
        """Of a tuple or a key. What does not fit is for who applies it to refuse, and may go anywhere."""
        cdef KDef *kd = self.by_key.kd if is_key else self.by_tuple.kd
        cdef Probe *probes = self.of_key if is_key else self.of_tuple
        cdef uint32_t low = 0
        cdef uint32_t high = self.count
        cdef uint32_t middle
        if high == 0 or not self.fits(kd, array):
            return self.first
        while low < high:
            middle = (low + high) >> 1
            if probe_compare(&probes[middle], 0, array) < 0:
                high = middle
            else:
                low = middle + 1
        kdef_raise(kd)
        return self.first + low

    cdef void watch(self, bp tuple) noexcept:
        """The number that moves a sequence on."""
        cdef bp f
        cdef int64_t value
        if self.number_field < 0:
            return
        f = field_of(tuple, <uint32_t> self.number_field)
        if TYPE_OF[f[0]] == MP_UINT and load_uint(f) <= I64_MAX:
            value = <int64_t> load_uint(f)
        elif TYPE_OF[f[0]] == MP_INT:
            value = load_int(f)
        else:
            return
        if not self.has_number or value < self.least:
            self.least = value
        if not self.has_number or value > self.greatest:
            self.greatest = value
        self.has_number = True


cdef class Splitter:
    """Parts rows by primary key."""

    cdef int64_t low[REPLICAS]
    cdef int64_t high[REPLICAS]
    cdef Table table
    cdef list spaces
    cdef Buf *out
    cdef uint64_t *counts
    cdef uint32_t buckets
    cdef int64_t *dropped      # first and last LSN, growing
    cdef size_t dropped_at[REPLICAS + 1]
    cdef readonly size_t size

    def __cinit__(self, uint32_t buckets):
        cdef int at
        self.buckets = buckets
        self.spaces = []
        self.out = <Buf *> calloc(buckets + 1, sizeof(Buf))
        self.counts = <uint64_t *> calloc(buckets + 1, sizeof(uint64_t))
        if self.out == NULL or self.counts == NULL:
            raise MemoryError
        table_init(&self.table, 64)
        for at in range(REPLICAS):
            self.low[at] = -1
            self.high[at] = <int64_t> I64_MAX

    def __dealloc__(self):
        cdef uint32_t at
        if self.out != NULL:
            for at in range(self.buckets):
                free(self.out[at].data)
        free(self.out)
        free(self.counts)
        free(self.dropped)
        free(self.table.slot)

    def set_range(self, low, high):
        fill_lsns(low, self.low)
        fill_lsns(high, self.high)

    def set_dropped(self, ranges):
        cdef size_t at = 0
        cdef int replica
        ordered = sorted(ranges)
        free(self.dropped)
        self.dropped = <int64_t *> malloc((len(ordered) + 1) * 2 * sizeof(int64_t))
        if self.dropped == NULL:
            raise MemoryError
        for replica in range(REPLICAS + 1):
            self.dropped_at[replica] = 0
        for replica_id, first, last in ordered:
            if not 0 < replica_id < REPLICAS:
                raise ValueError(f"there is no replica {replica_id} whose transactions could be taken back")
            self.dropped[2 * at] = first
            self.dropped[2 * at + 1] = last
            at += 1
            self.dropped_at[replica_id + 1] = at
        for replica in range(1, REPLICAS + 1):
            if self.dropped_at[replica] < self.dropped_at[replica - 1]:
                self.dropped_at[replica] = self.dropped_at[replica - 1]

    cdef bint is_dropped(self, RowHead *h) noexcept:
        cdef size_t low = self.dropped_at[h.replica_id]
        cdef size_t high = self.dropped_at[h.replica_id + 1]
        cdef size_t middle
        while low < high:
            middle = (low + high) >> 1
            if h.lsn > self.dropped[2 * middle + 1]:
                low = middle + 1
            elif h.lsn < self.dropped[2 * middle]:
                high = middle
            else:
                return True
        return False

    def set_space(self, space_id, parts, bounds, uint32_t first, int64_t number_field=-1):
        cdef Slot *slot
        cdef _Space space = _Space(parts, bounds, first, number_field)
        if first + space.count >= self.buckets:
            raise ValueError(f"there are {self.buckets} buckets")
        slot = table_put(&self.table, space_id)
        slot.index = <int32_t> len(self.spaces)
        self.spaces.append(space)

    def drop_space(self, space_id):
        cdef Slot *slot = table_look(&self.table, space_id)
        if slot.space_id != -1:
            slot.index = -1

    def split(self, bytes rows not None, Py_ssize_t offset, uint64_t count):
        """Read at most `count` rows: where it stopped, and how many it read."""
        cdef bp start = data_of(rows)
        cdef bp end = start + PyBytes_GET_SIZE(rows)
        cdef bp p, after, body
        cdef RowHead h
        cdef Slot *slot
        cdef int64_t space_id
        cdef uint64_t read = 0
        check_range(rows, offset, PyBytes_GET_SIZE(rows))
        p = start + offset
        while p < end and read < count:
            after = read_row(rows, p, end, &body, &h)
            read += 1
            if h.is_dml and self.low[h.replica_id] < h.lsn <= self.high[h.replica_id]:
                space_id = space_of(rows, p, body, &h)
                slot = table_look(&self.table, space_id)
                if slot.space_id != -1 and slot.index >= 0 and not self.is_dropped(&h):
                    self.place(rows, <_Space> self.spaces[slot.index], p, body, after, &h)
            p = after
        return p - start, read

    cdef int place(self, bytes rows, _Space space, bp p, bp body, bp after, RowHead *h) except -1:
        cdef RowBody b
        cdef uint32_t at
        if not row_body(body, h.type, &b):
            raise RowError("can't parse row", p - data_of(rows), h.lsn, -1)
        if h.type == TYPE_INSERT or h.type == TYPE_REPLACE or h.type == TYPE_UPSERT:
            if b.tuple == NULL:
                raise RowError("a row without its tuple", p - data_of(rows), h.lsn, -1)
            if h.type != TYPE_UPSERT:
                space.watch(b.tuple)
            self.add(space.bucket(b.tuple, False), body, after, h)
        elif h.type == TYPE_DELETE or h.type == TYPE_UPDATE:
            if b.key == NULL:
                raise RowError("a row without its key", p - data_of(rows), h.lsn, -1)
            if b.index_id == 0:
                self.add(space.bucket(b.key, True), body, after, h)
            # By another index: nothing was found, or the row would name the primary key (space.c, space_execute_dml).
        elif h.type == TYPE_DELETE_RANGE:
            for at in range(space.count + 1):
                self.add(space.first + at, body, after, h)
        return 0

    cdef int add(self, uint32_t bucket, bp body, bp after, RowHead *h) except -1:
        cdef Buf *out = &self.out[bucket]
        cdef uint8_t *p
        cdef uint8_t *begin
        cdef size_t before = out.size
        buf_room(out, HEAD_MAX + (after - body))
        begin = out.data + out.size
        begin[1] = 0
        p = put_uint(begin + 2, h.type)
        begin[0] = 0x81
        if h.replica_id:
            p[0] = 2
            p = put_uint(p + 1, h.replica_id)
            begin[0] += 1
        if h.lsn:
            p[0] = 3
            p = put_uint(p + 1, <uint64_t> h.lsn)
            begin[0] += 1
        memcpy(p, body, after - body)
        out.size = (p - out.data) + (after - body)
        self.counts[bucket] += 1
        self.size += out.size - before
        return 0

    def put(self, uint32_t bucket, bytes row not None):
        if bucket >= self.buckets:
            raise ValueError(f"there are {self.buckets} buckets")
        buf_put(&self.out[bucket], data_of(row), PyBytes_GET_SIZE(row))
        self.counts[bucket] += 1
        self.size += PyBytes_GET_SIZE(row)

    def take(self):
        cdef uint32_t at
        out = []
        for at in range(self.buckets):
            if self.counts[at]:
                out.append((at, PyBytes_FromStringAndSize(<char *> self.out[at].data, self.out[at].size), self.counts[at]))
                self.out[at].size = 0
                self.counts[at] = 0
        self.size = 0
        return out

    def numbers(self):
        cdef uint32_t at
        cdef _Space space
        out = {}
        for at in range(self.table.cap):
            if self.table.slot[at].space_id != -1 and self.table.slot[at].index >= 0:
                space = self.spaces[self.table.slot[at].index]
                if space.has_number:
                    out[self.table.slot[at].space_id] = (space.least, space.greatest)
                    space.has_number = False
        return out


# ---- rows of snapshots -----------------------------------------------------------------------------


def number(bytes rows not None, Py_ssize_t offset, uint64_t base, Py_ssize_t limit):
    """Rows with the LSNs base, base + 1, … in place of theirs."""
    cdef bp start = data_of(rows)
    cdef bp end = start + PyBytes_GET_SIZE(rows)
    cdef bp p, after, body
    cdef RowHead h
    cdef Buf out
    cdef uint8_t *q
    cdef uint8_t *begin
    cdef uint64_t count = 0
    check_range(rows, offset, PyBytes_GET_SIZE(rows))
    memset(&out, 0, sizeof(Buf))
    p = start + offset
    try:
        while p < end and (count == 0 or <Py_ssize_t> out.size < limit):
            after = read_row(rows, p, end, &body, &h)
            if body == NULL:
                body = after
            buf_room(&out, HEAD_MAX + (after - body))
            begin = out.data + out.size
            begin[0] = 0x81
            begin[1] = 0
            q = put_uint(begin + 2, h.type)
            if h.group_id:
                q[0] = 7
                q = put_uint(q + 1, h.group_id)
                begin[0] += 1
            if base + count:
                q[0] = 3
                q = put_uint(q + 1, base + count)
                begin[0] += 1
            if h.timestamp != 0:
                q[0] = 4
                q = put_double(q + 1, h.timestamp)
                begin[0] += 1
            memcpy(q, body, after - body)
            out.size = (q - out.data) + (after - body)
            count += 1
            p = after
        return PyBytes_FromStringAndSize(<char *> out.data, out.size) if out.size else b"", p - start, count
    finally:
        free(out.data)


def keys_of(bytes rows not None, Py_ssize_t offset, spaces):
    """(space, primary key) of each change of a space whose key fields are known."""
    cdef bp start = data_of(rows)
    cdef bp end = start + PyBytes_GET_SIZE(rows)
    cdef bp p, after, body, array
    cdef RowHead h
    cdef RowBody b
    cdef uint32_t count
    check_range(rows, offset, PyBytes_GET_SIZE(rows))
    out = []
    p = start + offset
    while p < end:
        after = read_row(rows, p, end, &body, &h)
        if h.is_dml and body != NULL:
            if not row_body(body, h.type, &b):
                raise RowError("can't parse row", p - start, h.lsn, -1)
            fields = spaces.get(b.space_id)
            array = b.tuple if b.tuple != NULL else b.key if b.index_id == 0 else NULL
            if fields is not None and array != NULL:
                load_count(array, &count)
                key = key_bytes(array, fields if b.tuple != NULL else range(len(fields)), count)
                if key is not None:
                    out.append((b.space_id, key))
        p = after
    return out


cdef object key_bytes(bp array, object fields, uint32_t count):
    """The fields of an array as an array; None if one is missing."""
    cdef uint8_t head[8]
    cdef uint32_t field
    cdef bp f
    cdef uint8_t *p = put_array(head, <uint32_t> len(fields))
    out = [PyBytes_FromStringAndSize(<char *> head, p - head)]
    for field in fields:
        if field >= count:
            return None
        f = field_of(array, field)
        out.append(PyBytes_FromStringAndSize(<const char *> f, mp_skip(f) - f))
    return b"".join(out)


cdef bp packet_body(bytes packets, bp p, bp end, bp *after) except? NULL:
    """Where the header of the packet at p begins, and the offset after it; NULL if it is not whole."""
    cdef uint64_t size
    after[0] = NULL
    if p >= end:
        return NULL
    if TYPE_OF[p[0]] != MP_UINT:
        raise RowError("a packet does not begin with its length", p - data_of(packets), 0, -1)
    if SIZE_OF[p[0]] > end - p:
        return NULL
    size = load_uint(p)
    p += SIZE_OF[p[0]]
    if size > <uint64_t> (end - p):
        return NULL
    after[0] = p + size
    return p


def unframe(bytes packets not None, Py_ssize_t offset, int64_t base):
    """Packets as rows of a file."""
    cdef bp start = data_of(packets)
    cdef bp end = start + PyBytes_GET_SIZE(packets)
    cdef bp p, head, after, row_end, body
    cdef RowHead h
    cdef Buf out
    cdef uint64_t count = 0
    check_range(packets, offset, PyBytes_GET_SIZE(packets))
    memset(&out, 0, sizeof(Buf))
    p = start + offset
    try:
        while True:
            head = packet_body(packets, p, end, &after)
            if head == NULL:
                break
            row_end = read_row(packets, head, after, &body, &h)
            if row_end != after:
                raise RowError("can't parse row", p - start, h.lsn, -1)
            put_row(&out, &h, body if body != NULL else after, after, base + <int64_t> count if base >= 0 else -1)
            count += 1
            p = after
        return PyBytes_FromStringAndSize(<char *> out.data, out.size) if out.size else b"", p - start, count
    finally:
        free(out.data)


cdef int put_row(Buf *out, RowHead *h, bp body, bp after, int64_t number) except -1:
    """With this number as a row of a snapshot; with -1 as a row of a log that waits for nobody."""
    cdef uint8_t *p
    cdef uint8_t *begin
    cdef bint several = number < 0 and (h.tsn != h.lsn or not h.flags & FLAG_COMMIT)
    cdef uint64_t lsn = <uint64_t> h.lsn if number < 0 else <uint64_t> number
    buf_room(out, HEAD_MAX + (after - body))
    begin = out.data + out.size
    begin[0] = 0x81
    begin[1] = 0
    p = put_uint(begin + 2, h.type)
    if h.replica_id and number < 0:
        p[0] = 2
        p = put_uint(p + 1, h.replica_id)
        begin[0] += 1
    if h.group_id:
        p[0] = 7
        p = put_uint(p + 1, h.group_id)
        begin[0] += 1
    if lsn:
        p[0] = 3
        p = put_uint(p + 1, lsn)
        begin[0] += 1
    if h.timestamp != 0:
        p[0] = 4
        p = put_double(p + 1, h.timestamp)
        begin[0] += 1
    if several:
        p[0] = 8
        p = put_uint(p + 1, <uint64_t> (h.lsn - h.tsn))
        begin[0] += 1
        if h.flags & FLAG_COMMIT:
            p[0] = 9
            p[1] = FLAG_COMMIT
            p += 2
            begin[0] += 1
    memcpy(p, body, after - body)
    out.size = (p - out.data) + (after - body)
    return 0


def tuples_of(bytes rows not None, Py_ssize_t offset):
    """(offsets, data) of the tuples of INSERT and REPLACE rows."""
    cdef bp start = data_of(rows)
    cdef bp end = start + PyBytes_GET_SIZE(rows)
    cdef bp p, after, body
    cdef RowHead h
    cdef RowBody b
    cdef Buf ends, out
    cdef uint8_t four[4]
    check_range(rows, offset, PyBytes_GET_SIZE(rows))
    memset(&ends, 0, sizeof(Buf))
    memset(&out, 0, sizeof(Buf))
    p = start + offset
    try:
        store_le(four, 0, 4)
        buf_put(&ends, four, 4)
        while p < end:
            after = read_row(rows, p, end, &body, &h)
            if (h.type == TYPE_INSERT or h.type == TYPE_REPLACE) and body != NULL:
                if not row_body(body, h.type, &b):
                    raise RowError("can't parse row", p - start, h.lsn, -1)
                if b.tuple == NULL:
                    raise RowError("a row without its tuple", p - start, h.lsn, -1)
                buf_put(&out, b.tuple, mp_skip(b.tuple) - b.tuple)
                if out.size > 0x7FFFFFFF:
                    raise ValueError("more than 2 GiB of tuples")
                store_le(four, out.size, 4)
                buf_put(&ends, four, 4)
            p = after
        return (
            PyBytes_FromStringAndSize(<char *> ends.data, ends.size),
            PyBytes_FromStringAndSize(<char *> out.data, out.size) if out.size else b"",
        )
    finally:
        free(ends.data)
        free(out.data)

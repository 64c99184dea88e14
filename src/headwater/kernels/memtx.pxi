# Every tuple of one node, as Python sees it.


cdef class Memtx:
    """Every tuple of one node, its undo log, and the compiled path for runs of plain requests."""

    cdef Mx *mx
    cdef dict spaces       # id -> MemtxSpace
    cdef dict calls        # position in the undo queue -> (rollback, confirm)

    def __cinit__(self):
        self.spaces = {}
        self.calls = {}
        self.mx = mx_new()
        if self.mx == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Undo *u
        cdef Mx *mx = self.mx
        if mx == NULL:
            return
        while mx.head < mx.tail:
            u = &mx.undo[mx.head & (mx.undo_room - 1)]
            mx.head += 1
            if u.space != NULL:
                undo_confirm(mx, u)
        mx_unref(mx)

    # ---- what is written into rows and replies

    @property
    def replica_id(self):
        """Origin written into rows. 0 until the node is registered."""
        return self.mx.replica_id

    @replica_id.setter
    def replica_id(self, value):
        self.mx.replica_id = check_component(value)

    @property
    def timestamp(self):
        """Written into rows; the loop sets it once a turn."""
        return self.mx.timestamp

    @timestamp.setter
    def timestamp(self, value):
        self.mx.timestamp = value

    @property
    def schema_version(self):
        """Written into replies."""
        return self.mx.schema_version

    @schema_version.setter
    def schema_version(self, value):
        self.mx.schema_version = value

    @property
    def rows_enabled(self):
        """False for wal_mode none: LSNs are still counted, no row bytes are made."""
        return bool(self.mx.rows_enabled)

    @rows_enabled.setter
    def rows_enabled(self, value):
        self.mx.rows_enabled = bool(value)

    @property
    def vclock(self):
        """Component i of what is prepared, 32 numbers."""
        return [self.mx.vclock[i] for i in range(32)]

    def set_lsn(self, replica_id, lsn):
        self.mx.vclock[check_component(replica_id)] = lsn

    def next_lsn(self, replica_id):
        """Count one up and return it."""
        cdef uint32_t i = check_component(replica_id)
        self.mx.vclock[i] += 1
        return self.mx.vclock[i]

    # ---- spaces

    def add_space(self, space_id, local=False, temporary=False):
        cdef MemtxSpace space
        cdef Space *s
        check_idle(self.mx)
        if not 0 <= space_id <= 0xFFFFFFFF:
            raise ValueError(f"space id {space_id} is not in 0..{0xFFFFFFFF}")
        if space_id in self.spaces:
            raise ValueError(f"there is a space {space_id}")
        space = MemtxSpace.__new__(MemtxSpace)
        s = <Space *> calloc(1, sizeof(Space))
        if s == NULL:
            raise MemoryError
        space.s = s
        s.handle = <PyObject *> space
        s.refs = 1
        s.mx = self.mx
        self.mx.refs += 1
        s.id = space_id
        s.local = bool(local)
        s.temporary = bool(temporary)
        self.restore_space(space)
        return space

    def remove_space(self, space_id):
        """It leaves the table of `run` and `apply`; keep the handle to put it back."""
        cdef MemtxSpace space = self.spaces[space_id]
        check_idle(self.mx)
        if not spaces_rebuild(self.mx, NULL, space.s):
            raise MemoryError
        del self.spaces[space_id]
        return space

    def restore_space(self, MemtxSpace space not None):
        check_idle(self.mx)
        if space.s.mx != self.mx or space.s.id in self.spaces:
            raise ValueError(f"there is a space {space.s.id}, or this one is of another node")
        if not spaces_rebuild(self.mx, space.s, NULL):
            raise MemoryError
        self.spaces[space.s.id] = space

    def space(self, space_id):
        return self.spaces.get(space_id)

    @property
    def bytes_used(self):
        return self.mx.used

    # ---- undo

    @property
    def undo_enabled(self):
        """False during recovery: writes leave no record."""
        return bool(self.mx.undo_enabled)

    @undo_enabled.setter
    def undo_enabled(self, value):
        self.mx.undo_enabled = bool(value)

    @property
    def undo_end(self):
        """Position after the newest record."""
        return self.mx.tail

    def push_undo(self, rollback, confirm=None):
        """A record made of calls: how DDL takes part."""
        check_idle(self.mx)
        if not self.mx.undo_enabled:
            if confirm is not None:
                confirm()
            return
        if not undo_room(self.mx):
            raise MemoryError
        self.calls[self.mx.tail] = (rollback, confirm)
        undo_push(self.mx, NULL, NULL, NULL, 0)
        self.mx.calls += 1

    def rollback_to(self, position):
        """Undo newest first down to `position`."""
        cdef Mx *mx = self.mx
        cdef Undo u
        check_idle(self.mx)
        if not mx.head <= position <= mx.tail:
            raise ValueError(f"position {position} is not in {mx.head}..{mx.tail}")
        while mx.tail > position:
            mx.tail -= 1
            u = mx.undo[mx.tail & (mx.undo_room - 1)]
            if u.space != NULL:
                undo_rollback(mx, &u)
                continue
            mx.calls -= 1
            self.calls.pop(mx.tail)[0]()

    def confirm_to(self, position):
        """Everything before `position` is final: forget it, oldest first."""
        cdef Mx *mx = self.mx
        cdef Undo u
        check_idle(self.mx)
        tidy(mx, TIDY_A_TURN)
        if position > mx.tail:
            raise ValueError(f"position {position} is behind the newest record, {mx.tail}")
        while mx.head < position:
            u = mx.undo[mx.head & (mx.undo_room - 1)]
            mx.head += 1
            if u.space != NULL:
                undo_confirm(mx, &u)
                continue
            mx.calls -= 1
            confirm = self.calls.pop(mx.head - 1)[1]
            if confirm is not None:
                confirm()

    # ---- views

    def open_view(self, space_ids):
        """A picture of these spaces, in this order."""
        check_idle(self.mx)
        spaces = []
        for space_id in space_ids:
            if space_id not in self.spaces:
                raise ValueError(f"there is no space {space_id}")
            spaces.append(self.spaces[space_id])
        return view_open(self.mx, spaces)

    # ---- rows

    def add_row(
        self, type, group_id, body, tsn=0, flags=0, replica_id=-1, lsn=0, timestamp=0.0
    ):
        """Append one encoded row. Returns its LSN."""
        cdef Mx *mx = self.mx
        cdef uint32_t origin = mx.replica_id if replica_id == -1 else check_component(replica_id)
        cdef uint64_t number = lsn
        cdef uint64_t first = tsn & 0xFFFFFFFFFFFFFFFF
        cdef uint32_t bits = flags
        cdef uint32_t group = group_id
        cdef uint32_t kind = type
        cdef double when = timestamp if timestamp != 0.0 else mx.timestamp
        cdef bint last = first == 0 or bits & FLAG_COMMIT != 0
        cdef bint several
        cdef bp content = data_of(body)
        cdef size_t size = PyBytes_GET_SIZE(body)
        cdef uint8_t *p
        check_idle(self.mx)
        if number > <uint64_t> 0x7FFFFFFFFFFFFFFF:
            raise ValueError(f"lsn {lsn} is too large")
        if not rows_room(mx, size):
            raise MemoryError
        if number == 0:
            if group == GROUP_LOCAL:
                origin = 0
            mx.vclock[origin] += 1
            number = <uint64_t> mx.vclock[origin]
        elif <int64_t> number > mx.vclock[origin]:
            mx.vclock[origin] = <int64_t> number
        if not mx.rows_enabled:
            return number
        several = first != 0 and (first != number or not bits & FLAG_COMMIT)
        if not several or first == number:
            bits &= ~<uint32_t> FLAG_COMMIT
        p = put_row_header(
            mx.rows.data + mx.rows.size, kind, origin, group, number, when, several, number - first, bits
        )
        memcpy(p, content, size)
        rows_end(mx, p + size, last)
        return number

    @property
    def rows_pending(self):
        """Bytes of rows not yet taken."""
        return self.mx.rows.size

    def take_rows(self, apart=0):
        """(bytes, offsets after each transaction's last row, count of rows), and start anew."""
        cdef Mx *mx = self.mx
        cdef const uint64_t *end = <const uint64_t *> mx.ends.data
        cdef size_t transactions = mx.ends.size // 8
        cdef uint64_t least = apart
        cdef uint64_t before = 0
        cdef size_t i
        cdef list ends = []
        check_idle(mx)
        tidy(mx, TIDY_A_TURN)
        rows = PyBytes_FromStringAndSize(<const char *> mx.rows.data, mx.rows.size)
        for i in range(transactions):
            if end[i] - before >= least or i + 1 == transactions:
                before = end[i]
                ends.append(before)
        count = mx.rows_count
        buffer_reset(&mx.rows)
        buffer_reset(&mx.ends)
        mx.rows_count = 0
        return rows, ends, count

    # ---- the compiled path

    def run(self, data, Py_ssize_t offset, Py_ssize_t end, int token, bint read_only):
        """Serve whole requests as far as this path goes: (offset where it stopped, replies, served, dirty)."""
        cdef Run run
        cdef uint64_t served = 0
        cdef bp start = data_of(data)
        cdef bp p
        check_idle(self.mx)
        check_range(data, offset, end)
        if not 0 <= token < 32:
            raise ValueError(f"auth token {token} is not in 0..31")
        run.mx = self.mx
        run.token = token
        run.read_only = read_only
        run.dirty = False
        self.mx.reply.size = 0
        tidy(self.mx, TIDY_A_TURN)
        p = run_all(&run, start + offset, start + end, &served)
        replies = PyBytes_FromStringAndSize(<const char *> self.mx.reply.data, self.mx.reply.size)
        buffer_reset(&self.mx.reply)
        return p - start, replies, served, bool(run.dirty)

    def take_served(self):
        """How many SELECT, INSERT, REPLACE and DELETE `run` served since the last call."""
        cdef uint64_t *n = self.mx.served
        counts = n[TYPE_SELECT], n[TYPE_INSERT], n[TYPE_REPLACE], n[TYPE_DELETE]
        memset(n, 0, sizeof(self.mx.served))
        return counts

    def apply(self, data, Py_ssize_t offset, Py_ssize_t end, bint snapshot):
        """Recovery: apply rows of a file: (offset where it stopped, rows taken, skipped ones included)."""
        cdef Apply a
        cdef bool_t undo = self.mx.undo_enabled
        cdef bp start = data_of(data)
        cdef bp p
        check_idle(self.mx)
        check_range(data, offset, end)
        a.mx = self.mx
        a.snapshot = snapshot
        a.rows = 0
        a.inside = False
        a.dup_space = NULL
        self.mx.undo_enabled = False
        if end - offset < FRAME_UNLOCKED:
            p = apply_all(&a, start + offset, start + end)
        else:
            self.mx.busy = True
            with nogil:
                p = apply_all(&a, start + offset, start + end)
            self.mx.busy = False
        self.mx.undo_enabled = undo
        if a.dup_space != NULL:
            new = PyBytes_FromStringAndSize(<const char *> a.row.tuple, a.row.tuple_end - a.row.tuple)
            raise DuplicateKey(a.change.dup_index, tuple_bytes(a.change.dup), new, p - start, a.rows)
        return p - start, a.rows

    def apply_frames(self, data, Py_ssize_t offset, Py_ssize_t end):
        """Whole transactions of a master's stream: (offset where it stopped, rows taken, time of the last of them)."""
        cdef Stream s
        cdef bool_t undo = self.mx.undo_enabled
        cdef bp start = data_of(data)
        cdef bp p
        check_idle(self.mx)
        check_range(data, offset, end)
        s.apply.mx = self.mx
        s.rows = 0
        s.begin = NULL
        s.when = 0.0
        tidy(self.mx, TIDY_A_TURN)
        self.mx.undo_enabled = True
        if end - offset < FRAME_UNLOCKED:
            p = stream_all(&s, start + offset, start + end)
        else:
            self.mx.busy = True
            with nogil:
                p = stream_all(&s, start + offset, start + end)
            self.mx.busy = False
        try:
            if s.begin != NULL:
                stream_back(&s)
        finally:
            self.mx.undo_enabled = undo
        return p - start, s.rows, s.when

    def load_frames(self, data, Py_ssize_t offset, Py_ssize_t end):
        """What a JOIN brings first: (offset where it stopped, rows taken)."""
        cdef Apply a
        cdef bool_t undo = self.mx.undo_enabled
        cdef bp start = data_of(data)
        cdef bp p
        check_idle(self.mx)
        check_range(data, offset, end)
        a.mx = self.mx
        a.rows = 0
        self.mx.undo_enabled = False
        if end - offset < FRAME_UNLOCKED:
            p = load_all(&a, start + offset, start + end)
        else:
            self.mx.busy = True
            with nogil:
                p = load_all(&a, start + offset, start + end)
            self.mx.busy = False
        self.mx.undo_enabled = undo
        return p - start, a.rows


cdef uint32_t check_component(value) except? 0xFFFFFFFF:
    if not 0 <= value < 32:
        raise ValueError(f"replica id {value} is not in 0..31")
    return value

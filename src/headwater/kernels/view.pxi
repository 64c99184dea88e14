# Read views: roots of primary indexes of one epoch, and snapshot rows made of them without the GIL.

cdef struct ViewSpace:
    Page *root
    uint32_t height
    uint32_t id
    bool_t local

cdef struct View:
    uint32_t n
    ViewSpace *space
    uint32_t at            # space that fill is in
    bool_t started         # the path points at its next row
    Path path
    Buffer out

cdef enum:
    VIEW_ROW_HEAD = 48     # bytes before the tuple of a snapshot row, at most
    PREFETCH = 6           # entries looked ahead


cdef class ReadView:
    """A frozen picture of some spaces. Writes go on meanwhile by copying the pages they touch."""

    cdef Mx *mx
    cdef uint64_t epoch
    cdef bint open
    cdef bint busy         # a thread is in fill, without the GIL
    cdef View v

    def __init__(self):
        raise TypeError("a view comes from Memtx.open_view")

    def __dealloc__(self):
        self.end()
        free(self.v.space)
        free(self.v.out.data)
        if self.mx != NULL:
            mx_unref(self.mx)

    cdef void end(self) noexcept:
        if self.open:
            self.open = False
            view_forget(self.mx, self.epoch)

    cdef int check_open(self) except -1:
        if not self.open:
            raise ValueError("the view is closed")
        if self.busy:
            raise RuntimeError("the view is being read by another thread")
        return 0

    def fill(self, limit, lsn, timestamp):
        """The next rows as snapshot rows, and their count. (b'', 0) at the end. Releases the GIL."""
        cdef Head h
        memset(&h, 0, sizeof(h))
        h.lsn = lsn
        self.head_of(&h, timestamp)
        return self.take(max(0, limit), &h, 0, False)

    def fill_frames(self, limit, sync, timestamp):
        """The next rows as packets without an LSN, and their count. (b'', 0) at the end. Releases the GIL."""
        cdef Head h
        memset(&h, 0, sizeof(h))
        self.head_of(&h, timestamp)
        return self.take(max(0, limit), &h, sync, True)

    cdef void head_of(self, Head *h, double when) noexcept:
        h.type = TYPE_INSERT
        memcpy(&h.stamp, &when, 8)

    cdef object take(self, uint64_t limit, Head *h, uint64_t sync, bint framed):
        cdef int64_t rows
        self.check_open()
        self.busy = True
        with nogil:
            rows = view_fill(&self.v, limit, h, sync, framed)
        self.busy = False
        if rows < 0:
            raise MemoryError
        out = PyBytes_FromStringAndSize(<const char *> self.v.out.data, self.v.out.size)
        buffer_reset(&self.v.out)
        return out, rows

    def tuples(self, space_id):
        """The tuples of one space by primary key."""
        cdef uint32_t i
        self.check_open()
        for i in range(self.v.n):
            if self.v.space[i].id == space_id:
                return ViewTuples.__new__(ViewTuples, self, i)
        raise ValueError(f"space {space_id} is not in the view")

    def close(self):
        """Pages and tuples that only this view kept are freed. Call it in the thread that writes."""
        if self.busy:
            raise RuntimeError("the view is being read by another thread")
        self.end()


cdef class ViewTuples:
    """Iterator over the tuples of one space of a view."""

    cdef ReadView view
    cdef Path path
    cdef bint there

    def __cinit__(self, ReadView view not None, uint32_t at):
        self.view = view
        self.there = path_seek(view.v.space[at].root, view.v.space[at].height, 0, &self.path)

    def __iter__(self):
        return self

    def __next__(self):
        self.view.check_open()
        if not self.there:
            raise StopIteration
        out = tuple_bytes(path_tuple(&self.path))
        self.there = path_next(&self.path)
        return out


cdef ReadView view_open(Mx *mx, list spaces):
    cdef ReadView view = ReadView.__new__(ReadView)
    cdef Space *s
    cdef uint32_t i
    view.mx = mx
    mx.refs += 1
    view.v.space = <ViewSpace *> calloc(len(spaces) + 1, sizeof(ViewSpace))
    if view.v.space == NULL:
        raise MemoryError
    view.v.n = <uint32_t> len(spaces)
    for i in range(view.v.n):
        s = (<MemtxSpace> spaces[i]).s
        view.v.space[i].id = s.id
        view.v.space[i].local = s.local
        if has_primary(s):
            view.v.space[i].root = s.tree[0].root
            view.v.space[i].height = s.tree[0].height
    view.epoch = mx.epoch
    if not view_register(mx):
        raise MemoryError
    view.open = True
    return view


cdef inline void path_prefetch(Path *path) noexcept nogil:
    """A tuple some entries ahead, so that its bytes are here when they are copied."""
    cdef Leaf *leaf = <Leaf *> path.page[path.height]
    cdef uint32_t at = path.at[path.height] + PREFETCH
    if at < leaf.n:
        __builtin_prefetch(leaf.t[at])
        __builtin_prefetch(<const uint8_t *> leaf.t[at] + 64)


cdef inline bint view_row(View *view, ViewSpace *space, Tuple *t, Head *h, uint64_t sync, bint framed) noexcept nogil:
    """One tuple as a row, or as a packet. False without memory."""
    cdef Buffer *out = &view.out
    cdef uint8_t *begin
    cdef uint8_t *p
    if not buffer_room(out, <size_t> t.size + VIEW_ROW_HEAD):
        return False
    begin = p = out.data + out.size
    if framed:
        p += FRAME_HEAD
    h.group_id = GROUP_LOCAL if space.local else 0
    p = put_head(p, h, 0, sync)
    p[0] = 0x82
    p[1] = KEY_SPACE_ID
    p[2] = 0xCE
    p = put_be(p + 3, space.id, 4)
    p[0] = KEY_TUPLE
    memcpy(p + 1, t.data, t.size)
    p += 1 + t.size
    if framed:
        begin[0] = 0xCE
        put_be(begin + 1, p - begin - FRAME_HEAD, 4)
    else:
        h.lsn += 1
    out.size = p - out.data
    return True


cdef int64_t view_fill(View *view, uint64_t limit, Head *h, uint64_t sync, bint framed) noexcept nogil:
    """Rows into `view.out` until `limit` bytes are passed or all are there. Their count, -1 without memory."""
    cdef int64_t rows = 0
    cdef ViewSpace *space
    while view.at < view.n:
        space = &view.space[view.at]
        if not view.started and not path_seek(space.root, space.height, 0, &view.path):
            view.at += 1
            continue
        view.started = True
        while True:
            path_prefetch(&view.path)
            if not view_row(view, space, path_tuple(&view.path), h, sync, framed):
                return -1
            rows += 1
            if not path_next(&view.path):
                view.started = False
                view.at += 1
                break
            if view.out.size >= limit:
                return rows
        if view.out.size >= limit:
            return rows
    return rows

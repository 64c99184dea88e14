# An Arrow array as C sees it: every buffer is as long as its length asks for, which is looked at once.

cdef struct Node:
    int kind             # headwater.typing.FieldType
    int form             # packplan.Form
    int how              # packplan.How
    int width            # bytes of a value or an offset
    int64_t a
    int64_t low          # bounds of an integer
    uint64_t high
    int64_t length
    int64_t offset
    bp valid             # NULL: no value is null
    bp fixed             # values, or offsets
    bp data
    uint64_t data_size
    bp name
    uint32_t name_size
    int count            # of children
    Node *child


cdef class Nodes:
    """Columns and the buffers that they hold."""

    cdef Node root
    cdef list held       # memoryviews and names: they keep the memory where it is
    cdef list plans

    def __cinit__(self):
        memset(&self.root, 0, sizeof(Node))

    def __init__(self, columns):
        self.held = []
        self.plans = list(columns)
        self.children(&self.root, self.plans, 0)

    def __dealloc__(self):
        node_free(&self.root)

    cdef int children(self, Node *parent, columns, int depth) except -1:
        cdef int at
        if depth > DEPTH_MAX:
            raise PackError(f"more than {DEPTH_MAX} columns inside one another")
        parent.child = <Node *> calloc(len(columns) + 1, sizeof(Node))
        if parent.child == NULL:
            raise MemoryError()
        parent.count = <int> len(columns)
        for at in range(parent.count):
            try:
                self.load(&parent.child[at], columns[at], depth)
            except ValueError as error:
                raise PackError(f"field {columns[at][0]!r}: {error}", -1, at if depth == 0 else -1) from None
            except PackError as error:
                if depth == 0:
                    error.column = at
                raise
        return 0

    cdef int load(self, Node *n, column, int depth) except -1:
        cdef bytes packed
        name, n.kind, n.form, n.a, n.length, n.offset, validity, buffers, children = column
        n.how = how_of(n.kind, n.form)
        n.low, n.high = RANGES.get(n.kind, ANY_INTEGER)
        check_column(column)
        packed = name.encode("utf-8", "surrogatepass")
        self.held.append(packed)
        n.name = <bp> PyBytes_AS_STRING(packed)
        n.name_size = <uint32_t> PyBytes_GET_SIZE(packed)
        n.width = <int> n.a if n.form == FORM_FIXED_BINARY else WIDTHS.get(n.form, 0)
        n.valid = self.buffer(validity, NULL)
        if len(buffers) > 0:
            n.fixed = self.buffer(buffers[0], NULL)
        if len(buffers) > 1:
            n.data = self.buffer(buffers[1], &n.data_size)
        return self.children(n, children, depth + 1)

    cdef bp buffer(self, given, uint64_t *size) except? NULL:
        """Where it is, NULL for None."""
        cdef Py_buffer *view
        if given is None:
            return NULL
        held = memoryview(given)
        self.held.append(held)
        view = PyMemoryView_GET_BUFFER(held)
        if not held.c_contiguous:
            raise ValueError("a buffer with gaps")
        if size != NULL:
            size[0] = <uint64_t> view.len
        return <bp> view.buf


cdef void node_free(Node *n) noexcept:
    cdef int at
    for at in range(n.count):
        node_free(&n.child[at])
    free(n.child)
    n.child = NULL
    n.count = 0


cdef inline bint is_null(Node *n, int64_t row) noexcept nogil:
    cdef int64_t at = n.offset + row
    return n.valid != NULL and not (n.valid[at >> 3] >> (at & 7)) & 1


cdef inline int64_t offset_at(Node *n, int64_t at) noexcept nogil:
    """An offset as it stands; the values may be anything."""
    cdef int32_t narrow
    cdef int64_t wide
    if n.width == 4:
        memcpy(&narrow, n.fixed + (n.offset + at) * 4, 4)
        return narrow
    memcpy(&wide, n.fixed + (n.offset + at) * 8, 8)
    return wide


cdef inline bint bytes_at(Node *n, int64_t row, bp *begin, uint64_t *size) noexcept nogil:
    """The bytes of a value; False if its offsets do not lie in the data."""
    cdef int64_t first, last
    if n.form == FORM_FIXED_BINARY:
        begin[0] = n.fixed + (n.offset + row) * n.width
        size[0] = <uint64_t> n.width
        return True
    first = offset_at(n, row)
    last = offset_at(n, row + 1)
    if first < 0 or last < first or <uint64_t> last > n.data_size:
        return False
    begin[0] = n.data + first
    size[0] = <uint64_t> (last - first)
    return size[0] <= U32_MAX


cdef inline uint64_t whole_at(Node *n, int64_t row, bint *minus) noexcept nogil:
    """An integer of any width, as 64 bits of two's complement."""
    cdef bp p = n.fixed + (n.offset + row) * n.width
    cdef uint64_t u = 0
    cdef int64_t i
    memcpy(&u, p, n.width)
    minus[0] = False
    if n.form <= FORM_INT64 or n.form == FORM_TIMESTAMP or n.form == FORM_DATE:
        i = <int64_t> (u << (64 - 8 * n.width)) >> (64 - 8 * n.width)
        minus[0] = i < 0
        return <uint64_t> i
    return u

# A space as Python sees it, and what a truncation took out of it.

class DuplicateKey(Exception):
    """A unique index already has another tuple with this key; see `_native.pyi`."""

    def __init__(self, index_id, old, new, offset=0, rows=0):
        super().__init__(index_id, old, new)
        self.index_id = index_id
        self.old = old
        self.new = new
        self.offset = offset
        self.rows = rows


cdef int refused(Space *s, int why, Change *c, object new) except -1:
    """Raise why a prepare did not say DONE."""
    if why == DUPLICATE:
        raise DuplicateKey(c.dup_index, tuple_bytes(c.dup), new)
    if why == SORT_KEY:
        kdef_raise(c.kd)
    if why == NO_INDEX:
        raise ValueError(f"space {s.id} has no primary index")
    if why == PENDING:
        raise ValueError(f"space {s.id} is written without undo while changes of it are not yet confirmed")
    if why == ABSENT:
        raise ValueError(f"space {s.id} has no tuple with this primary key")
    raise MemoryError


cdef class MemtxSpace:
    """The tuples of one space. Index 0 owns them; all indexes see every change or none."""

    cdef Space *s
    cdef dict indexes

    def __cinit__(self):
        self.indexes = {}

    def __dealloc__(self):
        if self.s == NULL:
            return
        self.s.dead = True
        self.s.handle = NULL
        self.s.n = 0
        space_unref(self.s)

    @property
    def id(self):
        return self.s.id

    @property
    def fast(self):
        """May `Memtx.run` serve it?"""
        return bool(self.s.fast)

    @fast.setter
    def fast(self, value):
        self.s.fast = bool(value)

    @property
    def local(self):
        return bool(self.s.local)

    @local.setter
    def local(self, value):
        self.s.local = bool(value)

    @property
    def temporary(self):
        return bool(self.s.temporary)

    @temporary.setter
    def temporary(self, value):
        self.s.temporary = bool(value)

    @property
    def unconfirmed(self):
        """Undo records of this space that confirm_to has not passed."""
        return self.s.unconfirmed

    def set_format(self, TupleFormat format not None):
        """Used by the writes from now on; existing tuples are the caller's to check (see check_all)."""
        check_idle(self.s.mx)
        format.fmt.refs += 1
        format_unref(self.s.fmt)
        self.s.fmt = format.fmt

    def check_all(self, TupleFormat format not None):
        """FormatViolation if an existing tuple does not fit."""
        cdef Path path
        cdef bint there
        cdef int why
        cdef uint32_t field
        cdef Tuple *t
        check_idle(self.s.mx)
        if not has_primary(self.s):
            return
        there = path_seek(self.s.tree[0].root, self.s.tree[0].height, 0, &path)
        while there:
            t = path_tuple(&path)
            why = format_check(format.fmt, t.data, &field)
            if why != FORMAT_OK:
                raise format_error(format.fmt, t.data, why, field)
            there = path_next(&path)

    def set_access(self, int token, int bits):
        """Effective privilege bits of the user with auth token 0..31 (R 1, W 2)."""
        if not 0 <= token < 32:
            raise ValueError(f"auth token {token} is not in 0..31")
        self.s.access[token] = bits & 3

    cdef int link(self, MemtxIndex index) except -1:
        """Make room for one index more, in the order of ids, and put it there."""
        cdef Space *s = self.s
        cdef uint32_t at = 0
        cdef void *p
        p = realloc(s.index_id, (s.n + 1) * sizeof(uint32_t))
        if p != NULL:
            s.index_id = <uint32_t *> p
            p = realloc(s.tree, (s.n + 1) * sizeof(Tree *))
        if p != NULL:
            s.tree = <Tree **> p
            p = realloc(s.work, (s.n + 1) * sizeof(Work))
        if p == NULL:
            raise MemoryError
        s.work = <Work *> p
        while at < s.n and s.index_id[at] < <uint32_t> index.id:
            at += 1
        memmove(&s.index_id[at + 1], &s.index_id[at], (s.n - at) * sizeof(uint32_t))
        memmove(&s.tree[at + 1], &s.tree[at], (s.n - at) * sizeof(Tree *))
        s.index_id[at] = index.id
        s.tree[at] = &index.tree
        s.n += 1
        self.indexes[index.id] = index
        index.attached = True
        return 0

    def add_index(self, index_id, KeyDef key_def not None, unique):
        """Build from index 0 (DuplicateKey leaves nothing behind)."""
        cdef MemtxIndex index
        check_idle(self.s.mx)
        if index_id in self.indexes:
            raise ValueError(f"space {self.s.id} has an index {index_id}")
        if index_id != 0 and not has_primary(self.s):
            raise ValueError(f"space {self.s.id} has no primary index")
        index = index_new(self.s, index_id, key_def, unique)
        if index_id != 0:
            index_build(index, self.s.tree[0])
        self.link(index)
        return index

    def detach_index(self, index_id):
        cdef MemtxIndex index = self.indexes[index_id]
        cdef Space *s = self.s
        cdef uint32_t at = 0
        check_idle(self.s.mx)
        if index_id == 0 and s.n > 1:
            raise ValueError(f"the other indexes of space {s.id} go before the primary one")
        del self.indexes[index_id]
        while s.index_id[at] != index_id:
            at += 1
        memmove(&s.index_id[at], &s.index_id[at + 1], (s.n - at - 1) * sizeof(uint32_t))
        memmove(&s.tree[at], &s.tree[at + 1], (s.n - at - 1) * sizeof(Tree *))
        s.n -= 1
        index.attached = False
        index.version = s.version
        if index_id == 0:
            index.bsize_kept = s.bsize
            s.bsize = 0
            s.mx.versions += 1
            s.version = s.mx.versions
        index.version_after = s.version
        return index

    def attach_index(self, MemtxIndex index not None):
        """Put back what detach_index gave; only valid if no tuple changed in between (undo)."""
        check_idle(self.s.mx)
        if index.attached or index.space != self.s or index.id in self.indexes:
            raise ValueError(f"index {index.id} was not detached from space {self.s.id}")
        if index.version_after != self.s.version:
            raise ValueError(f"tuples of space {self.s.id} changed since index {index.id} was detached")
        if index.id != 0 and not has_primary(self.s):
            raise ValueError(f"space {self.s.id} has no primary index")
        self.link(index)
        if index.id == 0:
            self.s.bsize = index.bsize_kept
            self.s.version = index.version

    def index(self, index_id):
        return self.indexes.get(index_id)

    def __len__(self):
        return self.s.tree[0].count if has_primary(self.s) else 0

    @property
    def bsize(self):
        """Sum of the lengths of its tuples."""
        return self.s.bsize

    cdef int check(self, object tuple) except -1:
        cdef uint32_t field
        cdef int why
        tuple_check(tuple)
        if PyBytes_GET_SIZE(tuple) > 0x7FFFFFFF:
            raise MsgPackError("a tuple of more than 2 GiB")
        if self.s.fmt != NULL:
            why = format_check(self.s.fmt, data_of(tuple), &field)
            if why != FORMAT_OK:
                raise format_error(self.s.fmt, data_of(tuple), why, field)
        return 0

    def insert(self, tuple):
        """Format, then every unique index is checked, then all indexes change."""
        cdef Change c
        cdef int why
        check_idle(self.s.mx)
        self.check(tuple)
        why = put_prepare(self.s, data_of(tuple), <uint32_t> PyBytes_GET_SIZE(tuple), PUT_INSERT, &c)
        if why != DONE:
            refused(self.s, why, &c, tuple)
        put_commit(self.s, &c)

    def replace(self, tuple):
        """Insert or take the place of the tuple with the same primary key, which is returned."""
        cdef Change c
        cdef int why
        check_idle(self.s.mx)
        self.check(tuple)
        why = put_prepare(self.s, data_of(tuple), <uint32_t> PyBytes_GET_SIZE(tuple), PUT_REPLACE, &c)
        if why != DONE:
            refused(self.s, why, &c, tuple)
        old = self.old_bytes(&c)
        put_commit(self.s, &c)
        return old

    cdef object old_bytes(self, Change *c):
        """The tuple that goes, while it is still there."""
        if c.old == NULL:
            return None
        try:
            return tuple_bytes(c.old)
        except MemoryError:
            if c.new != NULL:
                tuple_free(self.s.mx, c.new)
            raise

    def update(self, old, new):
        """`old` is there now and has the primary key of `new`; checked like replace."""
        cdef Change c
        cdef int why
        cdef bp before = data_of(old)
        check_idle(self.s.mx)
        self.check(new)
        why = put_prepare(self.s, data_of(new), <uint32_t> PyBytes_GET_SIZE(new), PUT_UPDATE, &c)
        if why != DONE:
            refused(self.s, why, &c, new)
        if c.old.size != PyBytes_GET_SIZE(old) or memcmp(c.old.data, before, c.old.size) != 0:
            tuple_free(self.s.mx, c.new)
            raise ValueError(f"the tuple in space {self.s.id} is not the one to update")
        put_commit(self.s, &c)

    def delete(self, index_id, key):
        """By a full key of a unique index."""
        cdef Change c
        cdef MemtxIndex index = self.indexes[index_id]
        cdef uint32_t count
        cdef int why
        cdef bp p
        check_idle(self.s.mx)
        if not index.tree.unique:
            raise ValueError(f"index {index_id} of space {self.s.id} is not unique")
        p = key_checked(index.tree.kd, key, True, &count)
        why = delete_prepare(self.s, &index.tree, p, &c)
        if why == ABSENT:
            return None
        if why != DONE:
            refused(self.s, why, &c, b"")
        old = self.old_bytes(&c)
        delete_commit(self.s, &index.tree, &c)
        return old

    def detach_all(self):
        """Empty the space at once (truncate); the contents go into the returned handle. No undo record."""
        check_idle(self.s.mx)
        return contents_take(self)

    def attach_all(self, contents):
        """Put them back in place of what is there (undo of truncate)."""
        check_idle(self.s.mx)
        contents_give(self, contents)


cdef class Contents:
    """What detach_all took out of a space."""

    cdef Space *s
    cdef uint32_t n
    cdef Tree *tree
    cdef uint32_t *index_id
    cdef uint64_t bsize
    cdef uint64_t version
    cdef list key_defs

    def __init__(self):
        raise TypeError("Contents come from MemtxSpace.detach_all")

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.n):
            tree_destroy(&self.tree[i], self.index_id[i] == 0)
        free(self.tree)
        free(self.index_id)
        if self.s != NULL:
            space_unref(self.s)


cdef Contents contents_take(MemtxSpace space):
    cdef Contents c = Contents.__new__(Contents)
    cdef Space *s = space.s
    cdef uint32_t i
    c.tree = <Tree *> calloc(s.n + 1, sizeof(Tree))
    c.index_id = <uint32_t *> calloc(s.n + 1, sizeof(uint32_t))
    if c.tree == NULL or c.index_id == NULL:
        raise MemoryError
    c.key_defs = [(<MemtxIndex> index).key_def for index in space.indexes.values()]
    c.s = s
    s.refs += 1
    c.bsize = s.bsize
    c.version = s.version
    for i in range(s.n):
        c.tree[i] = s.tree[i][0]
        c.index_id[i] = s.index_id[i]
        s.tree[i].root = NULL
        s.tree[i].height = 0
        s.tree[i].count = 0
        s.tree[i].pages = 0
    c.n = s.n
    s.bsize = 0
    s.mx.versions += 1
    s.version = s.mx.versions
    return c


cdef int contents_give(MemtxSpace space, Contents c) except -1:
    cdef Space *s = space.s
    cdef uint32_t i
    if c is None or c.s != s or c.n == 0 and s.n != 0:
        raise ValueError(f"these are no contents of space {s.id}, or they were put back already")
    if c.n != s.n or memcmp(c.index_id, s.index_id, s.n * sizeof(uint32_t)) != 0:
        raise ValueError(f"the indexes of space {s.id} changed since its contents were detached")
    for i in range(s.n):
        if c.tree[i].kd != s.tree[i].kd:
            raise ValueError(f"the indexes of space {s.id} changed since its contents were detached")
    for i in range(s.n):
        tree_destroy(s.tree[i], s.index_id[i] == 0)
        s.tree[i].root = c.tree[i].root
        s.tree[i].height = c.tree[i].height
        s.tree[i].count = c.tree[i].count
        s.tree[i].pages = c.tree[i].pages
    c.n = 0
    s.bsize = c.bsize
    s.version = c.version
    return 0

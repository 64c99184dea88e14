# One space: its indexes, and the two halves of every change. `prepare` looks up every place and refuses what must be
# refused; it changes nothing. `commit` takes reserved memory only and cannot fail, so all indexes see a change or none.

cdef enum:
    OP_NONE = 0            # the index leaves the new tuple out
    OP_INSERT = 1
    OP_REPLACE = 2

cdef struct Work:
    Path path
    uint64_t hint
    int op

cdef struct Space:
    uint32_t refs          # the MemtxSpace and the undo records
    bool_t dead            # the MemtxSpace is gone
    bool_t fast
    bool_t local
    bool_t temporary
    uint32_t id
    Mx *mx
    Format *fmt
    uint32_t n             # attached indexes, by growing id
    uint32_t *index_id
    Tree **tree            # each lies in its MemtxIndex
    Work *work             # one for each index, between prepare and commit
    uint64_t bsize
    uint64_t version       # names the set of tuples: undo gives back the old number with the old set
    uint64_t deletes       # undo records that took a key out of the primary index
    uint64_t moves         # undo records that replaced a tuple
    uint64_t unconfirmed   # undo records
    uint8_t access[32]

cdef struct Change:
    Tuple *old             # what the change takes out, NULL if nothing
    Tuple *new             # what it puts in, NULL if nothing
    Tuple *dup             # the tuple in the way
    uint32_t dup_index     # in the index with this id
    KDef *kd               # whose sort_key raised

cdef enum:
    PUT_INSERT = 0
    PUT_REPLACE = 1
    PUT_UPDATE = 2

cdef enum:
    DONE = 0
    NO_MEMORY = 1
    DUPLICATE = 2
    ABSENT = 3
    NO_INDEX = 4
    SORT_KEY = 5
    PENDING = 6            # no record wanted, but the space has records that wait
    MISMATCH = 7           # undo: the primary index does not hold what the record says


cdef inline Space *space_find(Mx *mx, uint64_t id) noexcept nogil:
    cdef uint32_t mask = mx.spaces_room - 1
    cdef uint32_t at
    if mx.spaces_room == 0 or id > U32_MAX:
        return NULL
    at = (<uint32_t> id * <uint32_t> 2654435761) & mask
    while mx.spaces[at] != NULL:
        if mx.spaces[at].id == id:
            return mx.spaces[at]
        at = (at + 1) & mask
    return NULL


cdef void spaces_put(Space **table, uint32_t room, Space *s) noexcept nogil:
    cdef uint32_t at = (s.id * <uint32_t> 2654435761) & (room - 1)
    while table[at] != NULL:
        at = (at + 1) & (room - 1)
    table[at] = s


cdef bint spaces_rebuild(Mx *mx, Space *add, Space *drop) noexcept nogil:
    """The table with one space more, or one less. False without memory."""
    cdef uint32_t room = 64
    cdef uint32_t i
    cdef Space **table
    while room < (mx.spaces_count + 1) * 2:
        room *= 2
    table = <Space **> calloc(room, sizeof(Space *))
    if table == NULL:
        return False
    for i in range(mx.spaces_room):
        if mx.spaces[i] != NULL and mx.spaces[i] != drop:
            spaces_put(table, room, mx.spaces[i])
    if add != NULL:
        spaces_put(table, room, add)
        mx.spaces_count += 1
    if drop != NULL:
        mx.spaces_count -= 1
    free(mx.spaces)
    mx.spaces = table
    mx.spaces_room = room
    return True


cdef void space_unref(Space *s) noexcept:
    s.refs -= 1
    if s.refs == 0:
        format_unref(s.fmt)
        free(s.index_id)
        free(s.tree)
        free(s.work)
        mx_unref(s.mx)
        free(s)


cdef inline Tree *space_tree(Space *s, uint64_t index_id) noexcept nogil:
    cdef uint32_t i
    for i in range(s.n):
        if s.index_id[i] == index_id:
            return s.tree[i]
    return NULL


cdef inline bint has_primary(Space *s) noexcept nogil:
    return s.n != 0 and s.index_id[0] == 0


cdef bint space_reserve(Space *s) noexcept nogil:
    """Pages for one change that puts one tuple into every index and takes one out, and a record of it."""
    cdef uint32_t i
    cdef uint32_t need = 0
    for i in range(s.n):
        need += 2 * tree_reserve_pages(s.tree[i])
    if s.mx.pages_count < need and not pages_reserve(s.mx, need):
        return False
    return not s.mx.undo_enabled or undo_room(s.mx)


cdef int prepare_index(Space *s, uint32_t i, int mode, Change *c) noexcept nogil:
    """Where the new tuple goes in one index, and whether another one is in the way."""
    cdef Tree *tree = s.tree[i]
    cdef KDef *kd = tree.kd
    cdef Work *w = &s.work[i]
    cdef Probe pr
    cdef Tuple *found
    cdef bint equal
    w.op = OP_NONE
    if is_excluded(kd, c.new.data):
        return DONE
    c.kd = kd
    if probe_tuple(&pr, kd, c.new.data, kd.all) < 0:
        return SORT_KEY if kd.error != NULL else NO_MEMORY
    if tree.unique and not pr.has_nil:
        probe_narrow(&pr, kd.own)
    equal = tree_lower(tree, &pr, &w.path)
    w.hint = pr.hint
    probe_done(&pr)
    if kd.error != NULL:
        return SORT_KEY
    found = path_tuple(&w.path) if equal else NULL
    w.op = OP_REPLACE if found != NULL else OP_INSERT
    if i == 0:
        c.old = found
        if found == NULL and mode == PUT_UPDATE:
            return ABSENT
        if found == NULL or mode != PUT_INSERT:
            return DONE
    elif found == NULL or found == c.old:
        return DONE
    c.dup = found
    c.dup_index = s.index_id[i]
    return DUPLICATE


cdef int put_prepare(Space *s, bp data, uint32_t size, int mode, Change *c) noexcept nogil:
    """A copy of the tuple (in c.new), and its place in every index. Unless DONE, nothing is left of it."""
    cdef uint32_t i
    cdef int r
    c.old = NULL
    c.new = NULL
    if not has_primary(s):
        return NO_INDEX
    if not s.mx.undo_enabled and s.unconfirmed:
        return PENDING
    if not space_reserve(s):
        return NO_MEMORY
    c.new = tuple_new(s.mx, data, size)
    if c.new == NULL:
        return NO_MEMORY
    for i in range(s.n):
        r = prepare_index(s, i, mode, c)
        if r != DONE:
            tuple_free(s.mx, c.new)
            c.new = NULL
            return r
    return DONE


cdef void tree_take(Tree *tree, Tuple *t) noexcept nogil:
    """Take a tuple out of an index that holds it, if it does not leave it out."""
    cdef Probe pr
    cdef Path path
    cdef bint there
    if is_excluded(tree.kd, t.data) or tree.root == NULL:
        return
    if probe_tuple(&pr, tree.kd, t.data, tree.kd.all) == 0:
        tree_lower(tree, &pr, &path)
        probe_done(&pr)
        if path_tuple(&path) == t:
            tree_remove(tree, &path)
            if tree.kd.error != NULL:
                with gil:
                    kdef_unraisable(tree.kd)
            return
    # Only an order that Python gave and broke leads here: look at every entry rather than leave a stray one.
    there = path_seek(tree.root, tree.height, 0, &path)
    while there and path_tuple(&path) != t:
        there = path_next(&path)
    if there:
        tree_remove(tree, &path)
    with gil:
        kdef_unraisable(tree.kd)


cdef inline void space_changed(Space *s, Change *c) noexcept nogil:
    """Sizes, version and the record of a change whose indexes are done. References move into the record."""
    cdef Mx *mx = s.mx
    cdef uint64_t before = s.version
    if c.old != NULL:
        s.bsize -= c.old.size
    if c.new != NULL:
        s.bsize += c.new.size
    mx.versions += 1
    s.version = mx.versions
    if mx.undo_enabled:
        if c.new != NULL:
            c.new.meta = (c.new.meta | TUPLE_PENDING) + 1
            if c.old != NULL:
                s.moves += 1
        else:
            s.deletes += 1
        undo_push(mx, s, c.old, c.new, before)
    elif c.old != NULL:
        tuple_unref(mx, c.old)


cdef void put_commit(Space *s, Change *c) noexcept nogil:
    """What put_prepare found, done."""
    cdef uint32_t i
    cdef Work *w
    for i in range(s.n):
        w = &s.work[i]
        if w.op == OP_REPLACE:
            tree_replace(s.tree[i], &w.path, w.hint, c.new)
            continue
        if w.op == OP_INSERT:
            tree_insert(s.tree[i], &w.path, w.hint, c.new)
        if c.old != NULL:
            tree_take(s.tree[i], c.old)
    space_changed(s, c)


cdef int delete_prepare(Space *s, Tree *tree, bp key, Change *c) noexcept nogil:
    """The tuple with this full key of a unique index, which was checked."""
    cdef Probe pr
    cdef bint equal
    c.old = NULL
    c.new = NULL
    c.kd = tree.kd
    if not has_primary(s):
        return NO_INDEX
    if not s.mx.undo_enabled and s.unconfirmed:
        return PENDING
    if not space_reserve(s):
        return NO_MEMORY
    if probe_key(&pr, tree.kd, key, tree.kd.own) < 0:
        return SORT_KEY if tree.kd.error != NULL else NO_MEMORY
    equal = tree_lower(tree, &pr, &s.work[0].path)
    probe_done(&pr)
    if tree.kd.error != NULL:
        return SORT_KEY
    if not equal:
        return ABSENT
    c.old = path_tuple(&s.work[0].path)
    return DONE


cdef void delete_commit(Space *s, Tree *tree, Change *c) noexcept nogil:
    """Take out what delete_prepare found by `tree`."""
    cdef uint32_t i
    for i in range(s.n):
        if s.tree[i] == tree:
            tree_remove(tree, &s.work[0].path)
        else:
            tree_take(s.tree[i], c.old)
    space_changed(s, c)


cdef int space_swap(Space *s, Tuple *out, Tuple *back) noexcept nogil:
    """Undo: take `out` from all indexes and put `back` in; either may be NULL. No record, no check."""
    cdef uint32_t i
    cdef Probe pr
    cdef Tree *tree
    cdef Path path
    cdef Tuple *same = out if out != NULL else back
    cdef bint replaced
    if not has_primary(s):
        return NO_INDEX
    if not space_reserve(s):
        return NO_MEMORY
    tree = s.tree[0]
    if probe_tuple(&pr, tree.kd, same.data, tree.kd.own) == 0:
        replaced = tree_lower(tree, &pr, &path)
        probe_done(&pr)
        if (path_tuple(&path) if replaced else NULL) != out:
            return MISMATCH
    for i in range(s.n):
        tree = s.tree[i]
        replaced = False
        if back != NULL and not is_excluded(tree.kd, back.data):
            if probe_tuple(&pr, tree.kd, back.data, tree.kd.all) < 0:
                pr.hint = 0
                path_seek(tree.root, tree.height, 0, &path)
            else:
                if tree.unique and not pr.has_nil:
                    probe_narrow(&pr, tree.kd.own)
                replaced = tree_lower(tree, &pr, &path)
                probe_done(&pr)
            replaced = replaced and path_tuple(&path) == out
            if replaced:
                tree_replace(tree, &path, pr.hint, back)
            else:
                tree_insert(tree, &path, pr.hint, back)
        if out != NULL and not replaced:
            tree_take(tree, out)
    if out != NULL:
        s.bsize -= out.size
    if back != NULL:
        s.bsize += back.size
    return DONE


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
        self.check(tuple)
        why = put_prepare(self.s, data_of(tuple), <uint32_t> PyBytes_GET_SIZE(tuple), PUT_INSERT, &c)
        if why != DONE:
            refused(self.s, why, &c, tuple)
        put_commit(self.s, &c)

    def replace(self, tuple):
        """Insert or take the place of the tuple with the same primary key, which is returned."""
        cdef Change c
        cdef int why
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
        return contents_take(self)

    def attach_all(self, contents):
        """Put them back in place of what is there (undo of truncate)."""
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

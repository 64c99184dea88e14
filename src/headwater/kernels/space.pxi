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
    uint32_t refs          # Python objects that point here; undo records are counted below
    PyObject *handle       # the MemtxSpace, borrowed
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
    space_release(s)


cdef void space_release(Space *s) noexcept:
    """Free it if nobody points here any more, undo records neither."""
    if s.refs == 0 and s.unconfirmed == 0:
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

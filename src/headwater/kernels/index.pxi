# One index as Python sees it, and how one is built from another.


cdef class MemtxIndex:
    """Ordered tuples of one index: a B+-tree with copy-on-write pages (a HASH index uses the same tree)."""

    cdef Tree tree
    cdef Space *space
    cdef bint attached
    cdef uint64_t version      # of the space when it was detached
    cdef uint64_t version_after  # of the space then without it
    cdef uint64_t bsize_kept   # of the space, with a detached primary index
    cdef readonly uint32_t id
    cdef readonly bint unique
    cdef readonly KeyDef key_def

    def __init__(self):
        raise TypeError("an index comes from MemtxSpace.add_index")

    def __dealloc__(self):
        if self.space != NULL:
            tree_destroy(&self.tree, self.id == 0)
            space_unref(self.space)

    @property
    def hash(self):
        """Does `run` leave all but EQ by a full key and ALL with an empty one to the ordinary path?"""
        return bool(self.tree.hash)

    @hash.setter
    def hash(self, value):
        self.tree.hash = bool(value)

    def __len__(self):
        return self.tree.count

    @property
    def bsize(self):
        """Bytes its pages take."""
        return self.tree.pages * PAGE_SIZE

    cdef int check_attached(self) except -1:
        check_idle(self.tree.mx)
        if not self.attached or self.space.dead:
            raise ValueError(f"index {self.id} is detached")
        return 0

    def get(self, key):
        """By a full key (all parts); unique indexes only."""
        cdef Probe pr
        cdef Path path
        cdef uint32_t count
        cdef bint equal
        cdef bp p
        self.check_attached()
        if not self.tree.unique:
            raise ValueError(f"index {self.id} is not unique")
        p = key_checked(self.tree.kd, key, True, &count)
        if probe_key(&pr, self.tree.kd, p, count) < 0:
            probe_failed(self.tree.kd)
        equal = tree_lower(&self.tree, &pr, &path)
        probe_done(&pr)
        kdef_raise(self.tree.kd)
        return tuple_bytes(path_tuple(&path)) if equal else None

    def select(self, int iterator, key, offset=0, limit=0xFFFFFFFF, after=None):
        """Tuples in the order of the iterator; `after` is a whole tuple to start behind."""
        cdef Scan s
        cdef uint32_t count
        cdef uint64_t most = min(limit, 0xFFFFFFFFFFFFFFFF)
        cdef uint64_t skip = min(offset, 0xFFFFFFFFFFFFFFFF)
        cdef bp behind = NULL
        cdef bp p
        cdef Tuple *t
        cdef list out = []
        p = self.scan_key(iterator, key, &count)
        if after is not None:
            tuple_check(after)
            behind = data_of(after)
        try:
            if scan_begin(&s, &self.tree, iterator, p, count, skip, behind, False) < 0:
                probe_failed(self.tree.kd)
            while most:
                t = scan_take(&s)
                if t == NULL:
                    break
                out.append(tuple_bytes(t))
                most -= 1
        finally:
            scan_done(&s)
        kdef_raise(self.tree.kd)
        return out

    def count(self, int iterator, key):
        cdef Scan s
        cdef uint32_t count
        cdef uint64_t found
        cdef bp p = self.scan_key(iterator, key, &count)
        try:
            if scan_begin(&s, &self.tree, iterator, p, count, 0, NULL, True) < 0:
                probe_failed(self.tree.kd)
            found = scan_count(&s, iterator)
        finally:
            scan_done(&s)
        kdef_raise(self.tree.kd)
        return found

    cdef bp scan_key(self, int iterator, object key, uint32_t *count) except NULL:
        self.check_attached()
        if iterator < 0 or not iterator_known(iterator):
            raise ValueError(f"iterator {iterator} is none of an ordered index")
        return key_checked(self.tree.kd, key, False, count)

    def random(self, seed):
        cdef Path path
        self.check_attached()
        if self.tree.count == 0:
            return None
        path_seek(self.tree.root, self.tree.height, seed % self.tree.count, &path)
        return tuple_bytes(path_tuple(&path))


cdef MemtxIndex index_new(Space *s, uint32_t id, KeyDef key_def, bint unique):
    cdef MemtxIndex index = MemtxIndex.__new__(MemtxIndex)
    index.tree.mx = s.mx
    index.tree.kd = key_def.kd
    index.tree.unique = unique
    index.space = s
    s.refs += 1
    index.id = id
    index.unique = unique
    index.key_def = key_def
    return index


cdef struct Entry:
    uint64_t hint
    Tuple *t


cdef int entry_compare(KDef *kd, Entry *a, Entry *b) noexcept nogil:
    cdef Probe pr
    cdef int r
    if a.hint != b.hint:
        return 1 if a.hint > b.hint else -1
    if probe_tuple(&pr, kd, b.t.data, kd.all) < 0:
        return 0
    r = 0 if pr.exact else probe_compare(&pr, pr.first, a.t.data)
    probe_done(&pr)
    return r


cdef void entries_merge(KDef *kd, Entry *a, Entry *b, Entry *end, Entry *to) noexcept nogil:
    """Two sorted runs, a..b and b..end, into one; equal entries keep their order."""
    cdef Entry *left = a
    cdef Entry *right = b
    if entry_compare(kd, b - 1, b) <= 0:
        memcpy(to, a, (end - a) * sizeof(Entry))
        return
    while left < b and right < end:
        if entry_compare(kd, left, right) <= 0:
            to[0] = left[0]
            left += 1
        else:
            to[0] = right[0]
            right += 1
        to += 1
    memcpy(to, left, (b - left) * sizeof(Entry))
    memcpy(to + (b - left), right, (end - right) * sizeof(Entry))


cdef Entry *entries_sort(KDef *kd, Entry *a, Entry *spare, uint64_t n) noexcept nogil:
    """Sorted in one of the two arrays, which is returned."""
    cdef uint64_t run = 1
    cdef uint64_t at, middle, end
    cdef Entry *swap
    while run < n:
        at = 0
        while at < n:
            middle = at + run if at + run < n else n
            end = middle + run if middle + run < n else n
            if middle < end:
                entries_merge(kd, a + at, a + middle, a + end, spare + at)
            else:
                memcpy(spare + at, a + at, (middle - at) * sizeof(Entry))
            at = end
        swap = a
        a = spare
        spare = swap
        run *= 2
    return a


cdef void tree_build(Tree *tree, Entry *entry, uint64_t n) noexcept nogil:
    """An empty tree from sorted entries: pages filled from the left, seven eighths each. Pages were reserved."""
    cdef uint64_t at = 0
    cdef uint32_t i
    cdef Leaf *leaf
    cdef Path path
    while at < n:
        leaf = <Leaf *> page_alloc(tree.mx, 0)
        tree.pages += 1
        leaf.n = 0
        while leaf.n < LEAF_MAX * 7 // 8 and at < n:
            leaf.hint[leaf.n] = entry[at].hint
            leaf.t[leaf.n] = entry[at].t
            leaf.n += 1
            at += 1
        tree_append_page(tree, <Page *> leaf)


cdef void tree_append_page(Tree *tree, Page *page) noexcept nogil:
    """A leaf behind all others, whose entries are above theirs."""
    cdef Inner *inner
    cdef Inner *spine[HEIGHT_MAX]
    cdef uint32_t level
    cdef Page *right = page
    tree.count += page.n
    if tree.root == NULL:
        tree.root = page
        return
    spine[0] = <Inner *> tree.root
    for level in range(1, tree.height):
        spine[level] = <Inner *> spine[level - 1].kid[spine[level - 1].n - 1]
    level = tree.height
    while level:
        level -= 1
        inner = spine[level]
        if inner.n < INNER_MAX:
            inner.n += 1
            inner_set(inner, inner.n - 1, right)
            right = NULL
            break
        inner = <Inner *> page_alloc(tree.mx, inner.level)
        tree.pages += 1
        inner.n = 1
        inner_set(inner, 0, right)
        right = <Page *> inner
    if right != NULL:
        tree_grow(tree, tree.root, right)
        return
    while level:
        level -= 1
        inner_set(spine[level], spine[level].n - 1, <Page *> spine[level + 1])


cdef int index_build(MemtxIndex index, Tree *primary) except -1:
    """Fill a new index with the tuples of the primary one. The build of memtx takes them in its order, so of two with
    one key the later by primary key is the new one."""
    cdef Tree *tree = &index.tree
    cdef KDef *kd = tree.kd
    cdef uint64_t n = 0
    cdef uint64_t i
    cdef Entry *entry
    cdef Entry *sorted_
    cdef Path path
    cdef Probe pr
    cdef Tuple *t
    cdef bint there
    entry = <Entry *> malloc((primary.count * 2 + 1) * sizeof(Entry))
    if entry == NULL:
        raise MemoryError
    try:
        there = path_seek(primary.root, primary.height, 0, &path)
        while there:
            t = path_tuple(&path)
            there = path_next(&path)
            if is_excluded(kd, t.data):
                continue
            if probe_tuple(&pr, kd, t.data, kd.all if kd.collated else 1) < 0:
                probe_failed(kd)
            entry[n].hint = pr.hint
            entry[n].t = t
            probe_done(&pr)
            n += 1
        sorted_ = entries_sort(kd, entry, entry + n, n)
        kdef_raise(kd)
        if tree.unique:
            entries_unique(index.id, kd, sorted_, n)
        if not pages_reserve(tree.mx, <uint32_t> (n // 50 + n // 1000 + 64)):
            raise MemoryError
        tree_build(tree, sorted_, n)
    finally:
        free(entry)
    return 0


cdef int entries_unique(uint32_t index_id, KDef *kd, Entry *entry, uint64_t n) except -1:
    """DuplicateKey if two neighbours have one key without nil."""
    cdef uint64_t i
    cdef Probe pr
    cdef bint equal
    for i in range(1, n):
        if entry[i].hint != entry[i - 1].hint:
            continue
        if probe_tuple(&pr, kd, entry[i].t.data, kd.own) < 0:
            probe_failed(kd)
        equal = not pr.has_nil and (pr.exact or probe_compare(&pr, pr.first, entry[i - 1].t.data) == 0)
        probe_done(&pr)
        kdef_raise(kd)
        if equal:
            raise DuplicateKey(index_id, tuple_bytes(entry[i - 1].t), tuple_bytes(entry[i].t))
    return 0

# The B+-tree of one index. Leaves hold {hint, tuple}; an inner page keeps of every child the greatest entry and the
# count of entries under it. No sibling links, so that one page can be copied alone. A page that an open view may see
# is copied before it is changed, and its path with it.
#
# All changes take a Path that a search has filled; between the search and the change nothing may touch the tree.

cdef struct Tree:
    Page *root             # NULL when empty
    uint32_t height        # levels above the leaves
    uint64_t count
    uint64_t pages
    Mx *mx
    KDef *kd
    bool_t unique
    bool_t hash            # `run` serves EQ and ALL only

cdef struct Path:
    uint32_t height
    Page *page[HEIGHT_MAX]     # root first, leaf at [height]
    uint32_t at[HEIGHT_MAX]    # entry in each; in the leaf it may be its count (behind the last)


cdef extern from *:
    void __builtin_prefetch(const void *p) noexcept nogil


cdef inline void page_prefetch(Page *page) noexcept nogil:
    """The hints of a page are about to be searched: fetch their cache lines at once, not one after another."""
    cdef const uint8_t *p = <const uint8_t *> page
    __builtin_prefetch(p)
    __builtin_prefetch(p + 64)
    __builtin_prefetch(p + 128)
    __builtin_prefetch(p + 192)
    __builtin_prefetch(p + 256)
    __builtin_prefetch(p + 320)
    __builtin_prefetch(p + 384)
    __builtin_prefetch(p + 448)


cdef inline uint32_t hint_lower(const uint64_t *hint, uint32_t n, uint64_t value) noexcept nogil:
    """First i with hint[i] >= value."""
    cdef const uint64_t *base = hint
    cdef uint32_t half
    if n == 0:
        return 0
    while n > 1:
        half = n >> 1
        base += half if base[half - 1] < value else 0
        n -= half
    return <uint32_t> (base - hint) + (1 if base[0] < value else 0)


cdef inline uint32_t hint_upper(const uint64_t *hint, uint32_t n, uint64_t value) noexcept nogil:
    """First i with hint[i] > value."""
    return hint_lower(hint, n, value + 1) if value != HINT_MAX else n


cdef uint32_t entries_refine(Probe *pr, Tuple **t, uint32_t low, uint32_t high, bint upper, bint *equal) noexcept nogil:
    """Among entries low..high-1, whose hints equal the probe's: the first not below it, or the first above (`upper`)."""
    cdef uint32_t middle
    cdef int r
    equal[0] = False
    while low < high:
        middle = (low + high) >> 1
        r = probe_compare(pr, pr.first, t[middle].data)
        if r < 0 or (upper and r == 0):
            low = middle + 1
        else:
            high = middle
            equal[0] = r == 0
    return low


cdef inline uint32_t entries_lower(
    Probe *pr, const uint64_t *hint, Tuple **t, uint32_t n, bint *equal
) noexcept nogil:
    """First entry not below the probe, n if there is none; `equal` says if it equals the probe."""
    cdef uint32_t low
    equal[0] = False
    if hint[n - 1] < pr.hint:
        return n
    low = hint_lower(hint, n, pr.hint)
    if hint[low] != pr.hint:
        return low
    if pr.exact:
        equal[0] = True
        return low
    return entries_refine(pr, t, low, low + hint_upper(hint + low, n - low, pr.hint), False, equal)


cdef inline uint32_t entries_upper(Probe *pr, const uint64_t *hint, Tuple **t, uint32_t n) noexcept nogil:
    """First entry above the probe, n if there is none."""
    cdef uint32_t low, high
    cdef bint equal
    if hint[n - 1] < pr.hint:
        return n
    high = hint_upper(hint, n, pr.hint)
    if pr.exact:
        return high
    low = hint_lower(hint, n, pr.hint)
    return entries_refine(pr, t, low, high, True, &equal) if low < high else high


cdef bint tree_lower(Tree *tree, Probe *pr, Path *path) noexcept nogil:
    """Path to the first entry not below the probe, or behind the last. True if the entry equals the probe."""
    cdef Page *page = tree.root
    cdef Inner *inner
    cdef Leaf *leaf
    cdef uint32_t level = 0
    cdef uint32_t at
    cdef bint equal = False
    path.height = tree.height
    path.page[0] = page
    path.at[0] = 0
    if page == NULL:
        return False
    while level < tree.height:
        inner = <Inner *> page
        at = entries_lower(pr, inner.hint, inner.t, inner.n, &equal)
        if at == inner.n:
            at -= 1
        path.page[level] = page
        path.at[level] = at
        page = inner.kid[at]
        page_prefetch(page)
        level += 1
    leaf = <Leaf *> page
    path.page[level] = page
    path.at[level] = entries_lower(pr, leaf.hint, leaf.t, leaf.n, &equal)
    return equal


cdef void tree_upper(Tree *tree, Probe *pr, Path *path) noexcept nogil:
    """Path to the first entry above the probe, or behind the last."""
    cdef Page *page = tree.root
    cdef Inner *inner
    cdef Leaf *leaf
    cdef uint32_t level = 0
    cdef uint32_t at
    path.height = tree.height
    path.page[0] = page
    path.at[0] = 0
    if page == NULL:
        return
    while level < tree.height:
        inner = <Inner *> page
        at = entries_upper(pr, inner.hint, inner.t, inner.n)
        if at == inner.n:
            at -= 1
        path.page[level] = page
        path.at[level] = at
        page = inner.kid[at]
        page_prefetch(page)
        level += 1
    leaf = <Leaf *> page
    path.page[level] = page
    path.at[level] = entries_upper(pr, leaf.hint, leaf.t, leaf.n)


cdef inline Tuple *path_tuple(Path *path) noexcept nogil:
    """The tuple at the path, NULL behind the last."""
    cdef Leaf *leaf = <Leaf *> path.page[path.height]
    cdef uint32_t at = path.at[path.height]
    return leaf.t[at] if leaf != NULL and at < leaf.n else NULL


cdef inline uint32_t tree_reserve_pages(Tree *tree) noexcept nogil:
    """Pages that one change may take: a copy and a new sibling on each level, a new root."""
    return 2 * tree.height + 4

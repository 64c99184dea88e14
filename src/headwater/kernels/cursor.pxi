# Walking a tree: single steps, positions by number, and what SELECT makes of an iterator type.

cdef enum:
    # iterator_type.h
    ITER_EQ = 0
    ITER_REQ = 1
    ITER_ALL = 2
    ITER_LT = 3
    ITER_LE = 4
    ITER_GE = 5
    ITER_GT = 6
    ITER_NP = 12
    ITER_PP = 13


cdef inline bint iterator_known(uint64_t iterator) noexcept nogil:
    return iterator <= ITER_GT or iterator == ITER_NP or iterator == ITER_PP


cdef bint path_next(Path *path) noexcept nogil:
    """One entry on; False behind the last."""
    cdef uint32_t level = path.height
    path.at[level] += 1
    if path.at[level] < path.page[level].n:
        return True
    while level:
        level -= 1
        if path.at[level] + 1 < path.page[level].n:
            path.at[level] += 1
            while level < path.height:
                path.page[level + 1] = (<Inner *> path.page[level]).kid[path.at[level]]
                level += 1
                path.at[level] = 0
            return True
    return False


cdef bint path_prev(Path *path) noexcept nogil:
    """One entry back; False before the first."""
    cdef uint32_t level = path.height
    if path.at[level]:
        path.at[level] -= 1
        return True
    while level:
        level -= 1
        if path.at[level]:
            path.at[level] -= 1
            while level < path.height:
                path.page[level + 1] = (<Inner *> path.page[level]).kid[path.at[level]]
                level += 1
                path.at[level] = path.page[level].n - 1
            return True
    return False


cdef bint path_seek(Page *root, uint32_t height, uint64_t rank, Path *path) noexcept nogil:
    """To the entry number `rank`; False if there are not so many."""
    cdef uint32_t level, i
    cdef Page *page = root
    cdef Inner *inner
    path.height = height
    if page == NULL:
        return False
    for level in range(height):
        inner = <Inner *> page
        i = 0
        while i + 1 < inner.n and rank >= inner.card[i]:
            rank -= inner.card[i]
            i += 1
        path.page[level] = page
        path.at[level] = i
        page = inner.kid[i]
    path.page[height] = page
    path.at[height] = <uint32_t> rank
    return rank < page.n


cdef uint64_t path_rank(Path *path) noexcept nogil:
    """How many entries are before the path."""
    cdef uint64_t rank = 0
    cdef uint32_t level, i
    if path.page[0] == NULL:
        return 0
    for level in range(path.height):
        for i in range(path.at[level]):
            rank += (<Inner *> path.page[level]).card[i]
    return rank + path.at[path.height]


cdef struct Scan:
    # A SELECT under way. It points into itself: never copied.
    Tree *tree
    Path path
    Probe key              # compared with for EQ and REQ
    bint has_key
    bint bounded           # stop at the first entry that does not equal the key
    bint single            # at most one entry equals the key
    bint reverse
    bint there             # the path points at an entry not yet taken
    void *prefix           # a key made for NP


cdef inline void scan_done(Scan *s) noexcept nogil:
    if s.has_key:
        probe_done(&s.key)
        s.has_key = False
    if s.prefix != NULL:
        free(s.prefix)
        s.prefix = NULL


cdef int next_prefix(Scan *s, bp *key, uint32_t parts) noexcept nogil:
    """The least key above all that begin with this one, for NP. 0 if there is none, 1 if made, 2 if NP is GT here,
    -1 without memory (index.cc, prepare_start_prefix_iterator)."""
    cdef bp last = key[0]
    cdef bp text
    cdef uint8_t *copy
    cdef uint32_t i
    cdef uint32_t size
    for i in range(parts - 1):
        last = mp_skip(last)
    if TYPE_OF[last[0]] != MP_STR:
        return 2
    text = load_blob(last, &size)
    if size == 0:
        return 0
    s.prefix = malloc(text + size - key[0])
    if s.prefix == NULL:
        return -1
    memcpy(s.prefix, key[0], text + size - key[0])
    copy = <uint8_t *> s.prefix + (text - key[0])
    while size:
        size -= 1
        if copy[size] != 0xFF:
            copy[size] += 1
            key[0] = <bp> s.prefix
            return 1
        copy[size] = 0
    return 0


cdef int scan_begin(
    Scan *s, Tree *tree, int iterator, bp key, uint32_t parts, uint64_t offset, bp after, bint counting
) noexcept nogil:
    """Find the first entry of a SELECT (memtx_tree.cc, memtx_tree_lookup). The key was checked; `after` is a tuple.
    -1 without memory or if a sort_key raised; scan_done is due in any case."""
    cdef Probe behind
    cdef int made
    cdef bint upper
    s.tree = tree
    s.has_key = False
    s.prefix = NULL
    s.there = False
    s.bounded = False
    s.single = False
    s.reverse = iterator == ITER_REQ or iterator == ITER_LT or iterator == ITER_LE or iterator == ITER_PP
    s.path.height = 0
    s.path.page[0] = NULL
    if parts == 0:
        iterator = ITER_LE if s.reverse else ITER_GE
    elif iterator == ITER_ALL:
        iterator = ITER_GE
    elif iterator == ITER_PP:
        iterator = ITER_LT
    elif iterator == ITER_NP:
        iterator = ITER_GT
        if after == NULL:
            made = next_prefix(s, &key, parts)
            if made <= 0:
                return made
            if made == 1:
                iterator = ITER_GE
    if tree.root == NULL:
        return 0
    s.bounded = iterator == ITER_EQ or iterator == ITER_REQ
    if parts and (after == NULL or s.bounded):
        if probe_key(&s.key, tree.kd, key, parts) < 0:
            return -1
        s.has_key = True
        s.single = s.bounded and tree.unique and parts == tree.kd.own and not s.key.has_nil
    if after != NULL:
        if probe_tuple(&behind, tree.kd, after, tree.kd.all) < 0:
            return -1
        if s.reverse:
            tree_lower(tree, &behind, &s.path)
        else:
            tree_upper(tree, &behind, &s.path)
        probe_done(&behind)
    elif parts == 0:
        if s.reverse:
            path_seek(tree.root, tree.height, tree.count, &s.path)
        else:
            path_seek(tree.root, tree.height, 0, &s.path)
    else:
        upper = iterator == ITER_GT or iterator == ITER_LE or iterator == ITER_REQ
        if upper:
            tree_upper(tree, &s.key, &s.path)
        elif not tree_lower(tree, &s.key, &s.path) and iterator == ITER_EQ:
            return 0
        elif iterator == ITER_EQ and offset == 0 and not counting:
            s.there = True
            return 0
    scan_skip(s, offset)
    return 0


cdef void scan_skip(Scan *s, uint64_t offset) noexcept nogil:
    """From the bound that was found to the first entry, `offset` further on."""
    cdef uint64_t rank
    if s.reverse:
        s.there = path_prev(&s.path)
    else:
        s.there = path_tuple(&s.path) != NULL
    if offset and s.there:
        rank = path_rank(&s.path)
        if s.reverse:
            s.there = offset <= rank and path_seek(s.tree.root, s.tree.height, rank - offset, &s.path)
        else:
            s.there = offset < s.tree.count and path_seek(s.tree.root, s.tree.height, rank + offset, &s.path)
    if s.there and s.bounded:
        s.there = scan_equals(s)


cdef inline bint scan_equals(Scan *s) noexcept nogil:
    """Does the entry at the path equal the key?"""
    cdef Leaf *leaf = <Leaf *> s.path.page[s.path.height]
    cdef uint32_t at = s.path.at[s.path.height]
    if leaf.hint[at] != s.key.hint:
        return False
    return s.key.exact or probe_compare(&s.key, s.key.first, leaf.t[at].data) == 0


cdef inline Tuple *scan_take(Scan *s) noexcept nogil:
    """The entry at the path, and one step on. NULL at the end."""
    cdef Tuple *t
    if not s.there:
        return NULL
    t = path_tuple(&s.path)
    if s.single:
        s.there = False
        return t
    s.there = path_prev(&s.path) if s.reverse else path_next(&s.path)
    if s.there and s.bounded:
        s.there = scan_equals(s)
    return t


cdef uint64_t scan_count(Scan *s, int iterator) noexcept nogil:
    """How many entries the scan would give (memtx_tree_index_count). It has begun without an offset."""
    cdef Path bound
    cdef uint64_t first, last
    if not s.there:
        return 0
    if s.single:
        return 1
    first = path_rank(&s.path)
    if s.bounded:
        if s.reverse:
            tree_lower(s.tree, &s.key, &bound)
            return first + 1 - path_rank(&bound)
        tree_upper(s.tree, &s.key, &bound)
        last = path_rank(&bound)
        return last - first
    return first + 1 if s.reverse else s.tree.count - first

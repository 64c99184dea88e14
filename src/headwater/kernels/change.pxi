# Changes of a tree: copy what a view may see, insert and split, remove and merge, drop it whole.

cdef void path_own(Tree *tree, Path *path) noexcept nogil:
    """Copy the pages of the path that an open view may see."""
    cdef Mx *mx = tree.mx
    cdef uint32_t level
    cdef Page *page
    cdef Page *copy
    if path.page[path.height].birth > mx.newest:
        return  # its parents are as young: they changed when it was made
    for level in range(path.height + 1):
        page = path.page[level]
        if page.birth > mx.newest:
            continue
        copy = page_alloc(mx, 0)
        memcpy(copy, page, PAGE_SIZE)
        copy.birth = mx.epoch
        retire(mx, page, page.birth, True)
        if level == 0:
            tree.root = copy
        else:
            (<Inner *> path.page[level - 1]).kid[path.at[level - 1]] = copy
        path.page[level] = copy


cdef inline void page_greatest(Page *page, uint64_t *hint, Tuple **t) noexcept nogil:
    if page.level == 0:
        hint[0] = (<Leaf *> page).hint[page.n - 1]
        t[0] = (<Leaf *> page).t[page.n - 1]
    else:
        hint[0] = (<Inner *> page).hint[page.n - 1]
        t[0] = (<Inner *> page).t[page.n - 1]


cdef uint64_t page_card(Page *page) noexcept nogil:
    cdef uint64_t total = 0
    cdef uint32_t i
    if page.level == 0:
        return page.n
    for i in range(page.n):
        total += (<Inner *> page).card[i]
    return total


cdef inline void inner_set(Inner *inner, uint32_t at, Page *kid) noexcept nogil:
    """Entry `at` describes `kid`."""
    inner.kid[at] = kid
    inner.card[at] = page_card(kid)
    page_greatest(kid, &inner.hint[at], &inner.t[at])


cdef void inner_open(Inner *inner, uint32_t at) noexcept nogil:
    """Make room for one entry at `at`."""
    cdef size_t n = inner.n - at
    memmove(&inner.hint[at + 1], &inner.hint[at], n * 8)
    memmove(&inner.t[at + 1], &inner.t[at], n * sizeof(void *))
    memmove(&inner.kid[at + 1], &inner.kid[at], n * sizeof(void *))
    memmove(&inner.card[at + 1], &inner.card[at], n * 8)
    inner.n += 1


cdef void inner_close(Inner *inner, uint32_t at) noexcept nogil:
    """Take the entry at `at` away."""
    cdef size_t n = inner.n - at - 1
    memmove(&inner.hint[at], &inner.hint[at + 1], n * 8)
    memmove(&inner.t[at], &inner.t[at + 1], n * sizeof(void *))
    memmove(&inner.kid[at], &inner.kid[at + 1], n * sizeof(void *))
    memmove(&inner.card[at], &inner.card[at + 1], n * 8)
    inner.n -= 1


cdef void inner_move(Inner *to, uint32_t to_at, Inner *source, uint32_t at, uint32_t n) noexcept nogil:
    """Copy n entries of `source` from `at` on into `to`, over what is there."""
    memcpy(&to.hint[to_at], &source.hint[at], n * 8)
    memcpy(&to.t[to_at], &source.t[at], n * sizeof(void *))
    memcpy(&to.kid[to_at], &source.kid[at], n * sizeof(void *))
    memcpy(&to.card[to_at], &source.card[at], n * 8)


cdef inline void leaf_put(Leaf *leaf, uint32_t at, uint64_t hint, Tuple *t) noexcept nogil:
    cdef size_t n = leaf.n - at
    if n:
        memmove(&leaf.hint[at + 1], &leaf.hint[at], n * 8)
        memmove(&leaf.t[at + 1], &leaf.t[at], n * sizeof(void *))
    leaf.hint[at] = hint
    leaf.t[at] = t
    leaf.n += 1


cdef bint path_at_right_edge(Path *path) noexcept nogil:
    cdef uint32_t level
    for level in range(path.height):
        if path.at[level] + 1 != path.page[level].n:
            return False
    return path.at[path.height] == path.page[path.height].n


cdef Page *leaf_split(Tree *tree, Leaf *leaf, uint32_t at, uint64_t hint, Tuple *t, bint edge) noexcept nogil:
    """Put the entry into a full leaf: its new right sibling. At the right edge of the tree the left one stays full."""
    cdef Leaf *right = <Leaf *> page_alloc(tree.mx, 0)
    cdef uint32_t keep = LEAF_MAX if edge else LEAF_MAX // 2
    tree.pages += 1
    right.n = leaf.n - keep
    memcpy(right.hint, &leaf.hint[keep], right.n * 8)
    memcpy(right.t, &leaf.t[keep], right.n * sizeof(void *))
    leaf.n = keep
    if edge or at > keep:
        leaf_put(right, at - keep, hint, t)
    else:
        leaf_put(leaf, at, hint, t)
    return <Page *> right


cdef Page *inner_split(Tree *tree, Inner *inner, uint32_t at, Page *kid, bint edge) noexcept nogil:
    """Put `kid` as entry `at` into a full inner page: its new right sibling."""
    cdef Inner *right = <Inner *> page_alloc(tree.mx, inner.level)
    cdef uint32_t keep = INNER_MAX if edge else INNER_MAX // 2
    cdef Inner *to = inner
    tree.pages += 1
    right.n = inner.n - keep
    inner_move(right, 0, inner, keep, right.n)
    inner.n = keep
    if edge or at > keep:
        to = right
        at -= keep
    inner_open(to, at)
    inner_set(to, at, kid)
    return <Page *> right


cdef void tree_grow(Tree *tree, Page *left, Page *right) noexcept nogil:
    cdef Inner *root = <Inner *> page_alloc(tree.mx, left.level + 1)
    tree.pages += 1
    root.n = 2
    inner_set(root, 0, left)
    inner_set(root, 1, right)
    tree.root = <Page *> root
    tree.height += 1


cdef void tree_insert(Tree *tree, Path *path, uint64_t hint, Tuple *t) noexcept nogil:
    """A new entry where the path points. Takes pages from the reserve only."""
    cdef Leaf *leaf
    cdef Inner *inner
    cdef Page *right = NULL
    cdef uint32_t level, at
    cdef bint edge, greatest
    tree.count += 1
    if tree.root == NULL:
        leaf = <Leaf *> page_alloc(tree.mx, 0)
        tree.pages += 1
        tree.root = <Page *> leaf
        leaf_put(leaf, 0, hint, t)
        return
    path_own(tree, path)
    leaf = <Leaf *> path.page[path.height]
    at = path.at[path.height]
    greatest = at == leaf.n
    edge = False
    if leaf.n < LEAF_MAX:
        leaf_put(leaf, at, hint, t)
    else:
        edge = path_at_right_edge(path)
        right = leaf_split(tree, leaf, at, hint, t, edge)
    level = path.height
    while level:
        level -= 1
        inner = <Inner *> path.page[level]
        at = path.at[level]
        if right == NULL:
            inner.card[at] += 1
            if greatest:
                page_greatest(path.page[level + 1], &inner.hint[at], &inner.t[at])
            continue
        inner_set(inner, at, path.page[level + 1])
        if inner.n < INNER_MAX:
            inner_open(inner, at + 1)
            inner_set(inner, at + 1, right)
            right = NULL
        else:
            right = inner_split(tree, inner, at + 1, right, edge)
    if right != NULL:
        tree_grow(tree, path.page[0], right)


cdef void tree_replace(Tree *tree, Path *path, uint64_t hint, Tuple *t) noexcept nogil:
    """Another tuple with an equal key in the place of the one at the path."""
    cdef Leaf *leaf
    cdef Inner *inner
    cdef uint32_t level = path.height
    path_own(tree, path)
    leaf = <Leaf *> path.page[level]
    leaf.hint[path.at[level]] = hint
    leaf.t[path.at[level]] = t
    while level and path.at[level] + 1 == path.page[level].n:
        level -= 1
        inner = <Inner *> path.page[level]
        inner.hint[path.at[level]] = hint
        inner.t[path.at[level]] = t


cdef void leaf_merge(Tree *tree, Leaf *leaf, Leaf *other, bint other_is_left) noexcept nogil:
    """Take all entries of a sibling, which goes."""
    if other_is_left:
        memmove(&leaf.hint[other.n], leaf.hint, leaf.n * 8)
        memmove(&leaf.t[other.n], leaf.t, leaf.n * sizeof(void *))
        memcpy(leaf.hint, other.hint, other.n * 8)
        memcpy(leaf.t, other.t, other.n * sizeof(void *))
    else:
        memcpy(&leaf.hint[leaf.n], other.hint, other.n * 8)
        memcpy(&leaf.t[leaf.n], other.t, other.n * sizeof(void *))
    leaf.n += other.n
    tree.pages -= 1
    page_drop(tree.mx, <Page *> other)


cdef void inner_merge(Tree *tree, Inner *inner, Inner *other, bint other_is_left) noexcept nogil:
    if other_is_left:
        memmove(&inner.hint[other.n], inner.hint, inner.n * 8)
        memmove(&inner.t[other.n], inner.t, inner.n * sizeof(void *))
        memmove(&inner.kid[other.n], inner.kid, inner.n * sizeof(void *))
        memmove(&inner.card[other.n], inner.card, inner.n * 8)
        inner_move(inner, 0, other, 0, other.n)
    else:
        inner_move(inner, inner.n, other, 0, other.n)
    inner.n += other.n
    tree.pages -= 1
    page_drop(tree.mx, <Page *> other)


cdef void page_rebalance(Tree *tree, Inner *parent, uint32_t at) noexcept nogil:
    """The child `at` is a quarter full or less: take a sibling into it if both fit well. The child is our own page."""
    cdef Page *page = parent.kid[at]
    cdef Page *other
    cdef uint32_t most = LEAF_MAX if page.level == 0 else INNER_MAX
    cdef uint32_t side
    if page.n > most // 4 or parent.n < 2:
        return
    for side in range(2):
        if side == 0 and at == 0 or side == 1 and at + 1 == parent.n:
            continue
        other = parent.kid[at - 1 if side == 0 else at + 1]
        if page.n + other.n > most * 3 // 4:
            continue
        if page.level == 0:
            leaf_merge(tree, <Leaf *> page, <Leaf *> other, side == 0)
        else:
            inner_merge(tree, <Inner *> page, <Inner *> other, side == 0)
        inner_close(parent, at - 1 if side == 0 else at + 1)
        inner_set(parent, at - 1 if side == 0 else at, page)
        return


cdef void tree_remove(Tree *tree, Path *path) noexcept nogil:
    """Take the entry at the path away."""
    cdef Leaf *leaf
    cdef Inner *inner
    cdef Page *kid
    cdef uint32_t level = path.height
    cdef uint32_t at
    path_own(tree, path)
    tree.count -= 1
    leaf = <Leaf *> path.page[level]
    at = path.at[level]
    leaf.n -= 1
    memmove(&leaf.hint[at], &leaf.hint[at + 1], (leaf.n - at) * 8)
    memmove(&leaf.t[at], &leaf.t[at + 1], (leaf.n - at) * sizeof(void *))
    while level:
        level -= 1
        inner = <Inner *> path.page[level]
        at = path.at[level]
        kid = path.page[level + 1]
        if kid.n == 0:
            inner_close(inner, at)
            tree.pages -= 1
            page_drop(tree.mx, kid)
            continue
        inner.card[at] -= 1
        page_greatest(kid, &inner.hint[at], &inner.t[at])
        page_rebalance(tree, inner, at)
    while tree.root.n == 0 or (tree.height and tree.root.n == 1):
        kid = (<Inner *> tree.root).kid[0] if tree.root.n else NULL
        tree.pages -= 1
        page_drop(tree.mx, tree.root)
        tree.root = kid
        if kid == NULL:
            tree.height = 0
            return
        tree.height -= 1


cdef void page_destroy(Mx *mx, Page *page, bint tuples) noexcept nogil:
    cdef uint32_t i
    for i in range(page.n):
        if page.level:
            page_destroy(mx, (<Inner *> page).kid[i], tuples)
        elif tuples:
            tuple_unref(mx, (<Leaf *> page).t[i])
    page_drop(mx, page)


cdef bint garbage_room(Mx *mx, size_t more) noexcept nogil:
    cdef size_t room = mx.garbage_room * 2 if mx.garbage_room else 256
    cdef uint64_t *list
    if mx.garbage_room - mx.garbage_count >= more:
        return True
    while room < mx.garbage_count + more:
        room *= 2
    list = <uint64_t *> realloc(mx.garbage, room * sizeof(uint64_t))
    if list == NULL:
        return False
    mx.garbage = list
    mx.garbage_room = room
    return True


cdef size_t garbage_step(Mx *mx, size_t budget) noexcept nogil:
    """One page of a dropped tree less; what is left of the budget."""
    cdef uint64_t word = mx.garbage[mx.garbage_count - 1]
    cdef uint64_t tuples = word & 1
    cdef Page *page = <Page *> (word - tuples)
    cdef uint32_t i
    cdef size_t cost = page.n + 1
    mx.garbage_count -= 1
    if page.level and garbage_room(mx, page.n):
        for i in range(page.n):
            mx.garbage[mx.garbage_count] = <uint64_t> (<Inner *> page).kid[i] | tuples
            mx.garbage_count += 1
        page_drop(mx, page)
    else:
        page_destroy(mx, page, tuples != 0)
    return budget - cost if budget > cost else 0


cdef void tree_destroy(Tree *tree, bint tuples) noexcept nogil:
    """Empty it; with `tuples` it owns those, and drops its references. A large one goes bit by bit."""
    cdef Mx *mx = tree.mx
    cdef Page *root = tree.root
    tree.root = NULL
    tree.height = 0
    tree.count = 0
    tree.pages = 0
    if root == NULL:
        return
    if not garbage_room(mx, 1):
        if not mx.busy:  # else it leaks: better than two threads at one list of free cells
            page_destroy(mx, root, tuples)
        return
    mx.garbage[mx.garbage_count] = <uint64_t> root | (1 if tuples else 0)
    mx.garbage_count += 1
    if not mx.busy:
        tidy(mx, TIDY_AT_ONCE)

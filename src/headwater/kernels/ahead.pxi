# Looking ahead. In a large index a request waits for memory three times: for a leaf, for the entry in it, for the
# tuple. A few requests are taken apart together and walk these three steps side by side, so that they wait together.
# Nothing is decided here; the requests are served afterwards, one by one, from the beginning.

cdef enum:
    AHEAD = 16             # requests taken apart together
    AHEAD_SLOTS = 64       # places looked up for them
    AHEAD_LEAST = 16384    # entries of an index that is worth it; a smaller one lies in the cache

cdef struct Slot:
    uint64_t hint
    Leaf *leaf
    uint32_t at

cdef struct Lookahead:
    uint32_t n
    Slot slot[AHEAD_SLOTS]


cdef void ahead_place(Lookahead *look, Tree *tree, bp field) noexcept nogil:
    """The first step: down to the leaf for a first part, and ask for its hints."""
    cdef uint64_t hint
    cdef Page *page = tree.root
    cdef Inner *inner
    cdef uint32_t at, level
    if tree.count < AHEAD_LEAST or tree.kd.collated or look.n == AHEAD_SLOTS:
        return
    hint = hint_of(field, tree.kd.hint)
    if (<Inner *> page).hint[page.n - 1] < hint:
        return  # behind the last one: that path is in use all the time
    for level in range(tree.height):  # not by the page's own level: a leaf is not looked at here
        inner = <Inner *> page
        at = hint_lower(inner.hint, inner.n, hint)
        page = inner.kid[at if at < inner.n else inner.n - 1]
    page_prefetch(page)
    look.slot[look.n].hint = hint
    look.slot[look.n].leaf = <Leaf *> page
    look.n += 1


cdef void ahead_request(Lookahead *look, Mx *mx, Request *r) noexcept nogil:
    """Places of one request that was taken apart."""
    cdef Space *s
    cdef Tree *tree
    cdef uint32_t i
    cdef uint32_t parts
    cdef bp key
    if not r.seen & HAS_SPACE:
        return
    s = space_find(mx, r.space_id)
    if s == NULL or not s.fast:
        return
    if r.seen & HAS_TUPLE:
        for i in range(s.n):
            tree = s.tree[i]
            ahead_place(look, tree, field_of(r.tuple, tree.kd.part[0].field))
    elif r.seen & HAS_KEY:
        tree = space_tree(s, r.index_id)
        key = load_count(r.key, &parts)
        if tree != NULL and parts:
            ahead_place(look, tree, key)


cdef void ahead_fetch(Lookahead *look) noexcept nogil:
    """The second and the third step: the entry in the leaf, then its tuple."""
    cdef uint32_t i
    cdef Slot *slot
    cdef const uint8_t *t
    for i in range(look.n):
        slot = &look.slot[i]
        slot.at = hint_lower(slot.leaf.hint, slot.leaf.n, slot.hint)
        if slot.at < slot.leaf.n:
            __builtin_prefetch(&slot.leaf.t[slot.at])
    for i in range(look.n):
        slot = &look.slot[i]
        if slot.at < slot.leaf.n and slot.leaf.hint[slot.at] == slot.hint:
            t = <const uint8_t *> slot.leaf.t[slot.at]
            __builtin_prefetch(t)
            __builtin_prefetch(t + 64)

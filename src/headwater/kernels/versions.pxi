# Tuples and pages: who holds them, since when they are there, and what is kept only because a read view may see it.
#
# Opening a view ends an epoch. A page or tuple knows the epoch of its birth; one that is as old as the newest view, or
# older, is not freed when the last holder lets go, but put on a list with both epochs until no view lies between them.

# ---- tuples ----------------------------------------------------------------------------------------


cdef inline Tuple *tuple_new(Mx *mx, bp data, uint32_t size) noexcept nogil:
    """A copy with one reference, born now. NULL without memory."""
    cdef size_t whole = cell_size(<size_t> size + TUPLE_HEAD)
    cdef Tuple *t
    if whole <= CELL_MAX:
        t = <Tuple *> cell_alloc(mx, <uint32_t> whole)
    else:
        t = <Tuple *> malloc(whole)
        mx.used += whole if t != NULL else 0
    if t == NULL:
        return NULL
    t.meta = 1 | ((<uint32_t> mx.epoch << 8) if mx.epoch < TUPLE_EPOCH_MAX else 0)
    t.size = size
    memcpy(t.data, data, size)
    return t


cdef void tuple_free(Mx *mx, Tuple *t) noexcept nogil:
    cdef size_t whole = cell_size(<size_t> t.size + TUPLE_HEAD)
    if whole <= CELL_MAX:
        cell_free(mx, t, <uint32_t> whole)
    else:
        mx.used -= whole
        free(t)


cdef inline void tuple_ref(Tuple *t) noexcept nogil:
    t.meta += 1


cdef inline void tuple_unref(Mx *mx, Tuple *t) noexcept nogil:
    """Drop one reference. The last one: free it, or keep it while a view may see it."""
    t.meta -= 1
    if t.meta & TUPLE_REFS == 0:
        if mx.newest and t.meta >> 8 <= mx.newest:
            retire(mx, t, t.meta >> 8, False)
        else:
            tuple_free(mx, t)


cdef inline bytes tuple_bytes(Tuple *t):
    return PyBytes_FromStringAndSize(<const char *> t.data, t.size)


# ---- pages -----------------------------------------------------------------------------------------


cdef bint pages_reserve(Mx *mx, uint32_t count) noexcept nogil:
    """That many page_alloc will not fail."""
    cdef Page *page
    while mx.pages_count < count:
        page = <Page *> cell_alloc(mx, PAGE_SIZE)
        if page == NULL:
            return False
        (<void **> page)[0] = mx.pages
        mx.pages = page
        mx.pages_count += 1
    return True


cdef inline Page *page_alloc(Mx *mx, uint32_t level) noexcept nogil:
    """From the reserve."""
    cdef Page *page = mx.pages
    mx.pages = (<Page **> page)[0]
    mx.pages_count -= 1
    page.birth = mx.epoch
    page.n = 0
    page.level = level
    return page


cdef void page_free(Mx *mx, Page *page) noexcept nogil:
    if mx.pages_count >= PAGES_IDLE or HEADWATER_MALLOC_CELLS:
        cell_free(mx, page, PAGE_SIZE)
        return
    (<void **> page)[0] = mx.pages
    mx.pages = page
    mx.pages_count += 1


# ---- what only views still see ---------------------------------------------------------------------


cdef bint retire_room(Mx *mx, size_t more) noexcept nogil:
    """That many `retire` will not fail."""
    cdef size_t room = mx.retired_room * 2 if mx.retired_room else 256
    cdef Retired *list
    if mx.retired_room - mx.retired_count >= more:
        return True
    while room < mx.retired_count + more:
        room *= 2
    list = <Retired *> realloc(mx.retired, room * sizeof(Retired))
    if list == NULL:
        return False
    mx.retired = list
    mx.retired_room = room
    return True


cdef void retire(Mx *mx, void *what, uint64_t birth, bool_t is_page) noexcept nogil:
    cdef Retired *r
    if mx.retired_count == mx.retired_room and not retire_room(mx, 1):
        return  # no memory to remember it: it leaks, which is better than a view that reads freed memory
    r = &mx.retired[mx.retired_count]
    r.what = what
    r.birth = birth
    r.death = mx.epoch
    r.is_page = is_page
    mx.retired_count += 1


cdef inline void page_drop(Mx *mx, Page *page) noexcept nogil:
    """No tree has this page any more."""
    if page.birth <= mx.newest:
        retire(mx, page, page.birth, True)
    else:
        page_free(mx, page)


cdef inline bint retired_seen(Mx *mx, Retired *r) noexcept nogil:
    cdef uint32_t v
    for v in range(mx.views_count):
        if r.birth <= mx.views[v] < r.death:
            return True
    return False


cdef size_t retired_sweep(Mx *mx, size_t budget) noexcept nogil:
    """Free what no open view can see, `budget` items at most; what is left of the budget. A pass goes through the list
    once and closes the gaps behind itself: kept items before sweep_to, items still to look at from sweep_at on."""
    cdef Retired *r
    while budget and mx.sweep_at < mx.retired_count:
        r = &mx.retired[mx.sweep_at]
        mx.sweep_at += 1
        budget -= 1
        if retired_seen(mx, r):
            mx.retired[mx.sweep_to] = r[0]
            mx.sweep_to += 1
        elif r.is_page:
            page_free(mx, <Page *> r.what)
        else:
            tuple_free(mx, <Tuple *> r.what)
    if mx.sweep_at < mx.retired_count:
        return 0
    mx.retired_count = mx.sweep_to
    mx.sweep_at = mx.sweep_to = 0
    mx.sweeps -= 1
    if mx.retired_count == 0 and mx.retired_room > 65536:
        free(mx.retired)
        mx.retired = NULL
        mx.retired_room = 0
    return budget


cdef void tidy(Mx *mx, size_t budget) noexcept nogil:
    """A part of the work that closed views and dropped trees have left. The loop comes here all the time, so that no
    single turn pays for a million tuples."""
    while mx.sweeps and budget:
        budget = retired_sweep(mx, budget)
    while mx.garbage_count and budget:
        budget = garbage_step(mx, budget)


cdef bint view_register(Mx *mx) noexcept nogil:
    """The present epoch gets a view and ends. False without memory."""
    cdef uint64_t *views
    if mx.views_count == mx.views_room:
        views = <uint64_t *> realloc(mx.views, (mx.views_room + 8) * sizeof(uint64_t))
        if views == NULL:
            return False
        mx.views = views
        mx.views_room += 8
    mx.views[mx.views_count] = mx.epoch
    mx.views_count += 1
    mx.newest = mx.epoch
    mx.epoch += 1
    return True


cdef void view_forget(Mx *mx, uint64_t epoch) noexcept nogil:
    cdef uint32_t v = 0
    while v < mx.views_count and mx.views[v] != epoch:
        v += 1
    if v == mx.views_count:
        return
    memmove(mx.views + v, mx.views + v + 1, (mx.views_count - v - 1) * sizeof(uint64_t))
    mx.views_count -= 1
    mx.newest = mx.views[mx.views_count - 1] if mx.views_count else 0
    # A pass under way has looked at some items with the view still there: another one follows it.
    mx.sweeps = 2 if mx.sweep_at else 1
    if not mx.busy:
        tidy(mx, TIDY_AT_ONCE)


# ---- the whole -------------------------------------------------------------------------------------


cdef Mx *mx_new() noexcept:
    cdef Mx *mx = <Mx *> calloc(1, sizeof(Mx))
    if mx == NULL:
        return NULL
    mx.refs = 1
    mx.epoch = 1
    mx.undo_enabled = True
    mx.rows_enabled = True
    return mx


cdef void mx_unref(Mx *mx) noexcept:
    """Nothing points here any more: every tree has been destroyed before."""
    cdef Region *region
    cdef Page *page
    if mx == NULL:
        return
    mx.refs -= 1
    if mx.refs:
        return
    mx.views_count = 0
    mx.newest = 0
    mx.sweeps = 2
    tidy(mx, <size_t> -1)
    while mx.pages != NULL and HEADWATER_MALLOC_CELLS:
        page = mx.pages
        mx.pages = (<Page **> page)[0]
        free(page)
    while mx.regions != NULL:
        region = mx.regions
        mx.regions = region.next
        munmap(region.base, region.mapped)
        free(region)
    free(mx.views)
    free(mx.retired)
    free(mx.garbage)
    free(mx.undo)
    free(mx.spaces)
    free(mx.rows.data)
    free(mx.ends.data)
    free(mx.reply.data)
    free(mx.scratch.data)
    free(mx)

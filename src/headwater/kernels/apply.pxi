# The compiled path of recovery: rows of a file straight into the indexes.

cdef struct Apply:
    Mx *mx
    bool_t snapshot
    bool_t inside          # between the first and the last row of a transaction of several
    uint64_t rows
    Space *dup_space       # of the row that met a duplicate
    Request row            # the one that met it
    Change change


cdef inline bint apply_known(Request *r) noexcept nogil:
    """Has the row exactly what one of its kind has?"""
    if r.type == TYPE_INSERT or r.type == TYPE_REPLACE:
        return r.seen == HAS_SPACE | HAS_TUPLE
    if r.type == TYPE_DELETE:
        return r.seen & ~HAS_INDEX == HAS_SPACE | HAS_KEY
    return False


cdef inline Space *apply_space(Mx *mx, Request *r) noexcept nogil:
    cdef Space *s = space_find(mx, r.space_id)
    return s if s != NULL and s.fast and has_primary(s) else NULL


cdef bint apply_transaction(Mx *mx, bp p, bp end) noexcept nogil:
    """Are all rows of the transaction of several rows at p of the plain kind, and does it wait for nobody?"""
    cdef Request r
    while True:
        p = read_row(p, end, &r)
        if p == NULL or not r.in_tsn or not apply_known(&r) or apply_space(mx, &r) == NULL:
            return False
        if r.flags & (FLAG_WAIT_SYNC | FLAG_WAIT_ACK):
            return False
        if r.flags & FLAG_COMMIT:
            return True


cdef bint apply_delete(Space *s, Request *r) noexcept nogil:
    cdef Tree *tree = space_tree(s, r.index_id)
    cdef KeyBad why
    cdef Change c
    cdef uint32_t parts
    cdef int done
    cdef bp key = load_count(r.key, &parts)
    if tree == NULL or not tree.unique or not key_ok(tree.kd, key, parts, True, &why):
        return False
    done = delete_prepare(s, tree, key, &c)
    if done == DONE:
        delete_commit(s, tree, &c)
    elif done == SORT_KEY:
        run_forget(c.kd)
    return done == DONE or done == ABSENT


cdef bint apply_put(Apply *a, Space *s, Request *r) noexcept nogil:
    cdef uint32_t field
    cdef int done
    cdef int mode = PUT_INSERT if r.type == TYPE_INSERT else PUT_REPLACE
    if s.fmt != NULL and format_check(s.fmt, r.tuple, &field) != FORMAT_OK:
        return False
    done = put_prepare(s, r.tuple, <uint32_t> (r.tuple_end - r.tuple), mode, &a.change)
    if done == DONE:
        put_commit(s, &a.change)
    elif done == DUPLICATE:
        a.dup_space = s
    elif done == SORT_KEY:
        run_forget(a.change.kd)
    return done == DONE


cdef bint apply_one(Apply *a, bp p, bp end, Request *r) noexcept nogil:
    """Apply or skip the row at p, or touch nothing and say no."""
    cdef Mx *mx = a.mx
    cdef Space *s
    if not apply_known(r):
        return False
    if not a.snapshot and r.lsn != 0 and <int64_t> r.lsn <= mx.vclock[r.replica_id]:
        return True
    s = apply_space(mx, r)
    if s == NULL or r.flags & (FLAG_WAIT_SYNC | FLAG_WAIT_ACK):
        return False
    if r.in_tsn and not a.inside:
        if not apply_transaction(mx, p, end):
            return False
        a.inside = True
    if not (apply_delete(s, r) if r.type == TYPE_DELETE else apply_put(a, s, r)):
        return False
    if r.in_tsn and r.flags & FLAG_COMMIT:
        a.inside = False
    if not a.snapshot and r.lsn != 0:
        mx.vclock[r.replica_id] = <int64_t> r.lsn
    return True


cdef bp apply_all(Apply *a, bp p, bp end) noexcept nogil:
    """Rows from p on until one is not for this path: where that one begins. `a.row` is that one, if it met a duplicate."""
    cdef Request r[AHEAD]
    cdef bp after[AHEAD]
    cdef Lookahead look
    cdef uint32_t n, i
    cdef bp at
    while True:
        n = 0
        at = p
        look.n = 0
        while n < AHEAD and at < end:
            after[n] = at = read_row(at, end, &r[n])
            if at == NULL:
                break
            ahead_request(&look, a.mx, &r[n])
            n += 1
        ahead_fetch(&look)
        for i in range(n):
            if not apply_one(a, p, end, &r[i]):
                a.row = r[i]
                return p
            p = after[i]
            a.rows += 1
        if n < AHEAD:
            return p

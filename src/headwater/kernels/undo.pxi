# The undo queue: what was prepared and is not yet written, in the order of preparation.


cdef bint undo_grow(Mx *mx) noexcept nogil:
    cdef uint64_t room = mx.undo_room * 2 if mx.undo_room else 1024
    cdef uint64_t at = mx.head
    cdef Undo *ring = <Undo *> malloc(room * sizeof(Undo))
    if ring == NULL:
        return False
    while at < mx.tail:
        ring[at & (room - 1)] = mx.undo[at & (mx.undo_room - 1)]
        at += 1
    free(mx.undo)
    mx.undo = ring
    mx.undo_room = room
    return True


cdef inline bint undo_room(Mx *mx) noexcept nogil:
    """Room for one record; False without memory."""
    return True if mx.tail - mx.head < mx.undo_room else undo_grow(mx)


cdef inline void undo_push(Mx *mx, Space *s, Tuple *old, Tuple *new, uint64_t version) noexcept nogil:
    cdef Undo *u = &mx.undo[mx.tail & (mx.undo_room - 1)]
    u.space = s
    u.old = old
    u.new = new
    u.version = version
    if s != NULL:
        s.unconfirmed += 1
    mx.tail += 1


cdef inline void undo_uncount(Undo *u) noexcept nogil:
    """The record goes: the space waits for one change less."""
    u.space.unconfirmed -= 1
    if u.new == NULL:
        u.space.deletes -= 1
    elif u.old != NULL:
        u.space.moves -= 1


cdef void undo_confirm(Mx *mx, Undo *u) noexcept:
    """A change of tuples is final."""
    undo_uncount(u)
    if u.old != NULL:
        tuple_unref(mx, u.old)
    if u.new != NULL:
        u.new.meta &= ~<uint32_t> TUPLE_PENDING
        tuple_unref(mx, u.new)
    space_release(u.space)


cdef int undo_rollback(Mx *mx, Undo *u) except -1:
    """Take a change of tuples back. The reference that the record had on `old` is the space's again."""
    cdef Space *s = u.space
    cdef int why = DONE
    cdef PyObject *handle = s.handle
    Py_XINCREF(handle)  # a sort key may run Python that lets go of the space
    undo_uncount(u)
    if not s.dead:
        why = space_swap(s, u.new, u.old)
    if s.dead or why != DONE:
        if u.old != NULL:
            tuple_unref(mx, u.old)
    else:
        s.version = u.version
        if u.new != NULL:
            tuple_unref(mx, u.new)
    if u.new != NULL:
        u.new.meta &= ~<uint32_t> TUPLE_PENDING
        tuple_unref(mx, u.new)
    id = s.id
    space_release(s)
    Py_XDECREF(handle)
    if why == NO_INDEX or why == MISMATCH:
        raise ValueError(f"a change of space {id} cannot be undone: its tuples are no longer those of the record")
    if why != DONE:
        raise MemoryError
    return 0

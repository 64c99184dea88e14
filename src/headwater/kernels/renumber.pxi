# Replica ids of a peer's packets exchanged for others (rfc 004).

cdef enum:
    SYSTEM_ID_MAX = 511
    KEY_VCLOCK_SYNC = 0x5A


cdef bint speaks_of_origin_only(Head *h, bp body, bp end) noexcept nogil:
    """Is its origin the only replica that the packet speaks of?"""
    cdef uint64_t space_id
    cdef uint32_t count
    if h.type & TYPE_ERROR or TYPE_RAFT <= h.type <= TYPE_DEMOTE or TYPE_CONFIRM <= h.type <= TYPE_ROLLBACK:
        return False
    if h.replica_at != NULL and (h.many_ids or h.replica_at[0] != h.replica_id or h.replica_id == 0):
        return False
    if body == end:
        return True
    body = read_map(body, end, &count)
    if body == NULL:
        return False
    if h.type == 0:
        return count == 0 or (count == 1 and body < end and body[0] == KEY_VCLOCK_SYNC)
    if count == 0 or body >= end or body[0] != KEY_SPACE_ID:
        return False
    return read_uint(body + 1, end, &space_id) != NULL and space_id > SYSTEM_ID_MAX


def renumber_frames(data, Py_ssize_t offset, Py_ssize_t end, ids):
    """Whole packets with other replica ids in their headers, and the offset where it stopped."""
    cdef int64_t other[32]
    cdef bp start = data_of(data)
    cdef bp stop = start + end
    cdef bp p = start + offset
    cdef bp after, body
    cdef Head h
    cdef uint64_t size
    cdef uint8_t *out
    check_range(data, offset, end)
    if len(ids) != 32:
        raise ValueError(f"32 ids are needed, not {len(ids)}")
    for i in range(32):
        other[i] = ids[i]
        if i and not (other[i] == -1 or 0 < other[i] < 32):
            raise ValueError("an id is -1 or 1..31")
    copy = PyBytes_FromStringAndSize(<const char *> p, end - offset)
    out = <uint8_t *> PyBytes_AS_STRING(copy)
    while p < stop:
        after = read_uint(p, stop, &size)
        if after == NULL or size > <uint64_t> (stop - after):
            break
        body = read_head(after, after + size, &h)
        if body == NULL or not speaks_of_origin_only(&h, body, after + size):
            break
        if h.replica_at != NULL:
            if other[h.replica_id] < 0:
                break
            out[h.replica_at - start - offset] = <uint8_t> other[h.replica_id]
        p = after + size
    if p == stop:
        return copy, end
    return copy[: p - start - offset], p - start

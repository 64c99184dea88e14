# The compiled path of requests: one call serves a run of them.

cdef enum:
    ACCESS_READ = 1
    ACCESS_WRITE = 2
    REPLY_HEAD = 32        # struct iproto_header_bin (xrow.c)
    REPLY_DATA = 7         # 81 30 dd<count>
    REPLY_MOST = 16777216  # bytes of replies after which a run ends

cdef struct Run:
    Mx *mx
    uint32_t token
    bool_t read_only
    bool_t dirty


cdef inline void reply_head(Mx *mx, size_t at, uint64_t sync) noexcept nogil:
    """The fixed preamble of the reply that begins at `at` and ends where the buffer does."""
    cdef uint8_t *p = mx.reply.data + at
    p[0] = 0xCE
    p = put_be(p + 1, mx.reply.size - at - 5, 4)
    p[0] = 0x83
    p[1] = KEY_TYPE
    p[2] = 0xCE
    p = put_be(p + 3, 0, 4)
    p[0] = KEY_SYNC
    p[1] = 0xCF
    p = put_be(p + 2, sync, 8)
    p[0] = KEY_SCHEMA_VERSION
    p[1] = 0xCF
    put_be(p + 2, mx.schema_version, 8)


cdef inline void reply_data(Mx *mx, size_t at, uint64_t sync, uint32_t count) noexcept nogil:
    """Preamble and begin of the body of a reply whose tuples are there."""
    cdef uint8_t *p = mx.reply.data + at + REPLY_HEAD
    reply_head(mx, at, sync)
    p[0] = 0x81
    p[1] = KEY_DATA
    p[2] = 0xDD
    put_be(p + 3, count, 4)


cdef inline void reply_one(Mx *mx, uint64_t sync, bp tuple, size_t size, uint32_t count) noexcept nogil:
    """A whole reply with one tuple, or with none. buffer_room came before."""
    cdef size_t at = mx.reply.size
    mx.reply.size += REPLY_HEAD + REPLY_DATA
    if count:
        memcpy(mx.reply.data + mx.reply.size, tuple, size)
        mx.reply.size += size
    reply_data(mx, at, sync, count)


cdef bint run_ping(Run *run, Request *r) noexcept nogil:
    cdef Mx *mx = run.mx
    cdef size_t at = mx.reply.size
    if r.seen or not buffer_room(&mx.reply, REPLY_HEAD + 1):
        return False
    mx.reply.size += REPLY_HEAD + 1
    mx.reply.data[mx.reply.size - 1] = 0x80
    reply_head(mx, at, r.sync)
    return True


cdef inline bint select_allowed(Tree *tree, Request *r, uint32_t parts) noexcept nogil:
    """Iterators that Tarantool has for this index (index.cc, iterator_validate)."""
    cdef Part *last
    if tree.hash:
        if parts == 0:
            return r.iterator == ITER_ALL
        return r.iterator == ITER_EQ and parts == tree.kd.own
    if parts > tree.kd.own:
        return False
    if (r.iterator == ITER_NP or r.iterator == ITER_PP) and parts:
        last = &tree.kd.part[parts - 1]
        return last.sort_key == NULL
    return True


cdef inline bint select_waits(Space *s, Tree *tree, Scan *scan, uint32_t count) noexcept nogil:
    """May the answer lack something that an unconfirmed change took away? What it holds was looked at one by one."""
    if s.mx.calls:
        return True
    if scan.single and count:
        return False
    return s.deletes != 0 or (s.moves != 0 and tree != s.tree[0])


cdef int64_t select_tuples(Run *run, Scan *scan, uint64_t limit) noexcept nogil:
    """Append the tuples of a scan to the replies. How many, -1 without memory."""
    cdef Buffer *out = &run.mx.reply
    cdef int64_t count = 0
    cdef Tuple *t
    while <uint64_t> count < limit:
        t = scan_take(scan)
        if t == NULL:
            break
        if not buffer_room(out, t.size):
            return -1
        memcpy(out.data + out.size, t.data, t.size)
        out.size += t.size
        if t.meta & TUPLE_PENDING:
            run.dirty = True
        count += 1
    return count


cdef bint run_select(Run *run, Request *r, Space *s) noexcept nogil:
    cdef Mx *mx = run.mx
    cdef size_t at = mx.reply.size
    cdef bool_t dirty = run.dirty
    cdef int64_t count = -1
    cdef uint32_t parts
    cdef KeyBad why
    cdef Scan scan
    cdef Tree *tree
    cdef bp key
    if r.seen & ~(HAS_SPACE | HAS_INDEX | HAS_LIMIT | HAS_OFFSET | HAS_ITERATOR | HAS_FETCH | HAS_KEY):
        return False
    if r.seen & (HAS_LIMIT | HAS_KEY) != HAS_LIMIT | HAS_KEY or not s.access[run.token] & ACCESS_READ:
        return False
    tree = space_tree(s, r.index_id)
    if tree == NULL or not iterator_known(r.iterator) or r.limit > U32_MAX or r.offset > U32_MAX:
        return False
    key = load_count(r.key, &parts)
    if not select_allowed(tree, r, parts) or not key_ok(tree.kd, key, parts, False, &why):
        return False
    if not buffer_room(&mx.reply, REPLY_HEAD + REPLY_DATA):
        return False
    mx.reply.size += REPLY_HEAD + REPLY_DATA
    if scan_begin(&scan, tree, <int> r.iterator, key, parts, r.offset, NULL, False) == 0:
        count = select_tuples(run, &scan, r.limit)
    scan_done(&scan)
    if count < 0 or tree.kd.error != NULL:
        run_forget(tree.kd)
        mx.reply.size = at
        run.dirty = dirty
        return False
    if select_waits(s, tree, &scan, <uint32_t> count):
        run.dirty = True
    reply_data(mx, at, r.sync, <uint32_t> count)
    return True


cdef inline void run_forget(KDef *kd) noexcept nogil:
    """A sort_key raised: the ordinary path will meet it again and raise it."""
    if kd.error != NULL:
        with gil:
            kdef_error(kd)


cdef inline bint run_writable(Run *run, Space *s) noexcept nogil:
    """box.cc box_process1: local and temporary spaces are written in read-only mode too."""
    return s.access[run.token] & ACCESS_WRITE and (not run.read_only or s.local or s.temporary)


cdef bint run_put(Run *run, Request *r, Space *s, int mode) noexcept nogil:
    cdef Mx *mx = run.mx
    cdef size_t size = r.tuple_end - r.tuple
    cdef uint32_t field
    cdef int why
    cdef Change c
    if r.seen != HAS_SPACE | HAS_TUPLE or not run_writable(run, s):
        return False
    if s.fmt != NULL and format_check(s.fmt, r.tuple, &field) != FORMAT_OK:
        return False
    if not buffer_room(&mx.reply, REPLY_HEAD + REPLY_DATA + size) or not rows_room(mx, size):
        return False
    why = put_prepare(s, r.tuple, <uint32_t> size, mode, &c)
    if why != DONE:
        if why == SORT_KEY:
            run_forget(c.kd)
        return False
    put_commit(s, &c)
    row_dml(mx, s, <uint32_t> r.type, 0, KEY_TUPLE, r.tuple, size)
    reply_one(mx, r.sync, r.tuple, size, 1)
    run.dirty = True
    return True


cdef bint run_delete(Run *run, Request *r, Space *s) noexcept nogil:
    """A DELETE by a secondary key is journaled by the primary one if it found a tuple (space.c, space_execute_dml)."""
    cdef Mx *mx = run.mx
    cdef Tree *tree
    cdef KeyBad why
    cdef Change c
    cdef uint32_t parts, size, key_bytes
    cdef int done
    cdef bp key
    cdef bp f[PART_MAX]
    if r.seen & ~(HAS_SPACE | HAS_INDEX | HAS_KEY) or not r.seen & HAS_KEY or not run_writable(run, s):
        return False
    tree = space_tree(s, r.index_id)
    key = load_count(r.key, &parts)
    if tree == NULL or not tree.unique or not key_ok(tree.kd, key, parts, True, &why):
        return False
    done = delete_prepare(s, tree, key, &c)
    if done == SORT_KEY:
        run_forget(c.kd)
    if done != DONE and done != ABSENT:
        return False
    key_bytes = <uint32_t> (r.key_end - r.key)
    size = 0
    if done == DONE:
        size = c.old.size
        if r.index_id:
            key_bytes = key_size(s.tree[0].kd, c.old.data, f)
    if not buffer_room(&mx.reply, REPLY_HEAD + REPLY_DATA + size) or not rows_room(mx, key_bytes):
        return False
    key = r.key
    if done == DONE and r.index_id:
        mx.scratch.size = 0
        if not buffer_room(&mx.scratch, key_bytes):
            return False
        put_key(s.tree[0].kd, f, mx.scratch.data)
        key = mx.scratch.data
    row_dml(mx, s, TYPE_DELETE, 0 if done == DONE else <uint32_t> r.index_id, KEY_KEY, key, key_bytes)
    if done == DONE:
        reply_one(mx, r.sync, c.old.data, size, 1)
        delete_commit(s, tree, &c)
        run.dirty = True
    else:
        reply_one(mx, r.sync, NULL, 0, 0)
        run.dirty = run.dirty or not s.temporary or s.deletes != 0 or mx.calls != 0
    return True


cdef bint run_one(Run *run, Request *r) noexcept nogil:
    """Serve one request, or touch nothing and say no."""
    cdef Space *s
    if r.type == TYPE_PING:
        return run_ping(run, r)
    if not r.seen & HAS_SPACE:
        return False
    s = space_find(run.mx, r.space_id)
    if s == NULL or not s.fast or not has_primary(s):
        return False
    if r.type == TYPE_SELECT:
        return run_select(run, r, s)
    if r.type == TYPE_REPLACE:
        return run_put(run, r, s, PUT_REPLACE)
    if r.type == TYPE_INSERT:
        return run_put(run, r, s, PUT_INSERT)
    if r.type == TYPE_DELETE:
        return run_delete(run, r, s)
    return False


cdef bp run_all(Run *run, bp p, bp end, uint64_t *served) noexcept nogil:
    """Requests from p on until one is not for this path: where that one begins."""
    cdef Request r[AHEAD]
    cdef bp after[AHEAD]
    cdef Lookahead look
    cdef uint32_t n, i
    cdef bp at
    served[0] = 0
    while True:
        n = 0
        at = p
        look.n = 0
        while n < AHEAD:
            after[n] = at = read_frame(at, end, &r[n], run.mx.schema_version)
            if at == NULL:
                break
            ahead_request(&look, run.mx, &r[n])
            n += 1
        ahead_fetch(&look)
        for i in range(n):
            if run.mx.reply.size >= REPLY_MOST or not run_one(run, &r[i]):
                return p
            p = after[i]
            served[0] += 1
            run.mx.served[r[i].type & 7] += 1
        if n < AHEAD:
            return p

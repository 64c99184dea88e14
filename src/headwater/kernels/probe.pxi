# Parts of a key, and probes: the fields of a key or a tuple, looked up once, that tuples are compared with.

cdef struct Part:
    uint32_t field
    uint8_t type
    bool_t nullable
    bool_t exclude_null
    PyObject *sort_key     # borrowed from the KeyDef, NULL for bytewise order

cdef struct KDef:
    uint32_t own           # parts that make the key
    uint32_t all           # with those of the primary key that make the order total
    bool_t nullable        # one of its own parts may be nil
    bool_t exclude_null
    bool_t collated        # comparing calls Python
    uint8_t hint           # HINT_* of the first part
    uint8_t exact          # EXACT_* of its hints
    PyObject *error        # what a sort_key raised while tuples were compared; owned
    Part *part


cdef class KeyPart:
    """One part of an index key. Field types are `headwater.typing.FieldType`."""

    cdef readonly uint32_t field
    cdef readonly int type
    cdef readonly bint nullable
    cdef readonly bint exclude_null
    cdef readonly object sort_key

    def __init__(self, field, type, nullable=False, exclude_null=False, sort_key=None):
        if not 0 <= field <= FIELD_MAX:
            raise ValueError(f"field {field} of a key part is not in 0..{FIELD_MAX}")
        if not 0 <= type < FT_COUNT:
            raise ValueError(f"{type} is no field type")
        self.field = field
        self.type = type
        self.nullable = nullable
        self.exclude_null = exclude_null
        self.sort_key = sort_key


class KeyViolation(Exception):
    """A key that a client gave does not fit the index; see `_native.pyi`."""

    def __init__(self, kind, part, expected, given):
        super().__init__(kind, part, expected, given)
        self.kind = kind
        self.part = part
        self.expected = expected
        self.given = given


cdef KDef *kdef_new(list parts, uint32_t own) except NULL:
    cdef KDef *kd = <KDef *> calloc(1, sizeof(KDef))
    cdef uint32_t i
    cdef KeyPart part
    if kd == NULL:
        raise MemoryError
    kd.all = <uint32_t> len(parts)
    kd.own = own
    kd.part = <Part *> calloc(kd.all, sizeof(Part))
    if kd.part == NULL:
        free(kd)
        raise MemoryError
    for i in range(kd.all):
        part = parts[i]
        kd.part[i].field = part.field
        kd.part[i].type = part.type
        kd.part[i].nullable = part.nullable
        kd.part[i].exclude_null = part.exclude_null
        if part.sort_key is not None:
            kd.part[i].sort_key = <PyObject *> part.sort_key
            kd.collated = True
        if i < own:
            kd.nullable |= kd.part[i].nullable
            kd.exclude_null |= kd.part[i].exclude_null
    kd.hint = FT_HINT[kd.part[0].type]
    if kd.hint == HINT_UINT or kd.hint == HINT_INT or kd.hint == HINT_BOOL:
        kd.exact = EXACT_INSIDE
    elif (kd.hint == HINT_STR or kd.hint == HINT_BIN) and kd.part[0].sort_key == NULL:
        kd.exact = EXACT_SHORT
    return kd



cdef enum:
    PROBE_SMALL = 8

cdef struct Probe:
    # The fields of a key or a tuple that others are compared with, looked up once. It points into itself: never copied.
    KDef *kd
    uint32_t n             # parts compared
    uint32_t room          # parts looked up
    uint32_t first         # 1 if equal hints settle the first part
    bool_t exact           # equal hints settle all
    bool_t has_nil         # one of its own parts is nil
    uint64_t hint
    bp *f                  # n fields
    PyObject **sort_key    # n sort keys or NULL; NULL without a collation
    void *heap
    bp small[PROBE_SMALL]


cdef void probe_free(Probe *pr) noexcept nogil:
    cdef uint32_t i
    if pr.sort_key != NULL:
        with gil:
            for i in range(pr.room):
                Py_XDECREF(pr.sort_key[i])
    free(pr.heap)
    pr.sort_key = NULL
    pr.heap = NULL


cdef inline void probe_done(Probe *pr) noexcept nogil:
    if pr.heap != NULL:
        probe_free(pr)


cdef PyObject *sort_key_of(PyObject *call, bp p) except? NULL:
    """A new reference to the sort key of the string at p, NULL if it is no string."""
    cdef uint32_t size
    if TYPE_OF[p[0]] != MP_STR:
        return NULL
    p = load_blob(p, &size)
    out = (<object> call)(PyBytes_FromStringAndSize(<const char *> p, size))
    if not isinstance(out, bytes):
        raise TypeError(f"a sort key must be bytes, not {type(out).__name__}")
    Py_XINCREF(<PyObject *> out)
    return <PyObject *> out


cdef void sort_key_failed(KDef *kd, object error) noexcept:
    """Keep the first exception of a sort_key until a Python method can raise it."""
    if kd.error == NULL:
        Py_XINCREF(<PyObject *> error)
        kd.error = <PyObject *> error


cdef int probe_collate(Probe *pr) noexcept:
    """Sort keys of the probe's own fields, so that a descent computes only those of the tuples it meets."""
    cdef uint32_t i
    cdef KDef *kd = pr.kd
    try:
        for i in range(pr.n):
            if kd.part[i].sort_key != NULL:
                pr.sort_key[i] = sort_key_of(kd.part[i].sort_key, pr.f[i])
    except BaseException as error:
        sort_key_failed(kd, error)
        return -1
    return 0


cdef int probe_room(Probe *pr, KDef *kd, uint32_t n) noexcept nogil:
    """Room for n fields, and for their sort keys if the index has a collation. -1 without memory."""
    pr.kd = kd
    pr.n = n
    pr.room = n
    pr.heap = NULL
    pr.sort_key = NULL
    pr.f = pr.small
    if n > PROBE_SMALL or kd.collated:
        pr.heap = calloc(n, sizeof(bp) + sizeof(PyObject *))
        if pr.heap == NULL:
            return -1
        pr.f = <bp *> pr.heap
        if kd.collated:
            pr.sort_key = <PyObject **> (pr.f + n)
    return 0


cdef int probe_hint_collated(Probe *pr) noexcept:
    """Sort keys, then the hint from the first of them. -1 if Python raised (kept in the KDef)."""
    cdef PyObject *key
    if probe_collate(pr) < 0:
        probe_done(pr)
        return -1
    key = pr.sort_key[0]
    if key == NULL:
        pr.hint = hint_of(pr.f[0], pr.kd.hint)
        return 0
    pr.hint = hint_of_sort_key(<bp> PyBytes_AS_STRING(<bytes> key), <uint32_t> PyBytes_GET_SIZE(<bytes> key))
    if pr.kd.hint == HINT_SCALAR:
        pr.hint = (<uint64_t> CLASS_STR << 60) | (pr.hint >> 4)
    return 0


cdef inline int probe_finish(Probe *pr) noexcept nogil:
    """Its fields are there: the sort keys, the hint, and what equal hints will say."""
    cdef int r
    if pr.sort_key != NULL:
        with gil:
            r = probe_hint_collated(pr)
        if r < 0:
            return -1
    else:
        pr.hint = hint_of(pr.f[0], pr.kd.hint)
    pr.first = 1 if hint_is_exact(pr.hint, pr.kd.exact) else 0
    pr.exact = pr.first == pr.n
    return 0


cdef inline void probe_narrow(Probe *pr, uint32_t n) noexcept nogil:
    """Compare by the first n parts only."""
    pr.n = n
    pr.exact = pr.first == n


cdef inline void fields_of(KDef *kd, uint32_t n, bp tuple, bp *f) noexcept nogil:
    """Where the first n parts lie in a tuple; nil for what it has not."""
    cdef uint32_t count, i, field
    cdef uint32_t at = 0
    cdef bp start = load_count(tuple, &count)
    cdef bp p = start
    for i in range(n):
        field = kd.part[i].field
        if field >= count:
            f[i] = NIL
            continue
        if field < at:
            p = start
            at = 0
        while at < field:
            p = mp_skip(p)
            at += 1
        f[i] = p


cdef inline int probe_tuple(Probe *pr, KDef *kd, bp tuple, uint32_t n) noexcept nogil:
    """A probe of the first n parts of a tuple. -1 without memory or if a sort_key raised."""
    cdef uint32_t i
    if probe_room(pr, kd, n) < 0:
        return -1
    fields_of(kd, n, tuple, pr.f)
    pr.has_nil = False
    if kd.nullable:
        for i in range(kd.own if kd.own < n else n):
            if pr.f[i][0] == 0xC0:
                pr.has_nil = True
    return probe_finish(pr)


cdef inline int probe_key(Probe *pr, KDef *kd, bp p, uint32_t n) noexcept nogil:
    """A probe of n > 0 parts that lie one after another at p and were checked. -1 as probe_tuple."""
    cdef uint32_t i
    if probe_room(pr, kd, n) < 0:
        return -1
    pr.has_nil = False
    for i in range(n):
        pr.f[i] = p
        if p[0] == 0xC0:
            pr.has_nil = True
        p = mp_skip(p)
    return probe_finish(pr)


cdef int compare_collated(KDef *kd, uint32_t i, bp f, Probe *pr) noexcept:
    """A field against the probe's by sort keys. What Python raises is kept in the KDef, and bytes decide."""
    cdef PyObject *mine = pr.sort_key[i]
    cdef PyObject *key
    cdef int r
    if mine == NULL or TYPE_OF[f[0]] != MP_STR:
        return scalar_compare(f, pr.f[i])
    try:
        key = sort_key_of(kd.part[i].sort_key, f)
    except BaseException as error:
        sort_key_failed(kd, error)
        return scalar_compare(f, pr.f[i])
    r = bytes_compare(
        <bp> PyBytes_AS_STRING(<bytes> key), <uint32_t> PyBytes_GET_SIZE(<bytes> key),
        <bp> PyBytes_AS_STRING(<bytes> mine), <uint32_t> PyBytes_GET_SIZE(<bytes> mine),
    )
    Py_XDECREF(key)
    return r


cdef int probe_compare(Probe *pr, uint32_t i, bp tuple) noexcept nogil:
    """Where a tuple stands, from the probe: -1 before, 0 equal, 1 behind. By the parts from i on."""
    cdef KDef *kd = pr.kd
    cdef uint32_t count, field
    cdef uint32_t at = 0
    cdef bp start = load_count(tuple, &count)
    cdef bp p = start
    cdef bp f
    cdef int r
    while i < pr.n:
        field = kd.part[i].field
        if field >= count:
            f = NIL
        else:
            if field < at:
                p = start
                at = 0
            while at < field:
                p = mp_skip(p)
                at += 1
            f = p
        if pr.sort_key == NULL or kd.part[i].sort_key == NULL:
            r = field_compare(f, pr.f[i])
        else:
            with gil:
                r = compare_collated(kd, i, f, pr)
        if r:
            return r
        i += 1
    return 0


cdef object kdef_error(KDef *kd):
    """What a sort_key raised meanwhile, taken away; None if nothing."""
    cdef PyObject *error = kd.error
    if error == NULL:
        return None
    kd.error = NULL
    out = <object> error
    Py_XDECREF(error)
    return out


cdef int kdef_raise(KDef *kd) except -1:
    """Raise what a sort_key raised meanwhile."""
    if kd.error != NULL:
        raise kdef_error(kd)
    return 0


cdef int probe_failed(KDef *kd) except -1:
    """A probe could not be made: say why."""
    kdef_raise(kd)
    raise MemoryError


cdef void kdef_unraisable(KDef *kd) noexcept:
    """A sort_key raised when the change could no longer be refused. The change is whole; somebody should know."""
    if kd.error != NULL:
        raise kdef_error(kd)  # noexcept: goes to sys.unraisablehook


cdef bint is_excluded(KDef *kd, bp tuple) noexcept nogil:
    """Does the index leave this tuple out? (tuple_extract_key.cc, tuple_key_is_excluded_slow)"""
    cdef uint32_t i
    cdef bp f
    if not kd.exclude_null:
        return False
    for i in range(kd.own):
        if kd.part[i].exclude_null:
            f = field_of(tuple, kd.part[i].field)
            if f[0] == 0xC0:
                return True
    return False


cdef bp field_of(bp tuple, uint32_t field) noexcept nogil:
    cdef uint32_t count
    cdef bp p = load_count(tuple, &count)
    if field >= count:
        return NIL
    while field:
        p = mp_skip(p)
        field -= 1
    return p

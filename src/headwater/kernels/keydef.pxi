# Keys that clients give, and KeyDef as Python sees it.

cdef struct KeyBad:
    int what               # FIELD_TYPE, FIELD_RANGE, or KEY_COUNT
    uint32_t part

cdef enum:
    KEY_COUNT = 3


cdef bint key_ok(KDef *kd, bp p, uint32_t count, bint exact, KeyBad *why) noexcept nogil:
    """index.cc iterator_validate and exact_key_validate, for `count` parts at p."""
    cdef uint32_t i
    why.part = 0
    why.what = KEY_COUNT
    if count > kd.own or (exact and count < kd.own):
        return False
    for i in range(count):
        why.what = field_accepts(kd.part[i].type, kd.part[i].nullable and not exact, p)
        if why.what == FIELD_OK and exact and p[0] == 0xC0:
            why.what = FIELD_TYPE
        if why.what != FIELD_OK:
            why.part = i
            return False
        p = mp_skip(p)
    return True


cdef bp key_begin(object key, uint32_t *count) except NULL:
    """First part of a key array, checked to be one whole value."""
    cdef Check ck
    cdef bp p = data_of(key)
    cdef bp end = p + PyBytes_GET_SIZE(key)
    ck.nesting = 0
    if p < end and TYPE_OF[p[0]] != MP_ARRAY:
        ck.bad = BAD_TYPE
        raise mp_error(&ck, 0)
    p = mp_check(p, end, &ck)
    if p == NULL:
        raise mp_error(&ck, 0)
    if p != end:
        raise MsgPackError(f"{end - p} bytes follow the array")
    return load_count(data_of(key), count)


cdef bp key_checked(KDef *kd, object key, bint exact, uint32_t *count) except NULL:
    cdef KeyBad why
    cdef bp p = key_begin(key, count)
    if not key_ok(kd, p, count[0], exact, &why):
        if why.what == KEY_COUNT:
            raise KeyViolation("count", 0, kd.own, count[0])
        raise KeyViolation("type" if why.what == FIELD_TYPE else "range", why.part, kd.part[why.part].type, count[0])
    return p


cdef class KeyDef:
    """How tuples are ordered by one index."""

    cdef KDef *kd
    cdef list parts
    cdef readonly int part_count

    def __cinit__(self, parts, tail=()):
        own = list(parts)
        self.parts = own + list(tail)
        if not 0 < len(own) <= PART_MAX or len(self.parts) > 2 * PART_MAX:
            raise ValueError(f"a key has 1 to {PART_MAX} parts, not {len(own)}")
        self.kd = kdef_new(self.parts, <uint32_t> len(own))
        self.part_count = len(own)

    def __dealloc__(self):
        if self.kd != NULL:
            Py_XDECREF(self.kd.error)
            free(self.kd.part)
            free(self.kd)

    def extract(self, tuple):
        """The key of a tuple as a MessagePack array of `part_count` values; a missing field is nil."""
        cdef uint32_t count
        key_begin(tuple, &count)
        return kdef_extract(self.kd, data_of(tuple))

    def compare(self, a, b):
        """Order of two tuples by parts and tail."""
        cdef Probe pr
        cdef uint32_t count
        cdef int r
        key_begin(a, &count)
        key_begin(b, &count)
        if probe_tuple(&pr, self.kd, data_of(b), self.kd.all) < 0:
            probe_failed(self.kd)
        r = probe_compare(&pr, 0, data_of(a))
        probe_done(&pr)
        kdef_raise(self.kd)
        return (r > 0) - (r < 0)

    def compare_with_key(self, tuple, key):
        """Order of a tuple against a (maybe partial) key array."""
        cdef Probe pr
        cdef uint32_t count
        cdef bp p
        cdef int r
        key_begin(tuple, &count)
        p = key_begin(key, &count)
        if count > self.kd.own:
            raise KeyViolation("count", 0, self.kd.own, count)
        if count == 0:
            return 0
        if probe_key(&pr, self.kd, p, count) < 0:
            probe_failed(self.kd)
        r = probe_compare(&pr, 0, data_of(tuple))
        probe_done(&pr)
        kdef_raise(self.kd)
        return (r > 0) - (r < 0)

    def check_key(self, key, bint exact):
        """KeyViolation when the array is no key of this index."""
        cdef uint32_t count
        key_checked(self.kd, key, exact, &count)


cdef uint32_t key_size(KDef *kd, bp tuple, bp *f) noexcept nogil:
    """Bytes of the key of a tuple as an array; f gets its parts."""
    cdef uint32_t i
    cdef uint32_t size = 1 if kd.own < 16 else 3
    fields_of(kd, kd.own, tuple, f)
    for i in range(kd.own):
        size += <uint32_t> (mp_skip(f[i]) - f[i])
    return size


cdef uint8_t *put_key(KDef *kd, bp *f, uint8_t *out) noexcept nogil:
    cdef uint32_t i
    cdef uint32_t size
    out = put_array(out, kd.own)
    for i in range(kd.own):
        size = <uint32_t> (mp_skip(f[i]) - f[i])
        memcpy(out, f[i], size)
        out += size
    return out


cdef bytes kdef_extract(KDef *kd, bp tuple):
    cdef bp f[PART_MAX]
    cdef bytes out = PyBytes_FromStringAndSize(NULL, key_size(kd, tuple, f))
    put_key(kd, f, <uint8_t *> PyBytes_AS_STRING(out))
    return out

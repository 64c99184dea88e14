# Order of single values (tuple_compare.cc), and hints: 64 bits that never contradict it.

cdef enum:
    # enum mp_class of tuple_compare.cc
    CLASS_NIL = 0
    CLASS_BOOL = 1
    CLASS_NUMBER = 2
    CLASS_STR = 3
    CLASS_BIN = 4
    CLASS_UUID = 5
    CLASS_DATETIME = 6
    CLASS_INTERVAL = 7
    CLASS_ARRAY = 8
    CLASS_MAP = 9
    CLASS_OTHER = 10

cdef uint8_t CLASS_OF[12]
# mp_type -> class; MP_EXT is looked up by its own type


cdef void fill_classes() noexcept:
    CLASS_OF[MP_NIL] = CLASS_NIL
    CLASS_OF[MP_UINT] = CLASS_OF[MP_INT] = CLASS_OF[MP_FLOAT] = CLASS_OF[MP_DOUBLE] = CLASS_NUMBER
    CLASS_OF[MP_STR] = CLASS_STR
    CLASS_OF[MP_BIN] = CLASS_BIN
    CLASS_OF[MP_ARRAY] = CLASS_ARRAY
    CLASS_OF[MP_MAP] = CLASS_MAP
    CLASS_OF[MP_BOOL] = CLASS_BOOL
    CLASS_OF[MP_EXT] = CLASS_OF[MP_NEVER] = CLASS_OTHER


fill_classes()


cdef inline int class_of(bp p) noexcept nogil:
    cdef uint8_t type = TYPE_OF[p[0]]
    cdef uint32_t size
    cdef int8_t kind
    if type != MP_EXT:
        return CLASS_OF[type]
    load_ext(p, &size, &kind)
    if kind == EXT_DECIMAL:
        return CLASS_NUMBER
    if kind == EXT_UUID:
        return CLASS_UUID
    if kind == EXT_DATETIME:
        return CLASS_DATETIME
    if kind == EXT_INTERVAL:
        return CLASS_INTERVAL
    return CLASS_OTHER


cdef inline int bytes_compare(bp a, uint32_t a_size, bp b, uint32_t b_size) noexcept nogil:
    cdef int r = memcmp(a, b, a_size if a_size < b_size else b_size)
    if r:
        return 1 if r > 0 else -1
    return (a_size > b_size) - (a_size < b_size)


cdef int datetime_compare(bp a, bp b) noexcept nogil:
    """By instant; zones do not count (datetime.c, datetime_compare)."""
    cdef uint32_t a_size, b_size
    cdef int8_t kind
    cdef int64_t x, y
    a = load_ext(a, &a_size, &kind)
    b = load_ext(b, &b_size, &kind)
    x = load_le(a, 8)
    y = load_le(b, 8)
    if x == y:
        x = load_le(a + 8, 4) if a_size == 16 else 0
        y = load_le(b + 8, 4) if b_size == 16 else 0
    return (x > y) - (x < y)


cdef int scalar_compare(bp a, bp b) noexcept nogil:
    """mp_compare_scalar. Values that have no order go by class, then by their bytes, so that nothing can break a tree."""
    cdef int x = class_of(a)
    cdef int y = class_of(b)
    cdef uint32_t a_size, b_size
    cdef int8_t kind
    cdef bp p
    cdef bp q
    if x != y:
        return 1 if x > y else -1
    if x == CLASS_NIL:
        return 0
    if x == CLASS_NUMBER:
        return number_compare(a, b)
    if x == CLASS_BOOL:
        return <int> a[0] - <int> b[0]
    if x == CLASS_STR or x == CLASS_BIN:
        p = load_blob(a, &a_size)
        q = load_blob(b, &b_size)
        return bytes_compare(p, a_size, q, b_size)
    if x == CLASS_UUID:
        p = load_ext(a, &a_size, &kind)
        q = load_ext(b, &b_size, &kind)
        return bytes_compare(p, a_size, q, b_size)
    if x == CLASS_DATETIME:
        return datetime_compare(a, b)
    return bytes_compare(a, <uint32_t> (mp_skip(a) - a), b, <uint32_t> (mp_skip(b) - b))


cdef inline int field_compare(bp a, bp b) noexcept nogil:
    """Two fields of one part without a collation; whatever the part's type, its order is that of `scalar`."""
    cdef uint8_t type = TYPE_OF[a[0]]
    cdef uint64_t x, y
    cdef uint32_t a_size, b_size
    if type == TYPE_OF[b[0]]:
        if type == MP_UINT:
            x = load_uint(a)
            y = load_uint(b)
            return (x > y) - (x < y)
        if type == MP_STR:
            a = load_blob(a, &a_size)
            b = load_blob(b, &b_size)
            return bytes_compare(a, a_size, b, b_size)
    return scalar_compare(a, b)


cdef bint is_comparable(bp p) noexcept nogil:
    return class_of(p) <= CLASS_DATETIME


def mp_compare(a, b):
    """-1, 0, 1: two scalar values in Tarantool's order of `scalar`."""
    cdef Check ck
    cdef int r
    for value in (a, b):
        ck.nesting = 0
        if mp_check(data_of(value), data_of(value) + PyBytes_GET_SIZE(value), &ck) == NULL:
            raise mp_error(&ck, 0)
        if not is_comparable(data_of(value)):
            raise MsgPackError(f"a value that begins with 0x{data_of(value)[0]:02x} is not a scalar that has an order")
    r = scalar_compare(data_of(a), data_of(b))
    return (r > 0) - (r < 0)


# ---- hints -----------------------------------------------------------------------------------------
#
# hint(a) < hint(b) implies a < b. Equal hints say nothing, unless the hint is exact: then the values are
# equal. 0 is for nil and whatever else is below all values of the index's type, HINT_MAX for what is above.

cdef enum:
    HINT_NONE = 0
    HINT_UINT = 1
    HINT_INT = 2
    HINT_NUMBER = 3
    HINT_STR = 4
    HINT_BIN = 5
    HINT_BOOL = 6
    HINT_UUID = 7
    HINT_DATETIME = 8
    HINT_SCALAR = 9

cdef enum:
    EXACT_NEVER = 0
    EXACT_INSIDE = 1    # between 0 and HINT_MAX, both excluded
    EXACT_SHORT = 2     # strings of at most 7 bytes, whose length is the low byte

cdef uint64_t HINT_MAX = <uint64_t> 0xFFFFFFFFFFFFFFFF


cdef inline uint64_t hint_inside(uint64_t value) noexcept nogil:
    if value == 0:
        return 1
    return value if value < HINT_MAX else HINT_MAX - 1


cdef inline uint64_t hint_of_bytes(bp p, uint32_t size) noexcept nogil:
    """The first 7 bytes, then the length + 1, up to 9: a string is less than those that it begins."""
    cdef uint64_t value = 0
    cdef uint32_t at
    if size >= 8:
        return (load_be(p, 8) & ~<uint64_t> 0xFF) | 9
    for at in range(size):
        value |= <uint64_t> p[at] << (56 - 8 * at)
    return value | (size + 1)


cdef inline uint64_t hint_of_sort_key(bp p, uint32_t size) noexcept nogil:
    cdef uint64_t value = 0
    cdef uint32_t at
    if size >= 8:
        return hint_inside(load_be(p, 8))
    for at in range(size):
        value |= <uint64_t> p[at] << (56 - 8 * at)
    return hint_inside(value)


cdef uint64_t hint_of_datetime(bp p) noexcept nogil:
    """Seconds need 49 bits (datetime.h, MAX_EPOCH_SECS_VALUE), the 15 others hold the high bits of nanoseconds."""
    cdef uint32_t size
    cdef int8_t kind
    cdef uint64_t value
    p = load_ext(p, &size, &kind)
    value = <uint64_t> (load_le(p, 8) + (<int64_t> 1 << 48)) << 15
    if size == 16:
        value |= <uint64_t> load_le(p + 8, 4) >> 16
    return hint_inside(value)


cdef uint64_t hint_in_class(bp p) noexcept nogil:
    """Position among the values of its own class."""
    cdef uint32_t size
    cdef int8_t kind
    cdef int cls = class_of(p)
    if cls == CLASS_NUMBER:
        return number_hint(p)
    if cls == CLASS_STR or cls == CLASS_BIN:
        p = load_blob(p, &size)
        return hint_of_bytes(p, size)
    if cls == CLASS_BOOL:
        return 1 + (p[0] & 1)
    if cls == CLASS_UUID:
        p = load_ext(p, &size, &kind)
        return hint_inside(load_be(p, 8))
    if cls == CLASS_DATETIME:
        return hint_of_datetime(p)
    return 0


cdef inline uint64_t hint_outside(bp p, int cls) noexcept nogil:
    """For a value that is not of the class of the part."""
    return 0 if class_of(p) < cls else HINT_MAX


cdef uint64_t hint_slow(bp p, int how) noexcept nogil:
    cdef int64_t i
    cdef int cls
    if p[0] == 0xC0:
        return 0
    cls = class_of(p)
    if how == HINT_SCALAR:
        return (<uint64_t> cls << 60) | (hint_in_class(p) >> 4 if cls > CLASS_BOOL else hint_in_class(p))
    if how == HINT_INT and TYPE_OF[p[0]] == MP_INT:
        i = load_int(p)
        return <uint64_t> i + (<uint64_t> 1 << 63) + 1
    if how == HINT_UINT or how == HINT_INT:
        return hint_outside(p, CLASS_NUMBER) if cls != CLASS_NUMBER else HINT_MAX
    if how == HINT_BOOL:
        return hint_in_class(p) if cls == CLASS_BOOL else hint_outside(p, CLASS_BOOL)
    if how == HINT_NUMBER:
        return hint_in_class(p) if cls == CLASS_NUMBER else hint_outside(p, CLASS_NUMBER)
    if how == HINT_STR:
        return hint_in_class(p) if cls == CLASS_STR else hint_outside(p, CLASS_STR)
    if how == HINT_BIN:
        return hint_in_class(p) if cls == CLASS_BIN else hint_outside(p, CLASS_BIN)
    if how == HINT_UUID:
        return hint_in_class(p) if cls == CLASS_UUID else hint_outside(p, CLASS_UUID)
    if how == HINT_DATETIME:
        return hint_in_class(p) if cls == CLASS_DATETIME else hint_outside(p, CLASS_DATETIME)
    return 0


cdef inline uint64_t hint_of(bp p, int how) noexcept nogil:
    cdef uint64_t u
    cdef uint32_t size
    cdef uint8_t type = TYPE_OF[p[0]]
    if type == MP_UINT:
        if how == HINT_UINT:
            u = load_uint(p)
            return u + 1 if u < HINT_MAX - 1 else HINT_MAX
        if how == HINT_INT:
            u = load_uint(p)
            if u >= (<uint64_t> 1 << 63) - 1:
                return HINT_MAX
            return u + (<uint64_t> 1 << 63) + 1
    elif type == MP_STR and how == HINT_STR:
        p = load_blob(p, &size)
        return hint_of_bytes(p, size)
    return hint_slow(p, how)


cdef inline bint hint_is_exact(uint64_t hint, int exact) noexcept nogil:
    cdef uint8_t low
    if exact == EXACT_INSIDE:
        return hint != 0 and hint != HINT_MAX
    if exact == EXACT_SHORT:
        low = hint & 0xFF
        return 1 <= low <= 8
    return False

# Are the contents of an extension what its type promises? (msgpack.c, msgpack_check_ext_data)

cdef enum:
    EXT_DECIMAL = 1
    EXT_UUID = 2
    EXT_ERROR = 3
    EXT_DATETIME = 4
    EXT_COMPRESSION = 5
    EXT_INTERVAL = 6
    EXT_TUPLE = 7
    # decimal.h, DECIMAL_MAX_DIGITS of 3.8; older ones hold 38. Both must be readable.
    DECIMAL_DIGITS_MAX = 76
    # decimal.c, (DECIMAL_DIGIT_CAPACITY + 1) / 2
    DECIMAL_BYTES_MAX = 39
    # decNumber, DEC_MAX_MATH
    DECIMAL_EXPONENT_MAX = 999999
    # msgpack.c, MSGPACK_MAX_NESTING
    EXT_NESTING_MAX = 16

# datetime.h, MIN_EPOCH_SECS_VALUE, MAX_EPOCH_SECS_VALUE: 2^31 days around 1970, from 0001-01-01 on
cdef int64_t SECONDS_MIN = (-(<int64_t> 1 << 31) - 719163) * 86400
cdef int64_t SECONDS_MAX = ((<int64_t> 1 << 31) - 1 - 719163) * 86400

EXT_NAMES = {1: "decimal", 2: "uuid", 3: "error", 4: "datetime", 6: "interval", 7: "tuple"}


cdef inline bp int_at(bp p, bp end, int64_t *value) noexcept nogil:
    """The whole MP_UINT or MP_INT at p, or NULL. A value above 2^63 - 1 is given as that."""
    cdef uint64_t u
    cdef uint8_t type
    if p >= end:
        return NULL
    type = TYPE_OF[p[0]]
    if (type != MP_UINT and type != MP_INT) or SIZE_OF[p[0]] > end - p:
        return NULL
    if type == MP_UINT:
        u = load_uint(p)
        value[0] = <int64_t> u if u <= <uint64_t> 0x7FFFFFFFFFFFFFFF else 0x7FFFFFFFFFFFFFFF
    else:
        value[0] = load_int(p)
    return p + SIZE_OF[p[0]]


cdef bint decimal_ok(bp p, uint32_t size) noexcept nogil:
    """decimal.c decimal_unpack, decPacked.c decPackedToNumber: scale, digits two a byte, a sign in the last half byte."""
    cdef bp end = p + size
    cdef bp at
    cdef int64_t scale, exponent, least
    cdef int32_t digits
    p = int_at(p, end, &scale)
    if p == NULL or end - p < 1 or end - p > DECIMAL_BYTES_MAX:
        return False
    if (end - 1)[0] & 0x0F <= 9 or (end - 1)[0] >> 4 > 9:
        return False
    at = p
    while at < end - 1:
        if at[0] & 0x0F > 9 or at[0] >> 4 > 9:
            return False
        at += 1
    digits = <int32_t> ((end - p) * 2 - 1)
    at = p
    while at < end - 1 and at[0] == 0:
        at += 1
        digits -= 2
    if at[0] >> 4 == 0:
        digits -= 1
    if digits == 0:
        digits = 1
    if digits > DECIMAL_DIGITS_MAX or scale > 2000000 or scale < -2000000:
        return False
    exponent = digits - 1 - scale
    least = -DECIMAL_EXPONENT_MAX - DECIMAL_DIGITS_MAX + 1
    return exponent <= DECIMAL_EXPONENT_MAX and (
        exponent >= -DECIMAL_EXPONENT_MAX or (exponent >= least and digits <= exponent - least + 1)
    )


cdef inline int64_t load_le(bp p, uint32_t width) noexcept nogil:
    """A signed little-endian number."""
    cdef int64_t value = <int8_t> p[width - 1]
    cdef int32_t at = <int32_t> width - 2
    while at >= 0:
        value = <int64_t> ((<uint64_t> value << 8) | p[at])
        at -= 1
    return value


cdef bint datetime_ok(bp p, uint32_t size) noexcept nogil:
    """mp_datetime.c datetime_unpack, datetime.h datetime_validate."""
    cdef int64_t seconds, zone
    if size != 8 and size != 16:
        return False
    seconds = load_le(p, 8)
    if seconds < SECONDS_MIN or seconds > SECONDS_MAX:
        return False
    if size == 8:
        return True
    if not 0 <= load_le(p + 8, 4) < 2000000000:
        return False
    zone = load_le(p + 14, 2)
    return -720 <= load_le(p + 12, 2) <= 840 and 0 <= zone <= 1024


cdef bint interval_ok(bp p, uint32_t size) noexcept nogil:
    """mp_interval.c interval_unpack: a count, then pairs of field and value."""
    cdef bp end = p + size
    cdef uint32_t count
    cdef uint8_t field
    cdef int64_t value
    if size < 1:
        return False
    count = p[0]
    p += 1
    while count:
        count -= 1
        if end - p < 2:
            return False
        field = p[0]
        if field > 8 or (TYPE_OF[p[1]] == MP_UINT and p[1] == 0xCF and end - p >= 10 and p[2] & 0x80):
            return False
        p = int_at(p + 1, end, &value)
        if p == NULL:
            return False
        if field <= 2 or field == 7:
            if not -2147483648 <= value <= 2147483647:
                return False
        elif field == 8 and not 0 <= value <= 2:
            return False
    return p == end


cdef inline bint is_text(bp p) noexcept nogil:
    return TYPE_OF[p[0]] == MP_STR


cdef bp error_one_ok(bp p) noexcept nogil:
    """mp_error.cc mp_decode_error_one, error_build: behind the error map at p, or NULL. The bytes are whole."""
    cdef uint32_t count, fields
    cdef uint64_t key, seen = 0
    if TYPE_OF[p[0]] != MP_MAP:
        return NULL
    p = load_count(p, &count)
    while count:
        count -= 1
        if TYPE_OF[p[0]] != MP_UINT:
            return NULL
        key = load_uint(p)
        p = mp_skip(p)
        if key == 0 or key == 1 or key == 3:
            if not is_text(p):
                return NULL
            seen |= <uint64_t> 1 << key
        elif key == 2 or key == 4 or key == 5:
            if TYPE_OF[p[0]] != MP_UINT:
                return NULL
        elif key == 6:
            if TYPE_OF[p[0]] != MP_MAP:
                return NULL
            p = load_count(p, &fields)
            while fields:
                fields -= 1
                if not is_text(p):
                    return NULL
                p = mp_skip(mp_skip(p))
            continue
        p = mp_skip(p)
    return p if seen == 0b1011 else NULL


cdef bint error_ok(bp p, uint32_t size, Check *ck) noexcept nogil:
    """mp_error.cc error_unpack: one map whose key 0 is a stack of errors."""
    cdef bp end = p + size
    cdef uint32_t count, stack
    cdef uint64_t key
    cdef bint seen = False
    if mp_check(p, end, ck) != end or TYPE_OF[p[0]] != MP_MAP:
        return False
    p = load_count(p, &count)
    while count:
        count -= 1
        if TYPE_OF[p[0]] != MP_UINT:
            return False
        key = load_uint(p)
        p = mp_skip(p)
        if key != 0:
            p = mp_skip(p)
            continue
        if seen or TYPE_OF[p[0]] != MP_ARRAY:
            return False
        p = load_count(p, &stack)
        seen = stack > 0
        while stack:
            stack -= 1
            p = error_one_ok(p)
            if p == NULL:
                return False
    return seen


cdef bint tuple_ok(bp p, uint32_t size, Check *ck) noexcept nogil:
    """mp_tuple.c mp_validate_tuple: a format id and an array."""
    cdef bp end = p + size
    if size < 1 or TYPE_OF[p[0]] != MP_UINT or SIZE_OF[p[0]] > end - p:
        return False
    p += SIZE_OF[p[0]]
    return p < end and TYPE_OF[p[0]] == MP_ARRAY and mp_check(p, end, ck) == end


cdef bint ext_ok(int8_t kind, bp p, uint32_t size, Check *ck) noexcept nogil:
    """Is p[:size] what an extension of this type holds? Sets `ck.bad` if not. Unknown types are not looked into."""
    cdef bint ok = True
    ck.nesting += 1
    if ck.nesting >= EXT_NESTING_MAX:
        ck.nesting -= 1
        ck.bad = BAD_EXT_DEPTH
        return False
    if kind == EXT_DECIMAL:
        ok = decimal_ok(p, size)
    elif kind == EXT_UUID:
        ok = size == 16
    elif kind == EXT_ERROR:
        ok = error_ok(p, size, ck)
    elif kind == EXT_DATETIME:
        ok = datetime_ok(p, size)
    elif kind == EXT_INTERVAL:
        ok = interval_ok(p, size)
    elif kind == EXT_TUPLE:
        ok = tuple_ok(p, size, ck)
    ck.nesting -= 1
    if not ok:
        ck.bad = BAD_EXT
        ck.ext = kind
    return ok

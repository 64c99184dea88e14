# Numbers of all kinds compare by value (tuple_compare.cc, mp_compare_number).
#
# Tarantool cuts a double to 15 digits before it meets a decimal, so that 0.1 equals 0.1; but then two
# different doubles may equal one decimal, and the order is none. Here a double that is not whole stands for
# the shortest decimal that reads back as it. That gives the same answers for all numbers people write, and
# the order is total: no whole number lies between such a double and its shortest decimal.

cdef extern from "Python.h":
    char *PyOS_double_to_string(double value, char code, int precision, int flags, int *type)
    double PyOS_string_to_double(const char *text, char **end, PyObject *overflow) except? -1.0
    void PyMem_Free(void *p)

cdef uint64_t QUIET_BIT = <uint64_t> 1 << 51

cdef enum:
    NUM_UINT = 0
    NUM_INT = 1      # negative only
    NUM_DOUBLE = 2
    NUM_DECIMAL = 3
    DIGITS_MAX = 400

cdef struct Number:
    int kind
    uint64_t u
    int64_t i
    double d
    bp packed          # contents of the extension of a decimal
    uint32_t packed_size

cdef struct Digits:
    # 0.d0 d1 d2 ... * 10^(exponent + 1): d0 is not 0 unless the number is
    int sign           # -1, 0, 1
    int32_t exponent
    uint32_t count
    uint8_t digit[DIGITS_MAX]


cdef inline void number_load(bp p, Number *n) noexcept nogil:
    cdef uint8_t type = TYPE_OF[p[0]]
    cdef int8_t kind
    memset(n, 0, sizeof(Number))
    if type == MP_UINT:
        n.kind = NUM_UINT
        n.u = load_uint(p)
    elif type == MP_INT:
        n.i = load_int(p)
        n.u = <uint64_t> n.i
        n.kind = NUM_INT if n.i < 0 else NUM_UINT
    elif type == MP_EXT:
        n.kind = NUM_DECIMAL
        n.packed = load_ext(p, &n.packed_size, &kind)
    else:
        n.kind = NUM_DOUBLE
        n.d = load_double(p)


cdef void digits_trim(Digits *out, int sign, int64_t point) noexcept nogil:
    """Drop zeros before the first digit; `point` digits of those given stand before the decimal point."""
    cdef uint32_t skip = 0
    while skip < out.count and out.digit[skip] == 0:
        skip += 1
    out.count -= skip
    if out.count == 0:
        out.sign = 0
        return
    memmove(out.digit, out.digit + skip, out.count)
    out.sign = sign
    out.exponent = <int32_t> (point - skip - 1)


cdef void digits_of_packed(bp p, uint32_t size, Digits *out) noexcept nogil:
    cdef bp end = p + size
    cdef int64_t scale = 0
    cdef uint8_t sign = (end - 1)[0] & 0x0F
    p = int_at(p, end, &scale)
    out.count = 0
    while p < end:
        out.digit[out.count] = p[0] >> 4
        out.count += 1
        if p + 1 < end:
            out.digit[out.count] = p[0] & 0x0F
            out.count += 1
        p += 1
    digits_trim(out, -1 if sign == 0x0B or sign == 0x0D else 1, <int64_t> out.count - scale)


cdef void digits_of_text(const char *text, Digits *out) noexcept nogil:
    """`[-]123[.456][e[+-]78]`, as printf and repr write numbers."""
    cdef int sign = 1
    cdef int64_t point = -1, power = 0
    cdef bint down = False
    out.count = 0
    if text[0] == b"-":
        sign = -1
        text += 1
    while text[0] != 0 and text[0] != b"e":
        if text[0] == b".":
            point = out.count
        elif out.count < DIGITS_MAX:
            out.digit[out.count] = <uint8_t> (text[0] - 48)
            out.count += 1
        text += 1
    if point < 0:
        point = out.count
    if text[0] == b"e":
        text += 1
        down = text[0] == b"-"
        if text[0] == b"-" or text[0] == b"+":
            text += 1
        while text[0] != 0:
            power = power * 10 + (text[0] - 48)
            text += 1
    digits_trim(out, sign, point - power if down else point + power)


cdef void digits_of_double(double d, Digits *out) noexcept nogil:
    """Exact for a whole number; otherwise its shortest decimal."""
    cdef char text[360]
    cdef char *shortest
    if d == <double> <int64_t> d if -9e18 < d < 9e18 else True:
        snprintf(text, sizeof(text), "%.0f", d)
        digits_of_text(text, out)
        return
    with gil:
        shortest = PyOS_double_to_string(d, b"r", 0, 0, NULL)
        if shortest == NULL:
            PyErr_Clear()
            snprintf(text, sizeof(text), "%.17g", d)
            digits_of_text(text, out)
        else:
            digits_of_text(shortest, out)
            PyMem_Free(shortest)


cdef void digits_of(Number *n, Digits *out) noexcept nogil:
    cdef char text[32]
    if n.kind == NUM_DECIMAL:
        digits_of_packed(n.packed, n.packed_size, out)
    elif n.kind == NUM_DOUBLE:
        digits_of_double(n.d, out)
    else:
        if n.kind == NUM_UINT:
            snprintf(text, sizeof(text), "%llu", <unsigned long long> n.u)
        else:
            snprintf(text, sizeof(text), "%lld", <long long> n.i)
        digits_of_text(text, out)


cdef int digits_compare(Digits *a, Digits *b) noexcept nogil:
    cdef uint32_t at = 0
    cdef uint8_t x, y
    if a.sign != b.sign:
        return 1 if a.sign > b.sign else -1
    if a.sign == 0:
        return 0
    if a.exponent != b.exponent:
        return a.sign if a.exponent > b.exponent else -a.sign
    while at < a.count or at < b.count:
        x = a.digit[at] if at < a.count else 0
        y = b.digit[at] if at < b.count else 0
        if x != y:
            return a.sign if x > y else -a.sign
        at += 1
    return 0


cdef int double_compare_whole(double d, Number *n) noexcept nogil:
    """A double against an integer (lib/core, double_compare_uint64 and _int64)."""
    cdef uint64_t u
    cdef int64_t i
    if isnan(d):
        return -1
    if n.kind == NUM_UINT:
        if d < 0:
            return -1
        if d >= 18446744073709551616.0:
            return 1
        u = <uint64_t> d
        if u != n.u:
            return 1 if u > n.u else -1
        return 1 if d > <double> u else 0
    if d >= 0:
        return 1
    if d < -9223372036854775808.0:
        return -1
    i = <int64_t> d
    if i != n.i:
        return 1 if i > n.i else -1
    return -1 if d < <double> i else 0


cdef int double_compare(double a, double b) noexcept nogil:
    """NaN is below every number, a signalling one below a quiet one (mp_compare_double_any_number)."""
    cdef uint64_t x, y
    if isnan(a) or isnan(b):
        if not isnan(b):
            return -1
        if not isnan(a):
            return 1
        memcpy(&x, &a, 8)
        memcpy(&y, &b, 8)
        x &= QUIET_BIT
        y &= QUIET_BIT
        return (x > y) - (x < y)
    return (a > b) - (a < b)


cdef int decimal_compare(Number *a, Number *b) noexcept nogil:
    """One of them is a decimal."""
    cdef Digits x
    cdef Digits y
    if a.kind == NUM_DOUBLE and not -1e308 < a.d < 1e308 and (isnan(a.d) or a.d - a.d != 0):
        return 1 if a.d > 0 else -1
    if b.kind == NUM_DOUBLE and not -1e308 < b.d < 1e308 and (isnan(b.d) or b.d - b.d != 0):
        return -1 if b.d > 0 else 1
    digits_of(a, &x)
    digits_of(b, &y)
    return digits_compare(&x, &y)


cdef int number_compare(bp a, bp b) noexcept nogil:
    cdef Number x
    cdef Number y
    number_load(a, &x)
    number_load(b, &y)
    if x.kind == NUM_DECIMAL or y.kind == NUM_DECIMAL:
        return decimal_compare(&x, &y)
    if x.kind == NUM_DOUBLE:
        return double_compare(x.d, y.d) if y.kind == NUM_DOUBLE else double_compare_whole(x.d, &y)
    if y.kind == NUM_DOUBLE:
        return -double_compare_whole(y.d, &x)
    if x.kind != y.kind:
        return 1 if x.kind == NUM_UINT else -1
    if x.kind == NUM_UINT:
        return (x.u > y.u) - (x.u < y.u)
    return (x.i > y.i) - (x.i < y.i)


cdef double decimal_to_double(Number *n) noexcept nogil:
    """The nearest double, so that it grows with the decimal."""
    cdef Digits x
    cdef char text[DIGITS_MAX + 32]
    cdef uint32_t at
    cdef uint32_t end = 0
    cdef double out
    digits_of_packed(n.packed, n.packed_size, &x)
    if x.sign == 0:
        return 0
    if x.sign < 0:
        text[0] = b"-"
        end = 1
    for at in range(x.count):
        text[end] = 48 + x.digit[at]
        end += 1
    snprintf(text + end, 32, "e%d", <int> (x.exponent - <int32_t> x.count + 1))
    with gil:
        try:
            out = PyOS_string_to_double(text, NULL, NULL)
        except Exception:
            out = 0
    return out


cdef uint64_t number_hint(bp p) noexcept nogil:
    """Grows with the number at p: the nearest double, its bits turned so that they order as unsigned. Not 0."""
    cdef Number n
    cdef double d
    cdef uint64_t bits
    number_load(p, &n)
    if n.kind == NUM_UINT:
        d = <double> n.u
    elif n.kind == NUM_INT:
        d = <double> n.i
    elif n.kind == NUM_DECIMAL:
        d = decimal_to_double(&n)
    else:
        d = n.d
    if isnan(d):
        return 1
    if d == 0:
        d = 0
    memcpy(&bits, &d, 8)
    return ~bits if bits >> 63 else bits | (<uint64_t> 1 << 63)

# Text of decimals and uuids, whole numbers of 128 bits, and what is UTF-8.

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* Is it UTF-8? No surrogates, nothing longer than it must be. */
    static int hw_utf8(const uint8_t *p, size_t n) {
        const uint8_t *end = p + n;
        while (p < end) {
            if (end - p >= 8) {
                uint64_t word;
                memcpy(&word, p, 8);
                if (!(word & 0x8080808080808080ull)) { p += 8; continue; }
            }
            uint8_t c = *p;
            if (c < 0x80) { p++; continue; }
            int more;
            uint8_t low = 0x80, high = 0xBF;
            if (c >= 0xC2 && c <= 0xDF) more = 1;
            else if (c >= 0xE0 && c <= 0xEF) { more = 2; if (c == 0xE0) low = 0xA0; if (c == 0xED) high = 0x9F; }
            else if (c >= 0xF0 && c <= 0xF4) { more = 3; if (c == 0xF0) low = 0x90; if (c == 0xF4) high = 0x8F; }
            else return 0;
            if (end - p <= more) return 0;
            p++;
            if (*p < low || *p > high) return 0;
            for (p++, more--; more > 0; more--, p++)
                if (*p < 0x80 || *p > 0xBF) return 0;
        }
        return 1;
    }

    /* digits * 10^zeros as a decimal128 of `precision` digits; 0 if it does not fit. */
    static int hw_decimal128(const uint8_t *digits, int count, int zeros, int minus, int precision, uint8_t *out) {
        unsigned __int128 value = 0;
        while (count > 0 && *digits == 0) { digits++; count--; }
        if (count == 0) zeros = 0;
        if (count + zeros > precision || precision > 38) return 0;
        for (int i = 0; i < count; i++) value = value * 10 + digits[i];
        for (int i = 0; i < zeros; i++) value *= 10;
        if (minus) value = -value;
        for (int i = 0; i < 16; i++) out[i] = (uint8_t)(value >> (8 * i));
        return 1;
    }
    """
    int hw_utf8(const uint8_t *p, size_t n) noexcept nogil
    int hw_decimal128(
        const uint8_t *digits, int count, int zeros, int minus, int precision, uint8_t *out
    ) noexcept nogil


cdef enum:
    # Of the 40 bytes that a decimal has at most.
    PACKED_DIGITS_MAX = 80
    DECIMAL_TEXT_MAX = 128

cdef struct Packed10:
    int minus
    int64_t scale
    int count
    uint8_t digit[PACKED_DIGITS_MAX]


cdef void packed_load(bp p, uint32_t size, Packed10 *out) noexcept nogil:
    """The contents of a checked decimal: its digits without zeros before the first, one for zero."""
    cdef bp end = p + size
    cdef int count = 0
    cdef uint8_t sign = (end - 1)[0] & 0x0F
    out.minus = sign == 0x0B or sign == 0x0D
    p = int_at(p, end, &out.scale)
    while p < end:
        if count or p[0] >> 4:
            out.digit[count] = p[0] >> 4
            count += 1
        if p + 1 < end and (count or p[0] & 0x0F):
            out.digit[count] = p[0] & 0x0F
            count += 1
        p += 1
    if count == 0:
        out.digit[0] = 0
        count = 1
    out.count = count


cdef int decimal_text(bp p, uint32_t size, uint8_t *out) noexcept nogil:
    """As decNumberToString writes it; how many bytes."""
    cdef Packed10 d
    cdef int at, n = 0
    cdef int64_t point
    packed_load(p, size, &d)
    if d.minus:
        out[0] = 45
        n = 1
    point = d.count - d.scale
    if d.scale < 0 or point <= -6:
        # 1.23E+45
        out[n] = 48 + d.digit[0]
        n += 1
        if d.count > 1:
            out[n] = 46
            n += 1
            for at in range(1, d.count):
                out[n] = 48 + d.digit[at]
                n += 1
        return n + snprintf(<char *> out + n, 24, "E%+lld", <long long> (point - 1))
    if point <= 0:
        out[n] = 48
        out[n + 1] = 46
        n += 2
        while point < 0:
            out[n] = 48
            n += 1
            point += 1
        point = -1
    for at in range(d.count):
        if at == point:
            out[n] = 46
            n += 1
        out[n] = 48 + d.digit[at]
        n += 1
    return n


cdef uint8_t HEX[16]
memcpy(HEX, <const char *> b"0123456789abcdef", 16)


cdef void uuid_text(bp p, uint8_t *out) noexcept nogil:
    """36 characters of 16 bytes."""
    cdef int at, n = 0
    for at in range(16):
        if at == 4 or at == 6 or at == 8 or at == 10:
            out[n] = 45
            n += 1
        out[n] = HEX[p[at] >> 4]
        out[n + 1] = HEX[p[at] & 0x0F]
        n += 2

# MessagePack at the end of a buffer, without the GIL. Functions that need memory say 0 where there is none.

cdef extern from *:
    """
    /* The digits of |value| (16 bytes, little-endian, signed), the most significant first; how many. */
    static int hw_int128_digits(const uint8_t *value, uint8_t *digits, int *minus) {
        unsigned __int128 u = 0;
        uint8_t turned[40];
        int n = 0;
        for (int i = 15; i >= 0; i--) u = u << 8 | value[i];
        *minus = value[15] >> 7;
        if (*minus) u = -u;
        do { turned[n++] = (uint8_t)(u % 10); u /= 10; } while (u);
        for (int i = 0; i < n; i++) digits[i] = turned[n - 1 - i];
        return n;
    }
    """
    int hw_int128_digits(const uint8_t *value, uint8_t *digits, int *minus) noexcept nogil


cdef bint room(Buf *b, size_t more) noexcept nogil:
    """At least `more` bytes behind the end."""
    cdef size_t cap
    cdef uint8_t *data
    if b.cap - b.size >= more:
        return True
    cap = b.cap * 2 if b.cap else 4096
    if more > <size_t> 1 << 40:
        return False
    while cap - b.size < more:
        cap *= 2
    data = <uint8_t *> realloc(b.data, cap)
    if data == NULL:
        return False
    b.data = data
    b.cap = cap
    return True


cdef inline uint8_t *store_be(uint8_t *p, uint64_t value, uint32_t width) noexcept nogil:
    """Behind it."""
    cdef uint32_t at
    for at in range(width):
        p[at] = <uint8_t> (value >> (8 * (width - 1 - at)))
    return p + width


cdef inline uint8_t *store_uint(uint8_t *p, uint64_t value) noexcept nogil:
    """mp_encode_uint: 9 bytes at most; behind them."""
    if value < 0x80:
        p[0] = <uint8_t> value
        return p + 1
    if value <= 0xFF:
        p[0] = 0xCC
        return store_be(p + 1, value, 1)
    if value <= 0xFFFF:
        p[0] = 0xCD
        return store_be(p + 1, value, 2)
    if value <= U32_MAX:
        p[0] = 0xCE
        return store_be(p + 1, value, 4)
    p[0] = 0xCF
    return store_be(p + 1, value, 8)


cdef inline uint8_t *store_int(uint8_t *p, int64_t value) noexcept nogil:
    """mp_encode_int for what is negative, otherwise mp_encode_uint."""
    if value >= 0:
        return store_uint(p, <uint64_t> value)
    if value >= -32:
        p[0] = <uint8_t> value
        return p + 1
    if value >= -128:
        p[0] = 0xD0
        return store_be(p + 1, <uint64_t> value, 1)
    if value >= -32768:
        p[0] = 0xD1
        return store_be(p + 1, <uint64_t> value, 2)
    if value >= -2147483648:
        p[0] = 0xD2
        return store_be(p + 1, <uint64_t> value, 4)
    p[0] = 0xD3
    return store_be(p + 1, <uint64_t> value, 8)


cdef inline uint8_t *store_count(uint8_t *p, uint32_t count, uint8_t fix, uint8_t wide) noexcept nogil:
    """The head of an array (0x90, 0xDC) or a map (0x80, 0xDE)."""
    if count < 16:
        p[0] = <uint8_t> (fix | count)
        return p + 1
    if count <= 0xFFFF:
        p[0] = wide
        return store_be(p + 1, count, 2)
    p[0] = wide + 1
    return store_be(p + 1, count, 4)


cdef inline bint write_byte(Buf *out, uint8_t byte) noexcept nogil:
    if not room(out, 1):
        return False
    out.data[out.size] = byte
    out.size += 1
    return True


cdef inline bint write_uint(Buf *out, uint64_t value) noexcept nogil:
    if not room(out, 9):
        return False
    out.size = store_uint(out.data + out.size, value) - out.data
    return True


cdef inline bint write_int(Buf *out, int64_t value) noexcept nogil:
    if not room(out, 9):
        return False
    out.size = store_int(out.data + out.size, value) - out.data
    return True


cdef inline bint write_double(Buf *out, double value) noexcept nogil:
    cdef uint64_t bits
    if not room(out, 9):
        return False
    memcpy(&bits, &value, 8)
    out.data[out.size] = 0xCB
    store_be(out.data + out.size + 1, bits, 8)
    out.size += 9
    return True


cdef inline bint write_float(Buf *out, float value) noexcept nogil:
    cdef uint32_t bits
    if not room(out, 5):
        return False
    memcpy(&bits, &value, 4)
    out.data[out.size] = 0xCA
    store_be(out.data + out.size + 1, bits, 4)
    out.size += 5
    return True


cdef inline bint write_head(Buf *out, uint32_t count, uint8_t fix, uint8_t wide) noexcept nogil:
    if not room(out, 5):
        return False
    out.size = store_count(out.data + out.size, count, fix, wide) - out.data
    return True


cdef inline bint write_raw(Buf *out, const void *data, size_t size) noexcept nogil:
    if size == 0:
        return True
    if not room(out, size):
        return False
    memcpy(out.data + out.size, data, size)
    out.size += size
    return True


cdef inline bint write_text(Buf *out, const void *data, size_t size) noexcept nogil:
    """A string of less than 4 GiB."""
    cdef uint8_t *p
    if not room(out, size + 5):
        return False
    p = out.data + out.size
    if size < 32:
        p[0] = <uint8_t> (0xA0 | size)
        p += 1
    elif size <= 0xFF:
        p[0] = 0xD9
        p = store_be(p + 1, size, 1)
    elif size <= 0xFFFF:
        p[0] = 0xDA
        p = store_be(p + 1, size, 2)
    else:
        p[0] = 0xDB
        p = store_be(p + 1, size, 4)
    if size:
        memcpy(p, data, size)
    out.size = p + size - out.data
    return True


cdef inline bint write_binary(Buf *out, const void *data, size_t size) noexcept nogil:
    cdef uint8_t *p
    if not room(out, size + 5):
        return False
    p = out.data + out.size
    if size <= 0xFF:
        p[0] = 0xC4
        p = store_be(p + 1, size, 1)
    elif size <= 0xFFFF:
        p[0] = 0xC5
        p = store_be(p + 1, size, 2)
    else:
        p[0] = 0xC6
        p = store_be(p + 1, size, 4)
    if size:
        memcpy(p, data, size)
    out.size = p + size - out.data
    return True


cdef bint write_ext(Buf *out, uint8_t kind, const uint8_t *data, uint32_t size) noexcept nogil:
    """mp_encode_extl: at most 255 bytes here."""
    cdef uint8_t *p
    if not room(out, size + 3):
        return False
    p = out.data + out.size
    if size == 1 or size == 2 or size == 4 or size == 8 or size == 16:
        p[0] = 0xD4 if size == 1 else 0xD5 if size == 2 else 0xD6 if size == 4 else 0xD7 if size == 8 else 0xD8
        p += 1
    else:
        p[0] = 0xC7
        p[1] = <uint8_t> size
        p += 2
    p[0] = kind
    memcpy(p + 1, data, size)
    out.size = p + 1 + size - out.data
    return True


cdef bint write_decimal(Buf *out, const uint8_t *digits, int count, bint minus, int64_t scale) noexcept nogil:
    """decimal.c, decimal_pack: the scale, then the digits two a byte, and the sign in the last half byte."""
    cdef uint8_t body[64]
    cdef uint8_t *p = store_int(body, scale)
    cdef int at = 0
    if count % 2 == 0:
        p[0] = digits[0]
        p += 1
        at = 1
    while at + 1 < count:
        p[0] = <uint8_t> (digits[at] << 4 | digits[at + 1])
        p += 1
        at += 2
    p[0] = <uint8_t> (digits[at] << 4 | (0x0D if minus else 0x0C))
    return write_ext(out, EXT_DECIMAL, body, <uint32_t> (p + 1 - body))


cdef bint write_datetime(Buf *out, int64_t seconds, int32_t nsec, int16_t east, int16_t zone) noexcept nogil:
    """mp_datetime.c, datetime_pack: 8 bytes, or 16 where there is more than seconds."""
    cdef uint8_t body[16]
    store_le(body, <uint64_t> seconds, 8)
    if nsec == 0 and east == 0 and zone == 0:
        return write_ext(out, EXT_DATETIME, body, 8)
    store_le(body + 8, <uint64_t> nsec, 4)
    store_le(body + 12, <uint64_t> east, 2)
    store_le(body + 14, <uint64_t> zone, 2)
    return write_ext(out, EXT_DATETIME, body, 16)

# One value into the buffers of one column.

cdef enum:
    # columnplan.py
    K_BOOL = 0
    K_INT8 = 1
    K_INT16 = 2
    K_INT32 = 3
    K_INT64 = 4
    K_FLOAT = 5
    K_DOUBLE = 6
    K_DECIMAL = 7
    K_TIMESTAMP = 8
    K_STRING = 9
    K_BINARY = 10
    K_UUID = 11
    K_UUID_BYTES = 12
    K_DECIMAL_TEXT = 13
    K_EXT_TEXT = 14
    K_VARIANT = 15
    K_DATETIME_PART = 16
    K_INTERVAL_PART = 17

cdef struct Col:
    int source
    int kind
    int a
    int b
    uint32_t width       # bytes of a value, 0 if it has offsets
    bint done            # has it a value in the row at hand?
    int next             # the column of the next part of the same value, -1 for none
    int64_t nulls
    uint8_t *valid       # one byte a row
    uint8_t *fixed       # values, or int32 offsets
    uint8_t *fixed2      # int32 offsets of a variant's metadata
    Buf heap
    Buf heap2


cdef uint32_t kind_width(int kind) noexcept nogil:
    if kind == K_BOOL or kind == K_INT8:
        return 1
    if kind == K_INT16:
        return 2
    if kind == K_INT32 or kind == K_FLOAT:
        return 4
    if kind == K_DECIMAL:
        return 16
    if kind == K_STRING or kind == K_BINARY or K_UUID <= kind <= K_VARIANT:
        return 0
    return 8


cdef inline void end_bytes(Col *c, Py_ssize_t row) noexcept nogil:
    (<int32_t *> c.fixed)[row + 1] = <int32_t> c.heap.size


cdef inline int put_bytes(Col *c, Py_ssize_t row, const void *data, size_t size) except -1:
    buf_put(&c.heap, data, size)
    end_bytes(c, row)
    return 1


cdef inline int put_long(Col *c, Py_ssize_t row, int64_t value) noexcept nogil:
    """A whole number into a column of a fixed width; 0 if it is too large for it."""
    if c.width == 8:
        (<int64_t *> c.fixed)[row] = value
        return 1
    if c.width == 4:
        (<int32_t *> c.fixed)[row] = <int32_t> value
        return value == <int32_t> value
    if c.width == 2:
        (<int16_t *> c.fixed)[row] = <int16_t> value
        return value == <int64_t> <int16_t> value
    (<int8_t *> c.fixed)[row] = <int8_t> value
    return value == <int64_t> <int8_t> value


cdef void put_null(Col *c, Py_ssize_t row) noexcept nogil:
    c.valid[row] = 0
    c.nulls += 1
    if c.width:
        memset(c.fixed + row * c.width, 0, c.width)
        return
    end_bytes(c, row)
    if c.kind == K_VARIANT:
        (<int32_t *> c.fixed2)[row + 1] = <int32_t> c.heap2.size


cdef int put_whole_decimal(Col *c, Py_ssize_t row, uint64_t value, bint minus) noexcept nogil:
    cdef uint8_t digits[20]
    cdef int at
    for at in range(20):
        digits[19 - at] = value % 10
        value = value // 10
    return hw_decimal128(digits, 20, c.b, minus, c.a, c.fixed + row * 16)


cdef int put_decimal(Col *c, Py_ssize_t row, bp p, uint32_t n) noexcept nogil:
    cdef Packed10 d
    packed_load(p, n, &d)
    if d.count == 1 and d.digit[0] == 0:
        d.scale = c.b
    while d.scale > c.b and d.count > 1 and d.digit[d.count - 1] == 0:
        d.count -= 1
        d.scale -= 1
    if d.scale > c.b or c.b - d.scale > 38:
        return 0
    return hw_decimal128(d.digit, d.count, <int> (c.b - d.scale), d.minus, c.a, c.fixed + row * 16)


cdef int64_t MOMENT_MAX = <int64_t> 9223372036 * 1000 + 852
# In seconds, so that a part of a second may come to it.


cdef int put_moment(Col *c, Py_ssize_t row, bp p, uint32_t n) noexcept nogil:
    """A datetime in microseconds; 0 where 64 bits do not hold it."""
    cdef int64_t seconds = load_le(p, 8)
    cdef int64_t nsec = load_le(p + 8, 4) if n == 16 else 0
    if seconds > MOMENT_MAX or seconds < -MOMENT_MAX:
        return 0
    (<int64_t *> c.fixed)[row] = seconds * 1000000 + nsec // 1000
    return 1


cdef int put_datetime_part(Col *c, Py_ssize_t row, bp p, uint32_t n) noexcept nogil:
    cdef int64_t value = 0
    if c.a == 0:
        value = load_le(p, 8)
    elif n == 16:
        value = load_le(p + 8, 4) if c.a == 1 else load_le(p + (12 if c.a == 2 else 14), 2)
    (<int64_t *> c.fixed)[row] = value
    return 1


cdef int put_interval_part(Col *c, Py_ssize_t row, bp p, uint32_t n) noexcept nogil:
    cdef bp end = p + n
    cdef uint32_t count = p[0]
    cdef int64_t value = 0, one = 0
    cdef uint8_t field
    p += 1
    while count:
        count -= 1
        field = p[0]
        p = int_at(p + 1, end, &one)
        if field == c.a:
            value = one
    (<int64_t *> c.fixed)[row] = value
    return 1


cdef int put_extension(Col *c, Py_ssize_t row, bp p, object texts) except -1:
    cdef uint8_t text[DECIMAL_TEXT_MAX]
    cdef uint32_t n
    cdef int8_t kind
    cdef bp body = load_ext(p, &n, &kind)
    cdef double d
    cdef bytes packed
    if kind == EXT_DECIMAL:
        if c.kind == K_DECIMAL:
            return put_decimal(c, row, body, n)
        if c.kind == K_DECIMAL_TEXT:
            return put_bytes(c, row, text, decimal_text(body, n, text))
        if c.kind == K_DOUBLE:
            packed = (<const char *> text)[:decimal_text(body, n, text)]
            (<double *> c.fixed)[row] = float(packed)
            return 1
    elif kind == EXT_UUID:
        if c.kind == K_UUID:
            uuid_text(body, text)
            return put_bytes(c, row, text, 36)
        if c.kind == K_UUID_BYTES:
            return put_bytes(c, row, body, 16)
    elif kind == EXT_DATETIME:
        if c.kind == K_TIMESTAMP:
            return put_moment(c, row, body, n)
        if c.kind == K_DATETIME_PART:
            return put_datetime_part(c, row, body, n)
    elif kind == EXT_INTERVAL and c.kind == K_INTERVAL_PART:
        return put_interval_part(c, row, body, n)
    if c.kind == K_EXT_TEXT and kind == c.a:
        packed = texts(<int> kind, (<const char *> body)[:n]).encode("utf-8", "replace")
        return put_bytes(c, row, PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed))
    return 0


cdef int put_string(Col *c, Py_ssize_t row, bp p, int utf8) except -1:
    cdef uint32_t n
    cdef bytes packed
    p = load_blob(p, &n)
    if hw_utf8(p, n):
        return put_bytes(c, row, p, n)
    if utf8 != UTF8_REPLACE:
        return 0
    packed = (<const char *> p)[:n].decode("utf-8", "replace").encode()
    return put_bytes(c, row, PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed))


cdef int put_variant(Col *c, Py_ssize_t row, bp p, Variants writer) except -1:
    cdef size_t before = c.heap.size, before2 = c.heap2.size
    writer.begin(&c.heap)
    writer.value(p)
    end_bytes(c, row)
    if writer.name_count == 0:
        buf_put(&c.heap2, <const char *> b"\x01\x00\x00", 3)
    else:
        writer.metadata(&c.heap2)
    (<int32_t *> c.fixed2)[row + 1] = <int32_t> c.heap2.size
    check_variant(c.heap.size - before, c.heap2.size - before2)
    return 1


cdef inline int put_packed(Col *c, Py_ssize_t row, bp p, Variants writer) except -1:
    """The checked value at p into a column of variants, or as it stands."""
    if c.kind == K_VARIANT:
        return put_variant(c, row, p, writer)
    return put_bytes(c, row, p, mp_skip(p) - p)


cdef inline int put_value(Col *c, Py_ssize_t row, bp p, Variants writer) except -1:
    """The checked value at p; 0 if it has no place in this column."""
    cdef uint8_t type = TYPE_OF[p[0]]
    cdef int kind = c.kind
    cdef uint32_t n
    cdef uint64_t u
    cdef bp body
    if kind == K_VARIANT:
        if type == MP_NIL and c.a:
            put_null(c, row)
            return 1
        return put_variant(c, row, p, writer)
    if type == MP_UINT:
        u = load_uint(p)
        if kind == K_DOUBLE:
            (<double *> c.fixed)[row] = <double> u
            return 1
        if kind == K_FLOAT:
            (<float *> c.fixed)[row] = <float> <double> u
            return 1
        if kind == K_DECIMAL:
            return put_whole_decimal(c, row, u, False)
        if K_INT8 <= kind <= K_INT64 and u <= <uint64_t> 0x7FFFFFFFFFFFFFFF:
            return put_long(c, row, <int64_t> u)
        return 0
    if type == MP_STR:
        if kind == K_BINARY:
            body = load_blob(p, &n)
            return put_bytes(c, row, body, n)
        return put_string(c, row, p, writer.utf8) if kind == K_STRING else 0
    if type == MP_NIL:
        put_null(c, row)
        return 1
    if type == MP_DOUBLE or type == MP_FLOAT:
        if kind == K_DOUBLE:
            (<double *> c.fixed)[row] = load_double(p)
            return 1
        if kind == K_FLOAT:
            (<float *> c.fixed)[row] = <float> load_double(p)
            return 1
        return 0
    if type == MP_BOOL:
        if kind != K_BOOL:
            return 0
        c.fixed[row] = p[0] == 0xC3
        return 1
    if type == MP_INT:
        if kind == K_DOUBLE:
            (<double *> c.fixed)[row] = <double> load_int(p)
            return 1
        if kind == K_FLOAT:
            (<float *> c.fixed)[row] = <float> <double> load_int(p)
            return 1
        if kind == K_DECIMAL:
            if load_int(p) >= 0:
                return put_whole_decimal(c, row, <uint64_t> load_int(p), False)
            return put_whole_decimal(c, row, <uint64_t> 0 - <uint64_t> load_int(p), True)
        return put_long(c, row, load_int(p)) if K_INT8 <= kind <= K_INT64 else 0
    if type == MP_BIN:
        if kind != K_BINARY:
            return 0
        body = load_blob(p, &n)
        return put_bytes(c, row, body, n)
    if type == MP_EXT:
        return put_extension(c, row, p, writer.texts)
    return 0

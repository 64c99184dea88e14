# MessagePack: where values end, what they are, reading and writing numbers (msgpuck.h).

ctypedef const uint8_t *bp
ctypedef uint8_t bool_t

cdef uint64_t U32_MAX = <uint64_t> 0xFFFFFFFF

cdef enum:
    MP_NIL = 0
    MP_UINT = 1
    MP_INT = 2
    MP_STR = 3
    MP_BIN = 4
    MP_ARRAY = 5
    MP_MAP = 6
    MP_BOOL = 7
    MP_FLOAT = 8
    MP_DOUBLE = 9
    MP_EXT = 10
    MP_NEVER = 11
    # Containers inside one another that we accept; Tarantool has no limit, later readers are recursive.
    MP_DEPTH_MAX = 1000

cdef uint8_t TYPE_OF[256]
# First byte of a value -> its type (mp_parser_hint of msgpuck). 0xc1 is MP_NEVER.

cdef uint8_t SIZE_OF[256]
# First byte -> whole size of the value, 0 where the first byte alone does not tell it.

cdef uint8_t WIDTH_OF[256]
# First byte -> bytes of its length field, for values that have one.

TYPE_NAMES = (
    "nil", "unsigned", "integer", "string", "blob", "array", "map", "boolean", "float", "double", "extension",
)
# field_def.c, mp_type_strs


cdef void fill_range(int low, int high, uint8_t kind, uint8_t size, uint8_t width) noexcept:
    cdef int code
    for code in range(low, high + 1):
        TYPE_OF[code] = kind
        SIZE_OF[code] = size
        WIDTH_OF[code] = width


cdef void fill_tables() noexcept:
    cdef int code
    fill_range(0x00, 0x7F, MP_UINT, 1, 0)
    fill_range(0x80, 0x8F, MP_MAP, 0, 0)
    fill_range(0x90, 0x9F, MP_ARRAY, 0, 0)
    for code in range(0xA0, 0xC0):
        fill_range(code, code, MP_STR, 1 + (code & 0x1F), 0)
    fill_range(0xC0, 0xC0, MP_NIL, 1, 0)
    fill_range(0xC1, 0xC1, MP_NEVER, 0, 0)
    fill_range(0xC2, 0xC3, MP_BOOL, 1, 0)
    for code in range(3):
        fill_range(0xC4 + code, 0xC4 + code, MP_BIN, 0, 1 << code)
        fill_range(0xC7 + code, 0xC7 + code, MP_EXT, 0, 1 << code)
        fill_range(0xD9 + code, 0xD9 + code, MP_STR, 0, 1 << code)
    fill_range(0xCA, 0xCA, MP_FLOAT, 5, 0)
    fill_range(0xCB, 0xCB, MP_DOUBLE, 9, 0)
    for code in range(4):
        fill_range(0xCC + code, 0xCC + code, MP_UINT, 1 + (1 << code), 0)
        fill_range(0xD0 + code, 0xD0 + code, MP_INT, 1 + (1 << code), 0)
    fill_range(0xD4, 0xD8, MP_EXT, 0, 0)
    for code in range(2):
        fill_range(0xDC + code, 0xDC + code, MP_ARRAY, 0, 2 << code)
        fill_range(0xDE + code, 0xDE + code, MP_MAP, 0, 2 << code)
    fill_range(0xE0, 0xFF, MP_INT, 1, 0)


fill_tables()

cdef bytes NIL_BYTES = b"\xc0"
cdef bp NIL = <bp> PyBytes_AS_STRING(NIL_BYTES)
# What a missing field is for comparisons.


cdef inline uint64_t load_be(bp p, uint32_t width) noexcept nogil:
    if width == 4:
        return (<uint64_t> p[0] << 24) | (<uint64_t> p[1] << 16) | (<uint64_t> p[2] << 8) | p[3]
    if width == 1:
        return p[0]
    if width == 2:
        return (<uint64_t> p[0] << 8) | p[1]
    return (load_be(p, 4) << 32) | load_be(p + 4, 4)


cdef inline uint64_t load_uint(bp p) noexcept nogil:
    """The MP_UINT at p."""
    if p[0] < 0x80:
        return p[0]
    return load_be(p + 1, 1 << (p[0] & 3))


cdef inline int64_t load_int(bp p) noexcept nogil:
    """The MP_INT at p, which may be positive."""
    cdef uint8_t c = p[0]
    if c >= 0xE0:
        return <int8_t> c
    if c == 0xD0:
        return <int8_t> p[1]
    if c == 0xD1:
        return <int16_t> load_be(p + 1, 2)
    if c == 0xD2:
        return <int32_t> load_be(p + 1, 4)
    return <int64_t> load_be(p + 1, 8)


cdef inline double load_double(bp p) noexcept nogil:
    """The MP_FLOAT or MP_DOUBLE at p."""
    cdef uint32_t single
    cdef uint64_t double_bits
    cdef float f
    cdef double d
    if p[0] == 0xCA:
        single = <uint32_t> load_be(p + 1, 4)
        memcpy(&f, &single, 4)
        return f
    double_bits = load_be(p + 1, 8)
    memcpy(&d, &double_bits, 8)
    return d


cdef inline bp load_blob(bp p, uint32_t *size) noexcept nogil:
    """Contents of the MP_STR or MP_BIN at p."""
    cdef uint8_t c = p[0]
    if c <= 0xBF:
        size[0] = c & 0x1F
        return p + 1
    size[0] = <uint32_t> load_be(p + 1, WIDTH_OF[c])
    return p + 1 + WIDTH_OF[c]


cdef inline bp load_ext(bp p, uint32_t *size, int8_t *kind) noexcept nogil:
    """Contents of the MP_EXT at p."""
    cdef uint8_t c = p[0]
    if c >= 0xD4:
        size[0] = 1 << (c - 0xD4)
        kind[0] = <int8_t> p[1]
        return p + 2
    size[0] = <uint32_t> load_be(p + 1, WIDTH_OF[c])
    p += 1 + WIDTH_OF[c]
    kind[0] = <int8_t> p[0]
    return p + 1


cdef inline bp load_count(bp p, uint32_t *count) noexcept nogil:
    """First element of the MP_ARRAY or MP_MAP at p, and how many there are."""
    cdef uint8_t c = p[0]
    if c <= 0x9F:
        count[0] = c & 0x0F
        return p + 1
    count[0] = <uint32_t> load_be(p + 1, WIDTH_OF[c])
    return p + 1 + WIDTH_OF[c]


cdef bp skip_long(bp p, uint64_t *left) noexcept nogil:
    """Behind the head of a container (whose elements are added to `left`), or behind a value with a length."""
    cdef uint8_t c = p[0]
    cdef uint32_t n
    cdef int8_t kind
    cdef uint8_t type = TYPE_OF[c]
    if type == MP_ARRAY:
        p = load_count(p, &n)
        left[0] += n
        return p
    if type == MP_MAP:
        p = load_count(p, &n)
        left[0] += <uint64_t> n * 2
        return p
    if type == MP_EXT:
        p = load_ext(p, &n, &kind)
        return p + n
    p = load_blob(p, &n)
    return p + n


cdef inline bp mp_skip(bp p) noexcept nogil:
    """Behind the value at p, which is known to be valid."""
    cdef uint64_t left
    cdef uint8_t size = SIZE_OF[p[0]]
    if size:
        return p + size
    left = 0
    p = skip_long(p, &left)
    while left:
        left -= 1
        size = SIZE_OF[p[0]]
        if size:
            p += size
        else:
            p = skip_long(p, &left)
    return p


cdef enum:
    BAD_TRUNCATED = 1
    BAD_CODE = 2
    BAD_DEPTH = 3
    BAD_EXT = 4
    BAD_EXT_DEPTH = 5
    BAD_TYPE = 6

cdef struct Check:
    int bad        # why the value is refused, 0 if it is not
    int nesting    # extensions around this value (msgpack.c, msgpack_nesting)
    int8_t ext     # type of the extension that was refused


cdef inline bp bad(Check *ck, int why) noexcept nogil:
    ck.bad = why
    return NULL


cdef bp check_long(bp p, bp end, Check *ck, uint64_t *count) noexcept nogil:
    """The value at p has no fixed size: behind it, or behind the head of a container with `count` elements."""
    cdef uint8_t c = p[0]
    cdef uint8_t type = TYPE_OF[c]
    cdef uint8_t width = WIDTH_OF[c]
    cdef uint32_t n
    cdef int8_t kind
    cdef bp body
    count[0] = 0
    if type == MP_NEVER:
        return bad(ck, BAD_CODE)
    if 1 + width + (1 if type == MP_EXT else 0) > end - p:
        return bad(ck, BAD_TRUNCATED)
    if type == MP_ARRAY or type == MP_MAP:
        body = load_count(p, &n)
        count[0] = <uint64_t> n * 2 if type == MP_MAP else n
        if count[0] > <uint64_t> (end - body):
            return bad(ck, BAD_TRUNCATED)
        return body
    if type == MP_EXT:
        body = load_ext(p, &n, &kind)
        if <uint64_t> n > <uint64_t> (end - body):
            return bad(ck, BAD_TRUNCATED)
        if kind > 0 and kind < 8 and not ext_ok(kind, body, n, ck):
            return NULL
        return body + n
    body = load_blob(p, &n)
    if <uint64_t> n > <uint64_t> (end - body):
        return bad(ck, BAD_TRUNCATED)
    return body + n


cdef bp check_deep(bp p, bp end, Check *ck, uint64_t left) noexcept nogil:
    """Behind the last of the `left` values at p, which lie in one container; a stack of what is left around them."""
    cdef uint64_t outer[MP_DEPTH_MAX]
    cdef uint64_t count
    cdef uint32_t depth = 1
    cdef uint8_t size
    outer[0] = 0
    while True:
        while left == 0:
            depth -= 1
            if depth == 0:
                return p
            left = outer[depth]
        if p >= end:
            return bad(ck, BAD_TRUNCATED)
        left -= 1
        size = SIZE_OF[p[0]]
        if size:
            if size > end - p:
                return bad(ck, BAD_TRUNCATED)
            p += size
            continue
        if TYPE_OF[p[0]] == MP_ARRAY or TYPE_OF[p[0]] == MP_MAP:
            if depth >= MP_DEPTH_MAX:
                return bad(ck, BAD_DEPTH)
            p = check_long(p, end, ck, &count)
            if p == NULL:
                return NULL
            outer[depth] = left
            depth += 1
            left = count
        else:
            p = check_long(p, end, ck, &count)
            if p == NULL:
                return NULL


cdef inline bp mp_check(bp p, bp end, Check *ck) noexcept nogil:
    """Behind the value at p, or NULL with `ck.bad` set (mp_check of msgpuck). Never reads at or after `end`."""
    cdef uint64_t count
    cdef uint8_t size
    if p >= end:
        return bad(ck, BAD_TRUNCATED)
    size = SIZE_OF[p[0]]
    if size:
        return p + size if size <= end - p else bad(ck, BAD_TRUNCATED)
    p = check_long(p, end, ck, &count)
    if p == NULL or count == 0:
        return p
    return check_deep(p, end, ck, count)


cdef object mp_error(Check *ck, Py_ssize_t offset):
    """The exception for a refused value that begins at `offset`."""
    if ck.bad == BAD_CODE:
        return MsgPackError(f"illegal code 0xc1 in the value at offset {offset}")
    if ck.bad == BAD_DEPTH:
        return MsgPackError(f"nesting above {MP_DEPTH_MAX} containers in the value at offset {offset}")
    if ck.bad == BAD_EXT:
        name = EXT_NAMES.get(ck.ext, "extension")
        return MsgPackError(f"cannot unpack {name} in the value at offset {offset}")
    if ck.bad == BAD_EXT_DEPTH:
        return MsgPackError(f"too much nesting of extensions in the value at offset {offset}")
    if ck.bad == BAD_TYPE:
        return MsgPackError(f"expected an array at offset {offset}")
    return MsgPackError(f"truncated input: the value at offset {offset} is not complete")


cdef inline bp data_of(object data) except NULL:
    """Where the bytes of a bytes object are. TypeError for anything else."""
    if not isinstance(data, bytes):
        raise TypeError(f"expected bytes, got {type(data).__name__}")
    return <bp> PyBytes_AS_STRING(data)


cdef int check_range(object data, Py_ssize_t offset, Py_ssize_t end) except -1:
    if not 0 <= offset <= end <= PyBytes_GET_SIZE(data):
        raise MsgPackError(f"truncated input: {offset}..{end} does not lie in {PyBytes_GET_SIZE(data)} bytes")
    return 0


def mp_next(data, Py_ssize_t offset=0):
    """Offset just after the value at `offset`, checked."""
    cdef Check ck
    cdef bp start = data_of(data)
    cdef bp after
    check_range(data, offset, PyBytes_GET_SIZE(data))
    ck.nesting = 0
    after = mp_check(start + offset, start + PyBytes_GET_SIZE(data), &ck)
    if after == NULL:
        raise mp_error(&ck, offset)
    return after - start


def mp_check_all(data, Py_ssize_t offset, Py_ssize_t end):
    """How many whole values lie in data[offset:end]; MsgPackError if they do not fill it exactly."""
    cdef Check ck
    cdef bp start = data_of(data)
    cdef bp p
    cdef bp after
    cdef Py_ssize_t count = 0
    check_range(data, offset, end)
    p = start + offset
    ck.nesting = 0
    while p < start + end:
        after = mp_check(p, start + end, &ck)
        if after == NULL:
            raise mp_error(&ck, p - start)
        p = after
        count += 1
    return count


def mp_array_fields(data, Py_ssize_t offset=0):
    """Offsets of the fields of the array at `offset`, and the offset after its end as the last item."""
    cdef Check ck
    cdef bp start = data_of(data)
    cdef bp end = start + PyBytes_GET_SIZE(data)
    cdef bp p
    cdef uint64_t count = 0
    cdef Py_ssize_t last
    check_range(data, offset, PyBytes_GET_SIZE(data))
    p = start + offset
    ck.nesting = 0
    ck.bad = BAD_TRUNCATED
    if p < end and TYPE_OF[p[0]] != MP_ARRAY:
        ck.bad = BAD_TYPE
        p = NULL
    elif p < end:
        p = check_long(p, end, &ck, &count)
    else:
        p = NULL
    if p == NULL:
        raise mp_error(&ck, offset)
    last = p - start
    out = [last]
    while count:
        p = mp_check(p, end, &ck)
        if p == NULL:
            raise mp_error(&ck, last)
        last = p - start
        out.append(last)
        count -= 1
    return out


def frame_end(data, Py_ssize_t offset, Py_ssize_t end):
    """Offset after the packet `len header body` at `offset`; 0 if it is not complete yet."""
    cdef bp start = data_of(data)
    cdef Py_ssize_t at
    cdef uint64_t size
    check_range(data, offset, end)
    if offset == end:
        return 0
    if TYPE_OF[start[offset]] != MP_UINT:
        raise MsgPackError(
            f"packet length: expected an unsigned integer at offset {offset}, got code 0x{start[offset]:02x}"
        )
    at = offset + SIZE_OF[start[offset]]
    if at > end:
        return 0
    size = load_uint(start + offset)
    return at + size if size <= <uint64_t> (end - at) else 0


# ---- writing ---------------------------------------------------------------------------------------


cdef inline uint8_t *put_be(uint8_t *p, uint64_t value, uint32_t width) noexcept nogil:
    while width:
        width -= 1
        p[0] = <uint8_t> (value >> (8 * width))
        p += 1
    return p


cdef inline uint8_t *put_uint(uint8_t *p, uint64_t value) noexcept nogil:
    """mp_encode_uint: the shortest form."""
    if value < 0x80:
        p[0] = <uint8_t> value
        return p + 1
    if value < 0x100:
        p[0] = 0xCC
        return put_be(p + 1, value, 1)
    if value < 0x10000:
        p[0] = 0xCD
        return put_be(p + 1, value, 2)
    if value <= U32_MAX:
        p[0] = 0xCE
        return put_be(p + 1, value, 4)
    p[0] = 0xCF
    return put_be(p + 1, value, 8)


cdef inline uint8_t *put_double(uint8_t *p, double value) noexcept nogil:
    cdef uint64_t bits
    memcpy(&bits, &value, 8)
    p[0] = 0xCB
    return put_be(p + 1, bits, 8)


cdef inline uint8_t *put_array(uint8_t *p, uint32_t count) noexcept nogil:
    if count < 16:
        p[0] = <uint8_t> (0x90 | count)
        return p + 1
    if count < 0x10000:
        p[0] = 0xDC
        return put_be(p + 1, count, 2)
    p[0] = 0xDD
    return put_be(p + 1, count, 4)

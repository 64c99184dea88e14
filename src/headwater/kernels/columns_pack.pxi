# One value of an Arrow column as MessagePack. A function says 0, or why not: packplan.Fault, or FAULT_MEMORY.

cdef enum:
    # packplan.py
    FORM_INT64 = 5
    FORM_FLOAT = 10
    FORM_TIMESTAMP = 13
    FORM_DATE = 14
    FORM_FIXED_BINARY = 19
    HOW_NIL = 0
    HOW_BOOL = 1
    HOW_INTEGER = 2
    HOW_INTEGER_DOUBLE = 3
    HOW_INTEGER_FLOAT = 4
    HOW_INTEGER_DECIMAL = 5
    HOW_REAL = 6
    HOW_REAL_DOUBLE = 7
    HOW_REAL_FLOAT = 8
    HOW_REAL_INTEGER = 9
    HOW_DECIMAL = 10
    HOW_DECIMAL_INTEGER = 11
    HOW_TEXT = 12
    HOW_TEXT_BYTES = 13
    HOW_BYTES = 14
    HOW_UUID_TEXT = 15
    HOW_UUID_BYTES = 16
    HOW_DECIMAL_TEXT = 17
    HOW_MOMENT = 18
    HOW_DAY = 19
    HOW_LIST = 20
    HOW_MAP = 21
    HOW_STRUCT_MAP = 22
    HOW_STRUCT_ARRAY = 23
    HOW_STRUCT_DATETIME = 24
    HOW_STRUCT_INTERVAL = 25
    HOW_VARIANT = 26
    HOW_RAW = 27
    FAULT_MEMORY = -1
    FAULT_RANGE = 1
    FAULT_FRACTION = 2
    FAULT_DIGITS = 3
    FAULT_UTF8 = 4
    FAULT_UUID = 5
    FAULT_DECIMAL = 6
    FAULT_MOMENT = 7
    FAULT_INTERVAL = 8
    FAULT_KEY = 9
    FAULT_VARIANT = 10
    FAULT_RAW = 11
    FAULT_TYPE = 12
    FAULT_OFFSETS = 13
    FAULT_SIZE = 14
    FAULT_TAG = 15
    FAULT_FIELD = 16

cdef double TWO_63 = 9223372036854775808.0
cdef double TWO_64 = 18446744073709551616.0


cdef inline int wrote(bint done) noexcept nogil:
    return 0 if done else FAULT_MEMORY


cdef int pack_integer(Node *n, int64_t row, Buf *out) noexcept nogil:
    cdef bint minus
    cdef uint64_t u = whole_at(n, row, &minus)
    return write_whole(n, u, minus, out)


cdef inline int write_whole(Node *n, uint64_t u, bint minus, Buf *out) noexcept nogil:
    """64 bits of two's complement, between the bounds of the field."""
    if minus:
        return wrote(write_int(out, <int64_t> u)) if <int64_t> u >= n.low else FAULT_RANGE
    return wrote(write_uint(out, u)) if u <= n.high else FAULT_RANGE


cdef int pack_integer_real(Node *n, int64_t row, Buf *out) noexcept nogil:
    """A whole number as a double or a float, if that holds it."""
    cdef bint minus
    cdef uint64_t u = whole_at(n, row, &minus)
    cdef double d = <double> <int64_t> u if minus else <double> u
    if n.how == HOW_INTEGER_FLOAT:
        d = <double> <float> d
    if (minus and <int64_t> d != <int64_t> u) or (not minus and (d >= TWO_64 or <uint64_t> d != u)):
        return FAULT_DIGITS
    if n.how == HOW_INTEGER_FLOAT:
        return wrote(write_float(out, <float> d))
    return wrote(write_double(out, d))


cdef int pack_integer_decimal(Node *n, int64_t row, Buf *out) noexcept nogil:
    cdef uint8_t wide[16]
    cdef uint8_t digits[40]
    cdef bint minus
    cdef int count, sign
    cdef uint64_t u = whole_at(n, row, &minus)
    store_le(wide, u, 8)
    memset(wide + 8, 0xFF if minus else 0, 8)
    count = hw_int128_digits(wide, digits, &sign)
    return wrote(write_decimal(out, digits, count, sign, 0))


cdef int pack_real(Node *n, int64_t row, Buf *out) noexcept nogil:
    cdef float f
    cdef double d
    cdef bint single = n.form == FORM_FLOAT
    if single:
        memcpy(&f, n.fixed + (n.offset + row) * 4, 4)
        if n.how == HOW_REAL:
            return wrote(write_float(out, f))
        d = f
    else:
        memcpy(&d, n.fixed + (n.offset + row) * 8, 8)
    if n.how == HOW_REAL or n.how == HOW_REAL_DOUBLE:
        return wrote(write_double(out, d))
    if n.how == HOW_REAL_FLOAT:
        f = <float> d
        if <double> f != d and d == d:
            return FAULT_DIGITS
        return wrote(write_float(out, f))
    if not -TWO_63 <= d < TWO_64:
        return FAULT_RANGE
    if d < 0:
        return write_whole(n, <uint64_t> <int64_t> d, True, out) if <double> <int64_t> d == d else FAULT_FRACTION
    return write_whole(n, <uint64_t> d, False, out) if <double> <uint64_t> d == d else FAULT_FRACTION


cdef int pack_decimal(Node *n, int64_t row, Buf *out) noexcept nogil:
    """decimal128, without the zeros at the end of its fraction."""
    cdef uint8_t digits[40]
    cdef int minus, count
    cdef int64_t scale = n.a
    count = hw_int128_digits(n.fixed + (n.offset + row) * 16, digits, &minus)
    while scale > 0 and digits[count - 1] == 0:
        scale -= 1
        if count > 1:
            count -= 1
    if n.how == HOW_DECIMAL:
        return wrote(write_decimal(out, digits, count, minus, scale))
    if scale > 0:
        return FAULT_FRACTION
    return write_digits(n, digits, count, minus, scale, out)


cdef int write_digits(Node *n, const uint8_t *digits, int count, bint minus, int64_t scale, Buf *out) noexcept nogil:
    """Whole digits * 10^-scale as an integer of the field."""
    cdef uint64_t u = 0
    cdef int at
    for at in range(count + <int> -scale):
        if u > (~<uint64_t> 0 - 9) // 10 and (u > ~<uint64_t> 0 // 10 or (at < count and digits[at] > 5)):
            return FAULT_RANGE
        u = u * 10 + (digits[at] if at < count else 0)
    if not minus or u == 0:
        return write_whole(n, u, False, out)
    if u > <uint64_t> 1 << 63:
        return FAULT_RANGE
    return write_whole(n, 0 - u, True, out)


cdef int pack_text(Node *n, int64_t row, Buf *out) noexcept nogil:
    cdef bp p
    cdef uint64_t size
    if not bytes_at(n, row, &p, &size):
        return FAULT_OFFSETS
    if n.how == HOW_TEXT:
        return wrote(write_text(out, p, size)) if hw_utf8(p, size) else FAULT_UTF8
    if n.how == HOW_TEXT_BYTES:
        return wrote(write_text(out, p, size))
    if n.how == HOW_BYTES:
        return wrote(write_binary(out, p, size))
    if n.how == HOW_UUID_TEXT:
        return write_uuid(p, size, out)
    if n.how == HOW_UUID_BYTES:
        return wrote(write_ext(out, EXT_UUID, p, 16)) if size == 16 else FAULT_UUID
    return write_decimal_text(p, size, out)


cdef inline int hex_of(uint8_t c) noexcept nogil:
    if 48 <= c <= 57:
        return c - 48
    c |= 0x20
    return c - 87 if 97 <= c <= 102 else -1


cdef int write_uuid(bp p, uint64_t size, Buf *out) noexcept nogil:
    """36 characters."""
    cdef uint8_t body[16]
    cdef int at, high, low, n = 0
    if size != 36:
        return FAULT_UUID
    for at in range(16):
        if at == 4 or at == 6 or at == 8 or at == 10:
            if p[n] != 45:
                return FAULT_UUID
            n += 1
        high = hex_of(p[n])
        low = hex_of(p[n + 1])
        if high < 0 or low < 0:
            return FAULT_UUID
        body[at] = <uint8_t> (high << 4 | low)
        n += 2
    return wrote(write_ext(out, EXT_UUID, body, 16))


cdef int write_decimal_text(bp p, uint64_t size, Buf *out) noexcept nogil:
    """`[+-]12.34[E[+-]56]`, of 76 digits at most."""
    cdef uint8_t digits[DECIMAL_DIGITS_MAX]
    cdef bp end = p + size
    cdef int count = 0
    cdef int64_t scale = 0, power = 0
    cdef bint minus = False, down = False, point = False, some = False
    if p < end and (p[0] == 43 or p[0] == 45):
        minus = p[0] == 45
        p += 1
    while p < end and (48 <= p[0] <= 57 or (p[0] == 46 and not point)):
        if p[0] == 46:
            point = True
            p += 1
            continue
        some = True
        if count or p[0] != 48:
            if count == DECIMAL_DIGITS_MAX:
                return FAULT_DECIMAL
            digits[count] = p[0] - 48
            count += 1
        scale += point
        p += 1
    if not some:
        return FAULT_DECIMAL
    if p < end and p[0] | 0x20 == 101:
        p += 1
        if p < end and (p[0] == 43 or p[0] == 45):
            down = p[0] == 45
            p += 1
        if p == end:
            return FAULT_DECIMAL
        while p < end and 48 <= p[0] <= 57 and power < 10000000:
            power = power * 10 + (p[0] - 48)
            p += 1
    if p != end:
        return FAULT_DECIMAL
    if count == 0:
        digits[0] = 0
        count = 1
    return write_checked_decimal(digits, count, minus, scale + (power if down else -power), out)


cdef int write_checked_decimal(const uint8_t *digits, int count, bint minus, int64_t scale, Buf *out) noexcept nogil:
    """If Tarantool can read it."""
    cdef size_t before = out.size
    cdef uint32_t size
    cdef int8_t kind
    cdef bp body
    if not -10000000 < scale < 10000000:
        return FAULT_DECIMAL
    if not write_decimal(out, digits, count, minus, scale):
        return FAULT_MEMORY
    body = load_ext(out.data + before, &size, &kind)
    if not decimal_ok(body, size):
        return FAULT_DECIMAL
    return 0


cdef int write_moment(int64_t value, int64_t to_a_second, Buf *out) noexcept nogil:
    cdef int64_t seconds = value // to_a_second
    cdef int64_t rest = value % to_a_second
    if rest < 0:
        rest += to_a_second
        seconds -= 1
    if not SECONDS_MIN <= seconds <= SECONDS_MAX:
        return FAULT_MOMENT
    return wrote(write_datetime(out, seconds, <int32_t> (rest * (1000000000 // to_a_second)), 0, 0))


cdef int part_of(Node *n, int at, int64_t row, int64_t *value) noexcept nogil:
    """A whole number out of a child of a struct; 0 where it is null or absent."""
    cdef Node *child = &n.child[at]
    cdef bint minus
    cdef uint64_t u
    value[0] = 0
    if at >= n.count or child.how == HOW_NIL or is_null(child, row):
        return 0
    if child.how != HOW_INTEGER:
        return FAULT_TYPE
    u = whole_at(child, row, &minus)
    if not minus and u > <uint64_t> 0x7FFFFFFFFFFFFFFF:
        return FAULT_RANGE
    value[0] = <int64_t> u
    return 0


cdef int pack_datetime(Node *n, int64_t row, Buf *out) noexcept nogil:
    cdef int64_t part[4]
    cdef int at, fault
    for at in range(4):
        fault = part_of(n, at, row, &part[at])
        if fault:
            return fault
    if not (
        SECONDS_MIN <= part[0] <= SECONDS_MAX and 0 <= part[1] < 2000000000 and -720 <= part[2] <= 840
        and 0 <= part[3] <= 1024
    ):
        return FAULT_MOMENT
    return wrote(write_datetime(out, part[0], <int32_t> part[1], <int16_t> part[2], <int16_t> part[3]))


cdef int pack_interval(Node *n, int64_t row, Buf *out) noexcept nogil:
    """mp_interval.c, interval_pack: how many parts, then number and value of each that is not zero."""
    cdef uint8_t body[100]
    cdef uint8_t *p = body + 1
    cdef int64_t value
    cdef int at, fault
    body[0] = 0
    for at in range(9):
        fault = part_of(n, at, row, &value)
        if fault:
            return fault
        if (at <= 2 or at == 7) and not -2147483648 <= value <= 2147483647:
            return FAULT_INTERVAL
        if at == 8 and not 0 <= value <= 2:
            return FAULT_INTERVAL
        if value:
            body[0] += 1
            p[0] = <uint8_t> at
            p = store_int(p + 1, value)
    return wrote(write_ext(out, EXT_INTERVAL, body, <uint32_t> (p - body)))


cdef int pack_list(Node *n, int64_t row, Buf *out, Packing *k) noexcept nogil:
    cdef int64_t first = offset_at(n, row), last = offset_at(n, row + 1)
    cdef int64_t at
    cdef int fault
    cdef Node *values = &n.child[n.count - 1]
    cdef bint is_map = n.how == HOW_MAP
    if first < 0 or last < first or last > values.length or last - first > <int64_t> U32_MAX:
        return FAULT_OFFSETS
    if not write_head(out, <uint32_t> (last - first), 0x80 if is_map else 0x90, 0xDE if is_map else 0xDC):
        return FAULT_MEMORY
    for at in range(first, last):
        if out.size > <size_t> OFFSET_MAX:
            return FAULT_SIZE
        if is_map:
            if n.child[0].how == HOW_NIL or is_null(&n.child[0], at):
                return FAULT_KEY
            fault = pack_value(&n.child[0], at, out, k)
            if fault:
                return fault
        fault = pack_value(values, at, out, k)
        if fault:
            return fault
    return 0


cdef int pack_struct(Node *n, int64_t row, Buf *out, Packing *k) noexcept nogil:
    cdef bint is_map = n.how == HOW_STRUCT_MAP
    cdef int at, fault
    if not write_head(out, n.count, 0x80 if is_map else 0x90, 0xDE if is_map else 0xDC):
        return FAULT_MEMORY
    for at in range(n.count):
        if is_map and not write_text(out, n.child[at].name, n.child[at].name_size):
            return FAULT_MEMORY
        fault = pack_value(&n.child[at], row, out, k)
        if fault:
            return fault
    return 0


cdef bint kind_takes(int kind, bp p) noexcept nogil:
    """May a field of this type hold the checked value at p? (tuple_format.c, field_mp_type and field_ext_type)"""
    cdef uint8_t type = TYPE_OF[p[0]]
    cdef uint32_t size
    cdef int8_t ext = 0
    if type == MP_EXT:
        load_ext(p, &size, &ext)
    if type == MP_NIL or kind == FIELD_ANY:
        return True
    if kind == FIELD_STRING:
        return type == MP_STR
    if kind == FIELD_VARBINARY:
        return type == MP_BIN
    if kind == FIELD_BOOLEAN:
        return type == MP_BOOL
    if kind == FIELD_ARRAY:
        return type == MP_ARRAY
    if kind == FIELD_MAP:
        return type == MP_MAP
    if kind == FIELD_DOUBLE or kind == FIELD_FLOAT32 or kind == FIELD_FLOAT64:
        return type == MP_DOUBLE or type == MP_FLOAT
    if kind == FIELD_NUMBER:
        return MP_UINT <= type <= MP_INT or MP_FLOAT <= type <= MP_DOUBLE or ext == EXT_DECIMAL
    if kind == FIELD_SCALAR:
        return (type != MP_EXT and type != MP_ARRAY and type != MP_MAP) or ext == EXT_DECIMAL or ext == EXT_UUID or (
            ext == EXT_DATETIME
        )
    if kind == FIELD_DECIMAL:
        return ext == EXT_DECIMAL
    if kind == FIELD_UUID:
        return ext == EXT_UUID
    if kind == FIELD_DATETIME:
        return ext == EXT_DATETIME
    if kind == FIELD_INTERVAL:
        return ext == EXT_INTERVAL
    return type == MP_UINT or type == MP_INT


cdef int in_range(Node *n, bp p) noexcept nogil:
    """Does an integer lie between the bounds of its field?"""
    if TYPE_OF[p[0]] == MP_UINT and n.kind != FIELD_ANY:
        return 0 if load_uint(p) <= n.high else FAULT_RANGE
    if TYPE_OF[p[0]] == MP_INT and n.kind != FIELD_ANY:
        # A number that is not negative may be written as a signed one, where the field may be negative.
        if n.low == 0 or load_int(p) < n.low or (load_int(p) > 0 and <uint64_t> load_int(p) > n.high):
            return FAULT_RANGE
    return 0


cdef int pack_ready(Node *n, int64_t row, Buf *out, Packing *k) noexcept nogil:
    """A variant, or what is MessagePack already."""
    cdef size_t before = out.size
    cdef bp p, meta
    cdef uint64_t size, meta_size
    cdef int fault
    cdef Check ck
    if n.how == HOW_VARIANT:
        if is_null(&n.child[0], row) or is_null(&n.child[1], row):
            return FAULT_VARIANT
        if not bytes_at(&n.child[0], row, &p, &size) or not bytes_at(&n.child[1], row, &meta, &meta_size):
            return FAULT_OFFSETS
        fault = unpack_variant(k, p, size, meta, meta_size, out)
        if fault:
            return fault
    else:
        if not bytes_at(n, row, &p, &size):
            return FAULT_OFFSETS
        ck.nesting = 0
        if size == 0 or mp_check(p, p + size, &ck) != p + size:
            return FAULT_RAW
        if not write_raw(out, p, size):
            return FAULT_MEMORY
    if not kind_takes(n.kind, out.data + before):
        return FAULT_TYPE
    return in_range(n, out.data + before)


cdef int pack_value(Node *n, int64_t row, Buf *out, Packing *k) noexcept nogil:
    cdef int how = n.how
    cdef bint minus
    if how == HOW_NIL or is_null(n, row):
        return wrote(write_byte(out, 0xC0))
    if how == HOW_INTEGER:
        return pack_integer(n, row, out)
    if HOW_TEXT <= how <= HOW_DECIMAL_TEXT:
        return pack_text(n, row, out)
    if HOW_REAL <= how <= HOW_REAL_INTEGER:
        return pack_real(n, row, out)
    if how == HOW_BOOL:
        return wrote(write_byte(out, 0xC2 | (n.fixed[(n.offset + row) >> 3] >> ((n.offset + row) & 7) & 1)))
    if how == HOW_DECIMAL or how == HOW_DECIMAL_INTEGER:
        return pack_decimal(n, row, out)
    if how == HOW_MOMENT:
        return write_moment(<int64_t> whole_at(n, row, &minus), n.a, out)
    if how == HOW_VARIANT or how == HOW_RAW:
        return pack_ready(n, row, out, k)
    if how == HOW_LIST or how == HOW_MAP:
        return pack_list(n, row, out, k)
    if how == HOW_STRUCT_MAP or how == HOW_STRUCT_ARRAY:
        return pack_struct(n, row, out, k)
    if how == HOW_INTEGER_DOUBLE or how == HOW_INTEGER_FLOAT:
        return pack_integer_real(n, row, out)
    if how == HOW_INTEGER_DECIMAL:
        return pack_integer_decimal(n, row, out)
    if how == HOW_DAY:
        return write_moment(<int64_t> whole_at(n, row, &minus) * 86400, 1, out)
    if how == HOW_STRUCT_DATETIME:
        return pack_datetime(n, row, out)
    return pack_interval(n, row, out)


def pack_tuples(columns, first, count, tagged=False, untag=None):
    """Tuples out of columns."""
    cdef Nodes nodes = Nodes(columns)
    cdef Packer packer = Packer(tagged, untag)
    cdef Packing *k = &packer.k
    cdef int64_t begin = first, rows = count, row
    cdef int at, fault = 0
    cdef int fields = nodes.root.count
    cdef bytes offsets
    cdef int32_t *ends
    if not 0 <= rows < OFFSET_MAX or begin < 0:
        raise ValueError(f"{count} rows from {first} on")
    for at in range(fields):
        if begin + rows > nodes.root.child[at].length:
            raise ValueError(f"column {at} has {nodes.root.child[at].length} rows, not {begin + rows}")
    offsets = PyBytes_FromStringAndSize(NULL, (rows + 1) * 4)
    ends = <int32_t *> PyBytes_AS_STRING(offsets)
    ends[0] = 0
    row = at = 0
    with nogil:
        for row in range(rows):
            if not write_head(&k.out, fields, 0x90, 0xDC):
                fault = FAULT_MEMORY
            for at in range(fields):
                if fault == 0:
                    fault = pack_value(&nodes.root.child[at], begin + row, &k.out, k)
                if fault == 0 and k.out.size > <size_t> OFFSET_MAX:
                    fault = FAULT_SIZE
                if fault:
                    break
            if fault:
                break
            ends[row + 1] = <int32_t> k.out.size
    if fault:
        packer.fail(fault, nodes.plans[at].name if fields else "", nodes.plans[at].kind if fields else 0, begin + row, at)
    return offsets, buf_bytes(&k.out)

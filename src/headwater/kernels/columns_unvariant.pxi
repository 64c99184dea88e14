# Spark's variants as MessagePack (common/variant, VariantUtil.java). Every offset in them may be anything.

cdef enum:
    FIELD_ANY = 0
    FIELD_STRING = 2
    FIELD_NUMBER = 3
    FIELD_DOUBLE = 4
    FIELD_BOOLEAN = 6
    FIELD_VARBINARY = 7
    FIELD_SCALAR = 8
    FIELD_DECIMAL = 9
    FIELD_UUID = 10
    FIELD_DATETIME = 11
    FIELD_INTERVAL = 12
    FIELD_ARRAY = 13
    FIELD_MAP = 14
    FIELD_FLOAT32 = 23
    FIELD_FLOAT64 = 24
    V_DECIMAL4 = 8
    V_DECIMAL8 = 9
    V_DATE = 11
    V_TIMESTAMP = 12
    V_TIMESTAMP_NTZ = 13
    V_UUID = 20

cdef struct Packing:
    Buf out
    bint tagged
    PyObject *packer

cdef struct Variant:
    bp value
    uint64_t size
    bp meta
    uint64_t meta_size
    uint32_t meta_width
    uint64_t names       # in the dictionary
    uint64_t left        # bytes that values may still take: none is read twice
    int depth


cdef class Packer:
    """What a call of the packing functions holds."""

    cdef Packing k
    cdef object untag
    cdef object error     # of `untag`

    def __cinit__(self, tagged, untag):
        memset(&self.k, 0, sizeof(Packing))
        self.k.tagged = tagged
        self.k.packer = <PyObject *> self
        self.untag = untag

    def __dealloc__(self):
        free(self.k.out.data)

    cdef int fail(self, int fault, str name, int kind, int64_t row, int column) except -1:
        if self.error is not None and not isinstance(self.error, ValueError):
            raise self.error
        if fault == FAULT_MEMORY:
            raise MemoryError()
        raise PackError(fault_text(fault, name, kind), row, column)

    cdef bytes ask(self, bp p, uint64_t size):
        """MessagePack of a string with a mark, None if it is only a string."""
        cdef bytes packed
        cdef Check ck
        if self.untag is None:
            return None
        packed = self.untag((<const char *> p)[:size].decode())
        ck.nesting = 0
        p = <bp> PyBytes_AS_STRING(packed)
        if mp_check(p, p + PyBytes_GET_SIZE(packed), &ck) != p + PyBytes_GET_SIZE(packed):
            raise ValueError("not MessagePack")
        return packed


cdef inline uint64_t load_small(bp p, uint32_t width) noexcept nogil:
    """An unsigned little-endian number."""
    cdef uint64_t value = 0
    cdef uint32_t at
    for at in range(width):
        value |= <uint64_t> p[at] << (8 * at)
    return value


cdef int unpack_variant(Packing *k, bp value, uint64_t size, bp meta, uint64_t meta_size, Buf *out) noexcept nogil:
    """0, or why not."""
    cdef Variant v
    v.value, v.size, v.meta, v.meta_size = value, size, meta, meta_size
    v.left = size
    v.depth = 0
    if meta_size < 1 or meta[0] & 0x0F != 1:
        return FAULT_VARIANT
    v.meta_width = (meta[0] >> 6) + 1
    if meta_size < 1 + <uint64_t> v.meta_width * 2:
        return FAULT_VARIANT
    v.names = load_small(meta + 1, v.meta_width)
    if (v.names + 2) * v.meta_width + 1 > meta_size:
        return FAULT_VARIANT
    return unpack_at(k, &v, 0, out)


cdef inline bint takes(Variant *v, uint64_t at, uint64_t size) noexcept nogil:
    """Do `size` bytes lie at `at`, and may they be read still?"""
    if at > v.size or size > v.size - at or size > v.left:
        return False
    v.left -= size
    return True


cdef int unpack_at(Packing *k, Variant *v, uint64_t at, Buf *out) noexcept nogil:
    cdef uint8_t head
    cdef uint64_t size
    if at >= v.size:
        return FAULT_VARIANT
    head = v.value[at]
    if head & 3 == 1:
        size = head >> 2
        if not takes(v, at, 1 + size):
            return FAULT_VARIANT
        return unpack_text(k, v.value + at + 1, size, out)
    if head & 3 == 0:
        return unpack_scalar(k, v, at, head >> 2, out)
    return unpack_container(k, v, at, head & 3 == 2, head >> 2, out)


cdef int unpack_text(Packing *k, bp p, uint64_t size, Buf *out) noexcept nogil:
    cdef int fault
    if not hw_utf8(p, size):
        return FAULT_UTF8
    if not k.tagged or size == 0 or p[0] != 33:
        return wrote(write_text(out, p, size))
    if size > 9 and memcmp(p, <const char *> b"!decimal ", 9) == 0:
        fault = write_decimal_text(p + 9, size - 9, out)
        return FAULT_TAG if fault > 0 else fault
    if size > 6 and memcmp(p, <const char *> b"!uuid ", 6) == 0:
        fault = write_uuid(p + 6, size - 6, out)
        return FAULT_TAG if fault > 0 else fault
    if size >= 8 and memcmp(p, <const char *> b"!string ", 8) == 0:
        return wrote(write_text(out, p + 8, size - 8))
    with gil:
        return unpack_tag(<Packer> k.packer, p, size, out)


cdef int unpack_tag(Packer packer, bp p, uint64_t size, Buf *out) noexcept:
    cdef bytes packed
    try:
        packed = packer.ask(p, size)
    except Exception as error:
        packer.error = error
        return FAULT_TAG
    if packed is None:
        return wrote(write_text(out, p, size))
    return wrote(write_raw(out, PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed)))


cdef int unpack_scalar(Packing *k, Variant *v, uint64_t at, uint8_t type, Buf *out) noexcept nogil:
    cdef uint64_t size = scalar_size(type)
    cdef bp p = v.value + at + 1
    cdef uint64_t length
    cdef double d
    cdef float f
    if type == V_BINARY or type == V_LONG_STR:
        if not takes(v, at, 5):
            return FAULT_VARIANT
        length = load_small(p, 4)
        if not takes(v, at + 5, length):
            return FAULT_VARIANT
        if type == V_BINARY:
            return wrote(write_binary(out, p + 4, length))
        return unpack_text(k, p + 4, length, out)
    if size == 0 or not takes(v, at, size):
        return FAULT_VARIANT
    if type == V_NULL:
        return wrote(write_byte(out, 0xC0))
    if type == V_TRUE or type == V_FALSE:
        return wrote(write_byte(out, 0xC3 if type == V_TRUE else 0xC2))
    if type <= V_INT8:
        return wrote(write_int(out, load_le(p, <uint32_t> size - 1)))
    if type == V_DOUBLE:
        memcpy(&d, p, 8)
        return wrote(write_double(out, d))
    if type == V_FLOAT:
        memcpy(&f, p, 4)
        return wrote(write_float(out, f))
    if type == V_DATE:
        return write_moment(load_le(p, 4) * 86400, 1, out)
    if type == V_TIMESTAMP or type == V_TIMESTAMP_NTZ:
        return write_moment(load_le(p, 8), 1000000, out)
    if type == V_UUID:
        return wrote(write_ext(out, EXT_UUID, p, 16))
    return unpack_decimal(p, <uint32_t> size - 2, out)


cdef inline uint64_t scalar_size(uint8_t type) noexcept nogil:
    """With its first byte; 0 for types that are not known or have a length."""
    if type <= V_FALSE:
        return 1
    if type == V_INT1:
        return 2
    if type == V_INT2:
        return 3
    if type == V_INT4 or type == V_DATE or type == V_FLOAT:
        return 5
    if type == V_INT8 or type == V_DOUBLE or type == V_TIMESTAMP or type == V_TIMESTAMP_NTZ:
        return 9
    if type == V_DECIMAL4:
        return 6
    if type == V_DECIMAL8:
        return 10
    if type == V_DECIMAL16:
        return 18
    if type == V_UUID:
        return 17
    return 0


cdef int unpack_decimal(bp p, uint32_t width, Buf *out) noexcept nogil:
    """Scale and a whole number of `width` bytes."""
    cdef uint8_t wide[16]
    cdef uint8_t digits[40]
    cdef int count, minus
    cdef uint8_t scale = p[0]
    memset(wide, 0xFF if p[width] & 0x80 else 0, 16)
    memcpy(wide, p + 1, width)
    count = hw_int128_digits(wide, digits, &minus)
    if count > 38 or scale > 38:
        return FAULT_VARIANT
    if scale == 0 and not minus and load_small(wide + 8, 8) == 0 and wide[7] & 0x80:
        # As `to_variant` writes it: above what a signed number holds.
        return wrote(write_uint(out, load_small(wide, 8)))
    return wrote(write_decimal(out, digits, count, minus, scale))


cdef int unpack_container(Packing *k, Variant *v, uint64_t at, bint is_object, uint8_t info, Buf *out) noexcept nogil:
    cdef uint32_t wide = 4 if info >> (4 if is_object else 2) & 1 else 1
    cdef uint32_t id_width = (info >> 2 & 3) + 1 if is_object else 0
    cdef uint32_t width = (info & 3) + 1
    cdef uint64_t count, heads, ids, data, child
    cdef uint64_t place
    cdef int fault
    if at + 1 + wide > v.size or v.depth >= MP_DEPTH_MAX:
        return FAULT_VARIANT
    count = load_small(v.value + at + 1, wide)
    ids = at + 1 + wide
    heads = ids + count * id_width
    data = heads + (count + 1) * width
    if not takes(v, at, data - at):
        return FAULT_VARIANT
    if not write_head(out, <uint32_t> count, 0x80 if is_object else 0x90, 0xDE if is_object else 0xDC):
        return FAULT_MEMORY
    v.depth += 1
    for place in range(count):
        if is_object:
            fault = unpack_name(v, load_small(v.value + ids + place * id_width, id_width), out)
            if fault:
                return fault
        if out.size > <size_t> OFFSET_MAX:
            return FAULT_SIZE
        child = data + load_small(v.value + heads + place * width, width)
        fault = unpack_at(k, v, child, out)
        if fault:
            return fault
    v.depth -= 1
    return 0


cdef int unpack_name(Variant *v, uint64_t id, Buf *out) noexcept nogil:
    cdef uint64_t text = 1 + (v.names + 2) * v.meta_width
    cdef uint64_t first, last
    if id >= v.names:
        return FAULT_VARIANT
    first = load_small(v.meta + 1 + (id + 1) * v.meta_width, v.meta_width)
    last = load_small(v.meta + 1 + (id + 2) * v.meta_width, v.meta_width)
    if last < first or text + last > v.meta_size:
        return FAULT_VARIANT
    if not hw_utf8(v.meta + text + first, last - first):
        return FAULT_UTF8
    return wrote(write_text(out, v.meta + text + first, last - first))


def from_variant(value, metadata, tagged=False, untag=None):
    """MessagePack of one variant."""
    cdef bp v = data_of(value)
    cdef bp m = data_of(metadata)
    cdef Packer packer = Packer(tagged, untag)
    cdef int fault = unpack_variant(
        &packer.k, v, PyBytes_GET_SIZE(value), m, PyBytes_GET_SIZE(metadata), &packer.k.out
    )
    if fault:
        packer.fail(fault, "", FIELD_ANY, -1, -1)
    return buf_bytes(&packer.k.out)

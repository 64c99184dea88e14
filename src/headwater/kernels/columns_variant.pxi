# MessagePack values as Spark's variants (common/variant: Variant.java, VariantBuilder.java).
#
# A container is written for one-byte offsets, and moved once its real widths are known: most never move.

cdef enum:
    V_NULL = 0
    V_TRUE = 1
    V_FALSE = 2
    V_INT1 = 3
    V_INT2 = 4
    V_INT4 = 5
    V_INT8 = 6
    V_DOUBLE = 7
    V_DECIMAL16 = 10
    V_FLOAT = 14
    V_BINARY = 15
    V_LONG_STR = 16
    V_SHORT_MAX = 63
    UTF8_FAIL = 0
    UTF8_REPLACE = 1
    UTF8_BINARY = 2
    # So many names are compared one by one; more of them go into a dictionary.
    NAMES_PLAIN = 12

cdef size_t VARIANT_SIZE_MAX = <size_t> 128 * 1024 * 1024
# VariantUtil.SIZE_LIMIT

cdef struct Entry:
    uint32_t name
    uint32_t offset
    uint32_t order


cdef inline int check_variant(size_t value, size_t metadata) except -1:
    if value > VARIANT_SIZE_MAX or metadata > VARIANT_SIZE_MAX:
        raise ValueError("a value takes more than 128 MiB as a variant, which Spark does not take")
    return 0


cdef inline uint8_t utf16_order(uint8_t c) noexcept nogil:
    """Turns a byte of UTF-8 so that bytes order as UTF-16 does: what lies above U+FFFF comes before U+E000."""
    if c < 0xEE:
        return c
    return c + 2 if c < 0xF0 else c - 2


cdef inline int name_compare(bp a, size_t na, bp b, size_t nb) noexcept nogil:
    cdef size_t at, n = na if na < nb else nb
    for at in range(n):
        if a[at] != b[at]:
            return 1 if utf16_order(a[at]) > utf16_order(b[at]) else -1
    return (na > nb) - (na < nb)


cdef class Variants:
    """Writes one value after the other; what their metadata needs is kept from `begin` to `metadata`."""

    cdef Buf *out
    cdef Buf names         # names of keys, one after another
    cdef Buf ends          # uint32 each: where a name ends
    cdef Buf offsets       # uint32 each: a stack of those of open containers
    cdef Buf entries       # Entry each: a stack of those of open objects
    cdef Buf scratch       # a value that is made before it is written
    cdef uint32_t name_count
    cdef dict ids
    cdef object texts
    cdef int utf8
    cdef bint tagged

    def __cinit__(self):
        self.out = NULL
        memset(&self.names, 0, sizeof(Buf))
        memset(&self.ends, 0, sizeof(Buf))
        memset(&self.offsets, 0, sizeof(Buf))
        memset(&self.entries, 0, sizeof(Buf))
        memset(&self.scratch, 0, sizeof(Buf))

    def __dealloc__(self):
        free(self.names.data)
        free(self.ends.data)
        free(self.offsets.data)
        free(self.entries.data)
        free(self.scratch.data)

    cdef void begin(self, Buf *out) noexcept:
        """The next value goes to the end of `out`."""
        self.out = out
        self.names.size = self.ends.size = self.offsets.size = self.entries.size = 0
        if self.name_count > NAMES_PLAIN:
            self.ids = {}
        self.name_count = 0

    cdef int metadata(self, Buf *out) except -1:
        """The names that were used since `begin`."""
        cdef uint32_t n = self.name_count
        cdef uint32_t width = width_of(self.names.size if self.names.size > n else n)
        cdef uint32_t at
        cdef uint8_t *p
        buf_room(out, 1 + width * (n + 2) + self.names.size)
        p = out.data + out.size
        p[0] = 1 | ((width - 1) << 6)
        store_le(p + 1, n, width)
        p += 1 + width
        store_le(p, 0, width)
        p += width
        for at in range(n):
            store_le(p, (<uint32_t *> self.ends.data)[at], width)
            p += width
        if self.names.size:
            memcpy(p, self.names.data, self.names.size)
        out.size = p + self.names.size - out.data
        return 0

    # ---- scalars

    cdef inline int head(self, uint8_t type) except -1:
        buf_room(self.out, 1)
        self.out.data[self.out.size] = type << 2
        self.out.size += 1
        return 0

    cdef int integer(self, int64_t value) except -1:
        cdef uint8_t *p
        buf_room(self.out, 9)
        p = self.out.data + self.out.size
        if -128 <= value <= 127:
            p[0] = V_INT1 << 2
            p[1] = <uint8_t> value
            self.out.size += 2
        elif -32768 <= value <= 32767:
            p[0] = V_INT2 << 2
            store_le(p + 1, <uint64_t> value, 2)
            self.out.size += 3
        elif -2147483648 <= value <= 2147483647:
            p[0] = V_INT4 << 2
            store_le(p + 1, <uint64_t> value, 4)
            self.out.size += 5
        else:
            p[0] = V_INT8 << 2
            store_le(p + 1, <uint64_t> value, 8)
            self.out.size += 9
        return 0

    cdef int unsigned_long(self, uint64_t value) except -1:
        """Above what a signed number holds: a decimal without a fraction."""
        self.head(V_DECIMAL16)
        buf_room(self.out, 17)
        memset(self.out.data + self.out.size, 0, 17)
        store_le(self.out.data + self.out.size + 1, value, 8)
        self.out.size += 17
        return 0

    cdef int text(self, bp p, size_t n) except -1:
        """A string that is UTF-8."""
        if n <= V_SHORT_MAX:
            buf_room(self.out, 1 + n)
            self.out.data[self.out.size] = <uint8_t> (n << 2 | 1)
            self.out.size += 1
        else:
            self.head(V_LONG_STR)
            buf_room(self.out, 4 + n)
            store_le(self.out.data + self.out.size, n, 4)
            self.out.size += 4
        if n:
            memcpy(self.out.data + self.out.size, p, n)
        self.out.size += n
        return 0

    cdef int python_text(self, object value) except -1:
        cdef bytes packed = value.encode("utf-8", "replace")
        return self.text(<bp> PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed))

    cdef int binary(self, bp p, size_t n) except -1:
        self.head(V_BINARY)
        buf_room(self.out, 4 + n)
        store_le(self.out.data + self.out.size, n, 4)
        if n:
            memcpy(self.out.data + self.out.size + 4, p, n)
        self.out.size += 4 + n
        return 0

    cdef int string(self, bp p, size_t n) except -1:
        """A string that may be anything."""
        cdef bytes packed
        if not hw_utf8(p, n):
            if self.utf8 == UTF8_BINARY:
                return self.binary(p, n)
            if self.utf8 == UTF8_FAIL:
                raise UnicodeError("a string is not UTF-8")
            packed = (<const char *> p)[:n].decode("utf-8", "replace").encode()
            return self.text(<bp> PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed))
        if self.tagged and n and p[0] == 33:
            packed = b"!string " + (<const char *> p)[:n]
            return self.text(<bp> PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed))
        return self.text(p, n)

    cdef int extension(self, bp p, uint32_t n, int8_t kind) except -1:
        cdef uint8_t text[DECIMAL_TEXT_MAX + 16]
        cdef int at = 0
        if kind == EXT_DECIMAL:
            if self.tagged:
                memcpy(text, <const char *> b"!decimal ", 9)
                at = 9
            return self.text(text, at + decimal_text(p, n, text + at))
        if kind == EXT_UUID:
            if self.tagged:
                memcpy(text, <const char *> b"!uuid ", 6)
                at = 6
            uuid_text(p, text + at)
            return self.text(text, at + 36)
        return self.python_text(self.texts(<int> kind, (<const char *> p)[:n]))

    # ---- containers

    cdef bp array(self, bp p, uint32_t n) except NULL:
        cdef uint32_t head = 2 if n <= 255 else 5
        cdef size_t reserved = head + <size_t> n + 1
        cdef size_t start = self.out.size
        cdef size_t base = self.offsets.size
        cdef size_t data = start + reserved
        cdef size_t at, total
        cdef uint32_t width
        cdef uint32_t *offsets
        buf_room(&self.offsets, (<size_t> n + 1) * 4)
        self.offsets.size += (<size_t> n + 1) * 4
        buf_room(self.out, reserved)
        self.out.size = data
        for at in range(n):
            (<uint32_t *> (self.offsets.data + base))[at] = <uint32_t> (self.out.size - data)
            p = self.value(p)
        total = self.out.size - data
        (<uint32_t *> (self.offsets.data + base))[n] = <uint32_t> total
        width = width_of(total)
        self.shift(data, total, head + (<size_t> n + 1) * width - reserved)
        offsets = <uint32_t *> (self.offsets.data + base)
        self.out.data[start] = <uint8_t> (((head == 5) << 4) | ((width - 1) << 2) | 3)
        store_le(self.out.data + start + 1, n, head - 1)
        self.numbers(start + head, offsets, n + 1, width)
        self.offsets.size = base
        return p

    cdef int shift(self, size_t data, size_t size, int64_t by) except -1:
        """Move the data of a container."""
        if by > 0:
            buf_room(self.out, by)
        if by:
            memmove(self.out.data + <int64_t> data + by, self.out.data + data, size)
            self.out.size = <size_t> (<int64_t> self.out.size + by)
        return 0

    cdef void numbers(self, size_t at, uint32_t *values, uint32_t n, uint32_t width) noexcept:
        cdef uint32_t k
        cdef uint8_t *p = self.out.data + at
        if width == 1:
            for k in range(n):
                p[k] = <uint8_t> values[k]
            return
        for k in range(n):
            store_le(p, values[k], width)
            p += width

    cdef bp object(self, bp p, uint32_t n) except NULL:
        """A map. Of equal names the last one stays."""
        cdef size_t start = self.out.size
        cdef size_t base = self.entries.size
        cdef size_t reserved = (2 if n <= 255 else 5) + 2 * <size_t> n + 1
        cdef size_t data = start + reserved
        cdef uint32_t at, kept, id_width, width, head, greatest = 0
        cdef size_t total
        cdef Entry *entries
        cdef uint8_t *q
        buf_room(&self.entries, <size_t> n * sizeof(Entry))
        self.entries.size += <size_t> n * sizeof(Entry)
        buf_room(self.out, reserved)
        self.out.size = data
        for at in range(n):
            kept = self.name_at(p)
            entries = <Entry *> (self.entries.data + base)
            entries[at].name = kept
            entries[at].offset = <uint32_t> (self.out.size - data)
            entries[at].order = at
            p = self.value(mp_skip(p))
        total = self.out.size - data
        entries = <Entry *> (self.entries.data + base)
        kept = self.sort(entries, n)
        for at in range(kept):
            if entries[at].name > greatest:
                greatest = entries[at].name
        id_width = width_of(greatest)
        width = width_of(total)
        head = 2 if kept <= 255 else 5
        self.shift(
            data, total, <int64_t> (head + <size_t> kept * id_width + (<size_t> kept + 1) * width) - <int64_t> reserved
        )
        q = self.out.data + start
        q[0] = <uint8_t> (((head == 5) << 6) | ((id_width - 1) << 4) | ((width - 1) << 2) | 2)
        store_le(q + 1, kept, head - 1)
        q += head
        for at in range(kept):
            store_le(q, entries[at].name, id_width)
            q += id_width
        for at in range(kept):
            store_le(q, entries[at].offset, width)
            q += width
        store_le(q, total, width)
        self.entries.size = base
        return p

    cdef inline bp name_of(self, uint32_t id, size_t *size) noexcept:
        cdef uint32_t *ends = <uint32_t *> self.ends.data
        cdef uint32_t begin = ends[id - 1] if id else 0
        size[0] = ends[id] - begin
        return self.names.data + begin

    cdef uint32_t name_id(self, bp p, size_t n) except? 0xFFFFFFFF:
        """The number of a name, a new one if it was not used before."""
        cdef uint32_t id, end
        cdef size_t size
        cdef bp known
        cdef object packed
        if self.name_count <= NAMES_PLAIN:
            for id in range(self.name_count):
                known = self.name_of(id, &size)
                if size == n and (n == 0 or memcmp(known, p, n) == 0):
                    return id
            if self.name_count == NAMES_PLAIN:
                self.ids = {}
                for id in range(self.name_count):
                    known = self.name_of(id, &size)
                    self.ids[(<const char *> known)[:size]] = id
                self.ids[(<const char *> p)[:n]] = self.name_count
        else:
            packed = (<const char *> p)[:n]
            found = self.ids.get(packed)
            if found is not None:
                return found
            self.ids[packed] = self.name_count
        buf_put(&self.names, p, n)
        end = <uint32_t> self.names.size
        buf_put(&self.ends, &end, 4)
        self.name_count += 1
        return self.name_count - 1

    cdef uint32_t name_at(self, bp p) except? 0xFFFFFFFF:
        """The number of the name that the key at p becomes."""
        cdef uint32_t n
        cdef char text[32]
        cdef uint8_t type = TYPE_OF[p[0]]
        cdef bp s
        cdef bytes packed
        if type == MP_STR:
            s = load_blob(p, &n)
            if hw_utf8(s, n):
                return self.name_id(s, n)
            if self.utf8 == UTF8_FAIL:
                raise UnicodeError("a key of a map is not UTF-8")
            packed = (<const char *> s)[:n].decode("utf-8", "replace").encode()
        elif type == MP_UINT:
            return self.name_id(<bp> text, snprintf(text, 32, "%llu", <unsigned long long> load_uint(p)))
        elif type == MP_INT:
            return self.name_id(<bp> text, snprintf(text, 32, "%lld", <long long> load_int(p)))
        elif type == MP_BOOL:
            packed = b"true" if p[0] == 0xC3 else b"false"
        elif type == MP_NIL:
            packed = b"null"
        elif type == MP_FLOAT or type == MP_DOUBLE:
            packed = repr(load_double(p)).encode()
        else:
            packed = b"0x" + (<const char *> p)[:mp_skip(p) - p].hex().encode()
        return self.name_id(<bp> PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed))

    cdef inline bint before(self, Entry *a, Entry *b) noexcept:
        """By name; of equal ones the later comes first."""
        cdef size_t na, nb
        cdef bp x, y
        if a.name == b.name:
            return a.order > b.order
        x = self.name_of(a.name, &na)
        y = self.name_of(b.name, &nb)
        return name_compare(x, na, y, nb) < 0

    cdef void sink(self, Entry *entries, uint32_t root, uint32_t n) noexcept:
        cdef uint32_t child
        cdef Entry moved
        while 2 * <uint64_t> root + 1 < n:
            child = 2 * root + 1
            if child + 1 < n and self.before(&entries[child], &entries[child + 1]):
                child += 1
            if not self.before(&entries[root], &entries[child]):
                return
            moved = entries[root]
            entries[root] = entries[child]
            entries[child] = moved
            root = child

    cdef uint32_t sort(self, Entry *entries, uint32_t n) noexcept:
        """In order, without repeated names; how many stay."""
        cdef uint32_t at, back, kept
        cdef Entry moved
        if n <= 16:
            for at in range(1, n):
                moved = entries[at]
                back = at
                while back > 0 and self.before(&moved, &entries[back - 1]):
                    entries[back] = entries[back - 1]
                    back -= 1
                entries[back] = moved
        else:
            at = n // 2
            while at > 0:
                at -= 1
                self.sink(entries, at, n)
            at = n
            while at > 1:
                at -= 1
                moved = entries[0]
                entries[0] = entries[at]
                entries[at] = moved
                self.sink(entries, 0, at)
        kept = 0
        for at in range(n):
            if kept == 0 or entries[kept - 1].name != entries[at].name:
                entries[kept] = entries[at]
                kept += 1
        return kept

    cdef bp value(self, bp p) except NULL:
        """The checked value at p to the end of `out`; behind it."""
        cdef uint8_t c = p[0]
        cdef uint8_t type = TYPE_OF[c]
        cdef uint32_t n
        cdef int8_t kind
        cdef bp body
        cdef double d
        cdef uint64_t u
        if type == MP_UINT:
            u = load_uint(p)
            if u > <uint64_t> 0x7FFFFFFFFFFFFFFF:
                self.unsigned_long(u)
            else:
                self.integer(<int64_t> u)
            return p + SIZE_OF[c]
        if type == MP_STR:
            body = load_blob(p, &n)
            self.string(body, n)
            return body + n
        if type == MP_INT:
            self.integer(load_int(p))
            return p + SIZE_OF[c]
        if type == MP_ARRAY:
            body = load_count(p, &n)
            return self.array(body, n)
        if type == MP_MAP:
            body = load_count(p, &n)
            return self.object(body, n)
        if type == MP_NIL:
            self.head(V_NULL)
            return p + 1
        if type == MP_BOOL:
            self.head(V_TRUE if c == 0xC3 else V_FALSE)
            return p + 1
        if type == MP_DOUBLE:
            self.head(V_DOUBLE)
            d = load_double(p)
            buf_put(self.out, &d, 8)
            return p + 9
        if type == MP_FLOAT:
            self.head(V_FLOAT)
            buf_room(self.out, 4)
            store_le(self.out.data + self.out.size, load_be(p + 1, 4), 4)
            self.out.size += 4
            return p + 5
        if type == MP_BIN:
            body = load_blob(p, &n)
            self.binary(body, n)
            return body + n
        body = load_ext(p, &n, &kind)
        self.extension(body, n, kind)
        return body + n


def to_variant(value, texts, utf8, tagged):
    """(value, metadata) of one MessagePack value."""
    cdef Check ck
    cdef Buf out
    cdef Buf meta
    cdef bp start = data_of(value)
    cdef Variants writer = Variants()
    memset(&out, 0, sizeof(Buf))
    memset(&meta, 0, sizeof(Buf))
    ck.nesting = 0
    if mp_check(start, start + PyBytes_GET_SIZE(value), &ck) != start + PyBytes_GET_SIZE(value):
        raise MsgPackError("not one whole value")
    writer.texts = texts
    writer.utf8 = utf8
    writer.tagged = tagged
    try:
        writer.begin(&out)
        writer.value(start)
        writer.metadata(&meta)
        check_variant(out.size, meta.size)
        return buf_bytes(&out), buf_bytes(&meta)
    finally:
        free(out.data)
        free(meta.data)

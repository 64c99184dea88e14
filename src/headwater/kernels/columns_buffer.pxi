# Bytes that grow.

cdef struct Buf:
    uint8_t *data
    size_t size
    size_t cap


cdef int buf_grow(Buf *b, size_t more) except -1:
    cdef size_t cap = b.cap * 2 if b.cap else 256
    if more > <size_t> 1 << 40:
        raise MemoryError()
    cdef uint8_t *data
    while cap - b.size < more:
        cap *= 2
    data = <uint8_t *> realloc(b.data, cap)
    if data == NULL:
        raise MemoryError()
    b.data = data
    b.cap = cap
    return 0


cdef inline int buf_room(Buf *b, size_t more) except -1:
    """At least `more` bytes behind the end."""
    if b.cap - b.size < more:
        buf_grow(b, more)
    return 0


cdef inline int buf_put(Buf *b, const void *data, size_t size) except -1:
    if size == 0:
        return 0
    buf_room(b, size)
    memcpy(b.data + b.size, data, size)
    b.size += size
    return 0


cdef inline void store_le(uint8_t *p, uint64_t value, uint32_t width) noexcept nogil:
    cdef uint32_t at
    for at in range(width):
        p[at] = <uint8_t> (value >> (8 * at))


cdef inline uint32_t width_of(uint64_t value) noexcept nogil:
    """Bytes for an unsigned number up to `value`."""
    return 1 if value <= 0xFF else 2 if value <= 0xFFFF else 3 if value <= 0xFFFFFF else 4


cdef bytes buf_bytes(Buf *b):
    return PyBytes_FromStringAndSize(<char *> b.data, b.size) if b.size else b""


cdef bytes pack_bits(uint8_t *p, Py_ssize_t count):
    """One bit for each byte, the first one lowest."""
    cdef Py_ssize_t at
    cdef bytes out = PyBytes_FromStringAndSize(NULL, (count + 7) // 8)
    cdef uint8_t *q = <uint8_t *> PyBytes_AS_STRING(out)
    memset(q, 0, (count + 7) // 8)
    for at in range(count):
        q[at >> 3] |= (p[at] != 0) << (at & 7)
    return out

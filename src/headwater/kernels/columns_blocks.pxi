# Blocks of a file, as far as they can be told without unpacking (xlog.c, xlog_fixheader_decode).

cdef enum:
    FIXHEADER = 19
    # The last byte of the magic.
    MAGIC_PLAIN_END = 0xAB
    MAGIC_ZSTD_END = 0xBA

cdef uint64_t LENGTH_MAX = <uint64_t> 2 * 1024 * 1024 * 1024


cdef bp head_number(bp p, bp end, uint64_t *value) noexcept nogil:
    """An unsigned integer within the fixheader; 32 bits of it are kept, as there."""
    if p >= end or TYPE_OF[p[0]] != MP_UINT or SIZE_OF[p[0]] > end - p:
        return NULL
    value[0] = load_uint(p) & <uint64_t> 0xFFFFFFFF
    return p + SIZE_OF[p[0]]


cdef bint block_head(bp p, bint *packed, uint64_t *length, uint32_t *crc) noexcept nogil:
    """The fixheader in the 19 bytes at p; False if it is none."""
    cdef bp end = p + FIXHEADER
    cdef uint64_t number
    cdef Check ck
    if p[0] != 0xD5 or p[1] != 0xBA or p[2] != 0x0B or (p[3] != MAGIC_PLAIN_END and p[3] != MAGIC_ZSTD_END):
        return False
    packed[0] = p[3] == MAGIC_ZSTD_END
    p = head_number(p + 4, end, length)
    if p == NULL or length[0] > LENGTH_MAX:
        return False
    p = head_number(p, end, &number)
    if p == NULL:
        return False
    p = head_number(p, end, &number)
    if p == NULL:
        return False
    crc[0] = <uint32_t> number
    ck.nesting = 0
    return p == end or mp_check(p, end, &ck) == end


def plain_rows(data, Py_ssize_t offset, Py_ssize_t end, Py_ssize_t limit):
    """The rows of whole, good blocks that are not compressed."""
    cdef Py_buffer view
    cdef Buf out
    cdef bp start, p, stop
    cdef bint packed
    cdef uint64_t length
    cdef uint32_t crc
    if limit < 1:
        raise ValueError(f"limit {limit} is not positive")
    memset(&out, 0, sizeof(Buf))
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= offset <= end <= view.len:
            raise ValueError(f"{offset}..{end} does not lie in {view.len} bytes")
        start = <bp> view.buf
        p = start + offset
        stop = start + end
        while stop - p >= FIXHEADER and block_head(p, &packed, &length, &crc) and not packed:
            if <uint64_t> (stop - p - FIXHEADER) < length or hw_crc(0, p + FIXHEADER, length) != crc:
                break
            if out.size and out.size + length > <size_t> limit:
                break
            buf_put(&out, p + FIXHEADER, length)
            p += FIXHEADER + length
        return PyBytes_FromStringAndSize(<char *> out.data, out.size) if out.size else b"", p - start
    finally:
        free(out.data)
        PyBuffer_Release(&view)


def borders(data, Py_ssize_t offset, Py_ssize_t end, Py_ssize_t step):
    """Where blocks begin, about every `step` bytes."""
    cdef Py_buffer view
    cdef bp start, p, stop
    cdef Py_ssize_t before = offset
    cdef Py_ssize_t wanted
    cdef bint packed
    cdef uint64_t length
    cdef uint32_t crc
    found = []
    if step < 1:
        raise ValueError(f"step {step} is not positive")
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= offset <= end <= view.len:
            raise ValueError(f"{offset}..{end} does not lie in {view.len} bytes")
        start = <bp> view.buf
        p = start + offset
        stop = start + end
        wanted = (offset // step + 1) * step
        while stop - p >= FIXHEADER and block_head(p, &packed, &length, &crc):
            if <uint64_t> (stop - p - FIXHEADER) < length:
                break
            if p - start >= wanted:
                found.append((before, p - start))
                wanted = ((p - start) // step + 1) * step
            before = p - start
            p += FIXHEADER + length
        return found, p - start
    finally:
        PyBuffer_Release(&view)

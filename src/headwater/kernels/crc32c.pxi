# CRC32C (Castagnoli) as xlog.c uses it: reflected 0x82F63B78, no inversion before or after
# (src/lib/crc32: crc32_calc). The instruction of x86-64 and ARMv8 where it is there, tables otherwise.

cdef extern from *:
    """
    #include <stdint.h>
    #include <stddef.h>
    #include <string.h>

    static uint32_t hw_crc_table[8][256];

    static void hw_crc_init(void) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++)
                c = c & 1 ? (c >> 1) ^ 0x82F63B78u : c >> 1;
            hw_crc_table[0][i] = c;
        }
        for (uint32_t i = 0; i < 256; i++)
            for (int k = 1; k < 8; k++)
                hw_crc_table[k][i] = (hw_crc_table[k - 1][i] >> 8) ^ hw_crc_table[0][hw_crc_table[k - 1][i] & 0xff];
    }

    static uint32_t hw_crc_soft(uint32_t crc, const uint8_t *p, size_t n) {
        while (n >= 8) {
            uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
            crc = hw_crc_table[7][low & 0xff] ^ hw_crc_table[6][(low >> 8) & 0xff]
                ^ hw_crc_table[5][(low >> 16) & 0xff] ^ hw_crc_table[4][low >> 24]
                ^ hw_crc_table[3][p[4]] ^ hw_crc_table[2][p[5]] ^ hw_crc_table[1][p[6]] ^ hw_crc_table[0][p[7]];
            p += 8;
            n -= 8;
        }
        while (n--)
            crc = hw_crc_table[0][(crc ^ *p++) & 0xff] ^ (crc >> 8);
        return crc;
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    __attribute__((target("sse4.2")))
    static uint32_t hw_crc_hard(uint32_t crc, const uint8_t *p, size_t n) {
        uint64_t c = crc, word;
        while (n >= 8) {
            memcpy(&word, p, 8);
            c = __builtin_ia32_crc32di(c, word);
            p += 8;
            n -= 8;
        }
        crc = (uint32_t)c;
        while (n--)
            crc = __builtin_ia32_crc32qi(crc, *p++);
        return crc;
    }
    static uint32_t hw_crc(uint32_t crc, const uint8_t *p, size_t n) {
        return __builtin_cpu_supports("sse4.2") ? hw_crc_hard(crc, p, n) : hw_crc_soft(crc, p, n);
    }
    #elif defined(__ARM_FEATURE_CRC32)
    #include <arm_acle.h>
    static uint32_t hw_crc(uint32_t crc, const uint8_t *p, size_t n) {
        uint64_t word;
        while (n >= 8) {
            memcpy(&word, p, 8);
            crc = __crc32cd(crc, word);
            p += 8;
            n -= 8;
        }
        while (n--)
            crc = __crc32cb(crc, *p++);
        return crc;
    }
    #else
    static uint32_t hw_crc(uint32_t crc, const uint8_t *p, size_t n) { return hw_crc_soft(crc, p, n); }
    #endif
    """
    void hw_crc_init() noexcept nogil
    uint32_t hw_crc(uint32_t crc, const uint8_t *p, size_t n) noexcept nogil


hw_crc_init()


def crc32c(data, crc=0):
    """Castagnoli, reflected 0x82F63B78, init 0 and no final xor, as xlog.c uses it. Releases the GIL."""
    cdef Py_buffer view
    cdef uint32_t value = crc
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len < 4096:
            value = hw_crc(value, <const uint8_t *> view.buf, <size_t> view.len)
        else:
            with nogil:
                value = hw_crc(value, <const uint8_t *> view.buf, <size_t> view.len)
    finally:
        PyBuffer_Release(&view)
    return value

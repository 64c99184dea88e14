# XXH64, as Spark's `xxhash64` uses it (catalyst, XXH64.java; the algorithm is github.com/Cyan4973/xxHash, doc/xxhash_spec.md).

cdef extern from *:
    """
    #define HW_P1 0x9E3779B185EBCA87ull
    #define HW_P2 0xC2B2AE3D27D4EB4Full
    #define HW_P3 0x165667B19E3779F9ull
    #define HW_P4 0x85EBCA77C2B2AE63ull
    #define HW_P5 0x27D4EB2F165667C5ull

    static inline uint64_t hw_turn(uint64_t x, int by) { return x << by | x >> (64 - by); }
    static inline uint64_t hw_word(const uint8_t *p) {
        uint64_t x;
        memcpy(&x, p, 8);
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        x = __builtin_bswap64(x);
    #endif
        return x;
    }
    static inline uint64_t hw_half(const uint8_t *p) {
        return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
    }
    static inline uint64_t hw_round(uint64_t acc, uint64_t word) { return hw_turn(acc + word * HW_P2, 31) * HW_P1; }
    static inline uint64_t hw_merge(uint64_t acc, uint64_t lane) { return (acc ^ hw_round(0, lane)) * HW_P1 + HW_P4; }

    static uint64_t hw_xxh64(const uint8_t *p, size_t n, uint64_t seed) {
        const uint8_t *end = p + n;
        uint64_t acc;
        if (n >= 32) {
            uint64_t a = seed + HW_P1 + HW_P2, b = seed + HW_P2, c = seed, d = seed - HW_P1;
            for (; end - p >= 32; p += 32) {
                a = hw_round(a, hw_word(p));
                b = hw_round(b, hw_word(p + 8));
                c = hw_round(c, hw_word(p + 16));
                d = hw_round(d, hw_word(p + 24));
            }
            acc = hw_turn(a, 1) + hw_turn(b, 7) + hw_turn(c, 12) + hw_turn(d, 18);
            acc = hw_merge(hw_merge(hw_merge(hw_merge(acc, a), b), c), d);
        } else {
            acc = seed + HW_P5;
        }
        acc += n;
        for (; end - p >= 8; p += 8) acc = hw_turn(acc ^ hw_round(0, hw_word(p)), 27) * HW_P1 + HW_P4;
        if (end - p >= 4) {
            acc = hw_turn(acc ^ hw_half(p) * HW_P1, 23) * HW_P2 + HW_P3;
            p += 4;
        }
        for (; p < end; p++) acc = hw_turn(acc ^ *p * HW_P5, 11) * HW_P1;
        acc = (acc ^ acc >> 33) * HW_P2;
        acc = (acc ^ acc >> 29) * HW_P3;
        return acc ^ acc >> 32;
    }
    """
    uint64_t hw_xxh64(const uint8_t *p, size_t n, uint64_t seed) noexcept nogil

cdef uint64_t HASH_SEED = 42


cdef int hash_fields(Asked *a, bp tuple, Buf *scratch, uint64_t *hash) noexcept nogil:
    """Of the fields that `a.key` names, as they stand; nil for one that is not there."""
    cdef uint32_t at
    cdef bp p
    scratch.size = 0
    for at in range(a.key_count):
        p = field_of(tuple, a.key[at])
        if not (write_byte(scratch, 0xC0) if p == NULL else write_raw(scratch, p, mp_skip(p) - p)):
            return FAULT_MEMORY
    hash[0] = hw_xxh64(scratch.data, scratch.size, HASH_SEED)
    return 0


def hash_tuples(offsets, data, first, count, fields=None):
    """A uint64 a tuple."""
    cdef Tuples tuples = Tuples(offsets, data, first, count)
    cdef Request request = Request(fields or (), ())
    cdef bytes out = PyBytes_FromStringAndSize(NULL, tuples.count * 8)
    cdef uint8_t *hashes = <uint8_t *> PyBytes_AS_STRING(out)
    cdef bint whole = fields is None
    cdef bp begin
    cdef bp end
    cdef uint64_t hash = 0
    cdef int64_t row = 0
    cdef int fault = 0
    with nogil:
        for row in range(tuples.count):
            if whole:
                if not tuples.at(row, &begin, &end):
                    fault = FAULT_OFFSETS
                    break
                hash = hw_xxh64(begin, end - begin, HASH_SEED)
            else:
                fault = tuples.array_at(row, &begin, &end)
                if fault == 0:
                    fault = hash_fields(&request.a, begin, &request.out, &hash)
                if fault:
                    break
            store_le(hashes + 8 * row, hash, 8)
    if fault:
        tuples.fail(fault, row)
    return out


def sum_tuples(offsets, data, first, count, fields, bits):
    """How many tuples, and the sum of their hashes, by the hash of some fields."""
    cdef Tuples tuples = Tuples(offsets, data, first, count)
    cdef Request request = Request(fields, ())
    cdef int shift = 64 - check_bits(bits)
    cdef bytes counts = bytes(8 << (64 - shift))
    cdef bytes sums = bytes(8 << (64 - shift))
    cdef uint64_t *count_of = <uint64_t *> PyBytes_AS_STRING(counts)
    cdef uint64_t *sum_of = <uint64_t *> PyBytes_AS_STRING(sums)
    cdef bp begin
    cdef bp end
    cdef uint64_t hash = 0
    cdef int64_t row = 0
    cdef int fault = 0
    with nogil:
        for row in range(tuples.count):
            fault = tuples.array_at(row, &begin, &end)
            if fault == 0:
                fault = hash_fields(&request.a, begin, &request.out, &hash)
            if fault:
                break
            hash = hash >> shift if shift < 64 else 0
            count_of[hash] += 1
            sum_of[hash] += hw_xxh64(begin, end - begin, HASH_SEED)
    if fault:
        tuples.fail(fault, row)
    return counts, sums

# Field types: which values each admits (field_def.c), and what kind of hint it has.

cdef enum:
    FT_ANY = 0
    FT_UNSIGNED = 1
    FT_STRING = 2
    FT_NUMBER = 3
    FT_DOUBLE = 4
    FT_INTEGER = 5
    FT_BOOLEAN = 6
    FT_VARBINARY = 7
    FT_SCALAR = 8
    FT_DECIMAL = 9
    FT_UUID = 10
    FT_DATETIME = 11
    FT_INTERVAL = 12
    FT_ARRAY = 13
    FT_MAP = 14
    FT_INT8 = 15
    FT_UINT64 = 22
    FT_FLOAT32 = 23
    FT_FLOAT64 = 24
    FT_COUNT = 25
    PART_MAX = 255         # index_def.h, BOX_INDEX_PART_MAX
    FIELD_MAX = 2147483647 # index_def.h, BOX_INDEX_FIELD_MAX

cdef uint16_t FT_ACCEPTS[FT_COUNT]
# field_def.c field_mp_type: bit 1 << mp_type. Extensions are in FT_ACCEPTS_EXT.

cdef uint8_t FT_ACCEPTS_EXT[FT_COUNT]
# field_def.c field_ext_type: bit 1 << type of the extension

cdef uint8_t FT_HINT[FT_COUNT]


cdef void fill_types() noexcept:
    cdef int i
    cdef int whole = (1 << MP_UINT) | (1 << MP_INT)
    cdef int number = whole | (1 << MP_FLOAT) | (1 << MP_DOUBLE)
    memset(FT_ACCEPTS, 0, sizeof(FT_ACCEPTS))
    memset(FT_ACCEPTS_EXT, 0, sizeof(FT_ACCEPTS_EXT))
    memset(FT_HINT, 0, sizeof(FT_HINT))
    FT_ACCEPTS[FT_ANY] = 0x7FF
    FT_ACCEPTS[FT_UNSIGNED] = 1 << MP_UINT
    FT_ACCEPTS[FT_STRING] = 1 << MP_STR
    FT_ACCEPTS[FT_NUMBER] = FT_ACCEPTS[FT_DOUBLE] = number
    FT_ACCEPTS[FT_INTEGER] = whole
    FT_ACCEPTS[FT_BOOLEAN] = 1 << MP_BOOL
    FT_ACCEPTS[FT_VARBINARY] = 1 << MP_BIN
    FT_ACCEPTS[FT_SCALAR] = number | (1 << MP_STR) | (1 << MP_BIN) | (1 << MP_BOOL)
    FT_ACCEPTS[FT_ARRAY] = 1 << MP_ARRAY
    FT_ACCEPTS[FT_MAP] = 1 << MP_MAP
    for i in range(FT_INT8, FT_UINT64 + 1):
        FT_ACCEPTS[i] = whole if (i - FT_INT8) % 2 == 0 else 1 << MP_UINT
        FT_HINT[i] = HINT_INT if (i - FT_INT8) % 2 == 0 else HINT_UINT
    FT_ACCEPTS[FT_FLOAT32] = 1 << MP_FLOAT
    FT_ACCEPTS[FT_FLOAT64] = 1 << MP_DOUBLE
    FT_ACCEPTS_EXT[FT_NUMBER] = FT_ACCEPTS_EXT[FT_DECIMAL] = 1 << EXT_DECIMAL
    FT_ACCEPTS_EXT[FT_SCALAR] = (1 << EXT_DECIMAL) | (1 << EXT_UUID) | (1 << EXT_DATETIME)
    FT_ACCEPTS_EXT[FT_UUID] = 1 << EXT_UUID
    FT_ACCEPTS_EXT[FT_DATETIME] = 1 << EXT_DATETIME
    FT_ACCEPTS_EXT[FT_INTERVAL] = 1 << EXT_INTERVAL
    FT_HINT[FT_UNSIGNED] = HINT_UINT
    FT_HINT[FT_INTEGER] = HINT_INT
    FT_HINT[FT_STRING] = HINT_STR
    FT_HINT[FT_NUMBER] = FT_HINT[FT_DOUBLE] = FT_HINT[FT_DECIMAL] = HINT_NUMBER
    FT_HINT[FT_FLOAT32] = FT_HINT[FT_FLOAT64] = HINT_NUMBER
    FT_HINT[FT_BOOLEAN] = HINT_BOOL
    FT_HINT[FT_VARBINARY] = HINT_BIN
    FT_HINT[FT_SCALAR] = HINT_SCALAR
    FT_HINT[FT_UUID] = HINT_UUID
    FT_HINT[FT_DATETIME] = HINT_DATETIME


fill_types()

cdef enum:
    FIELD_OK = 0
    FIELD_TYPE = 1
    FIELD_RANGE = 2


cdef int field_accepts_ext(int type, bp p) noexcept nogil:
    cdef uint32_t size
    cdef int8_t kind
    load_ext(p, &size, &kind)
    if type == FT_ANY:
        return FIELD_OK if kind > 0 else FIELD_TYPE
    return FIELD_OK if 0 < kind < 8 and FT_ACCEPTS_EXT[type] >> kind & 1 else FIELD_TYPE


cdef int sized_accepts(int type, bp p) noexcept nogil:
    """Does the integer at p fit a type of fixed size? (field_def.c, field_mp_is_in_fixed_int_range)"""
    cdef int bits = 8 << ((type - FT_INT8) >> 1)
    cdef uint64_t u
    cdef int64_t i
    if (type - FT_INT8) & 1:
        return FIELD_OK if bits == 64 or load_uint(p) >> bits == 0 else FIELD_RANGE
    if TYPE_OF[p[0]] == MP_UINT:
        u = load_uint(p)
        return FIELD_OK if u >> (bits - 1) == 0 else FIELD_RANGE
    i = load_int(p)
    i = i >> (bits - 1)
    return FIELD_OK if i == 0 or i == -1 else FIELD_RANGE


cdef inline int field_accepts(int type, bool_t nullable, bp p) noexcept nogil:
    """May a field of this type hold the value at p? (field_def.h, field_mp_type_is_compatible)"""
    cdef uint8_t mp = TYPE_OF[p[0]]
    if mp == MP_EXT:
        return field_accepts_ext(type, p)
    if not FT_ACCEPTS[type] >> mp & 1:
        return FIELD_OK if nullable and mp == MP_NIL else FIELD_TYPE
    if FT_INT8 <= type <= FT_UINT64:
        return sized_accepts(type, p)
    return FIELD_OK

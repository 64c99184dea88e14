# What every tuple of a space must look like (tuple_format.c).

ctypedef struct FieldSpec:
    uint8_t type
    bool_t nullable

cdef struct Format:
    uint32_t refs          # the TupleFormat and the spaces that use it
    uint32_t count
    uint32_t least         # fields that must be there: up to the last that is not nullable
    uint32_t exact         # exact_field_count, 0 for any
    FieldSpec *field

cdef enum:
    FORMAT_OK = 0
    FORMAT_TYPE = 1        # as FIELD_TYPE
    FORMAT_RANGE = 2       # as FIELD_RANGE
    FORMAT_COUNT = 3
    FORMAT_MISSING = 4


class FormatViolation(Exception):
    """A tuple that does not fit the format of its space; see `_native.pyi`."""

    def __init__(self, kind, field, expected, got):
        super().__init__(kind, field, expected, got)
        self.kind = kind
        self.field = field
        self.expected = expected
        self.got = got


cdef int format_check(Format *fmt, bp tuple, uint32_t *field) noexcept nogil:
    """tuple_field_map_create_plain: exact count, missing fields, then types. FORMAT_* and the first wrong field."""
    cdef uint32_t count, i
    cdef bp p = load_count(tuple, &count)
    cdef int r
    field[0] = 0
    if fmt.exact and fmt.exact != count:
        return FORMAT_COUNT
    if count < fmt.least:
        for i in range(count, fmt.least):
            if not fmt.field[i].nullable:
                field[0] = i
                return FORMAT_MISSING
    if count > fmt.count:
        count = fmt.count
    for i in range(count):
        r = field_accepts(fmt.field[i].type, fmt.field[i].nullable, p)
        if r != FIELD_OK:
            field[0] = i
            return r
        p = mp_skip(p)
    return FORMAT_OK


cdef object format_error(Format *fmt, bp tuple, int why, uint32_t field):
    cdef uint32_t count
    load_count(tuple, &count)
    if why == FORMAT_COUNT:
        return FormatViolation("count", 0, fmt.exact, count)
    if why == FORMAT_MISSING:
        return FormatViolation("missing", field, fmt.field[field].type, "")
    got = TYPE_NAMES[TYPE_OF[field_of(tuple, field)[0]]]
    return FormatViolation("type" if why == FORMAT_TYPE else "range", field, fmt.field[field].type, got)


cdef void format_unref(Format *fmt) noexcept:
    if fmt == NULL:
        return
    fmt.refs -= 1
    if fmt.refs == 0:
        free(fmt.field)
        free(fmt)


cdef int tuple_check(object tuple) except -1:
    """MsgPackError if it is not one whole valid array."""
    cdef uint32_t count
    key_begin(tuple, &count)
    return 0


cdef class TupleFormat:
    """What every tuple of a space must look like: one (FieldType, nullable) for each field from 0 on."""

    cdef Format *fmt

    def __cinit__(self, fields, exact_field_count=0):
        cdef uint32_t i
        specs = list(fields)
        if not 0 <= exact_field_count <= FIELD_MAX:
            raise ValueError(f"a field count of {exact_field_count} is not in 0..{FIELD_MAX}")
        self.fmt = <Format *> calloc(1, sizeof(Format))
        if self.fmt == NULL:
            raise MemoryError
        self.fmt.refs = 1
        self.fmt.field = <FieldSpec *> calloc(len(specs) + 1, sizeof(FieldSpec))
        if self.fmt.field == NULL:
            raise MemoryError
        self.fmt.count = <uint32_t> len(specs)
        self.fmt.exact = exact_field_count
        for i in range(self.fmt.count):
            type, nullable = specs[i]
            if not 0 <= type < FT_COUNT:
                raise ValueError(f"{type} is no field type")
            self.fmt.field[i].type = type
            self.fmt.field[i].nullable = bool(nullable)
            if not nullable:
                self.fmt.least = i + 1

    def __dealloc__(self):
        format_unref(self.fmt)

    def check(self, tuple):
        """FormatViolation for the first wrong field; MsgPackError if it is not one whole valid array."""
        cdef uint32_t field
        cdef int why
        tuple_check(tuple)
        why = format_check(self.fmt, data_of(tuple), &field)
        if why != FORMAT_OK:
            raise format_error(self.fmt, data_of(tuple), why, field)

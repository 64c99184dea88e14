# Which rows are kept.

cdef enum:
    VCLOCK_MAX = 32

cdef struct Wanted:
    bint has_range
    bint has_times
    bint all_types
    uint64_t types       # bit mask
    double begin
    double end
    int64_t low[VCLOCK_MAX]
    int64_t high[VCLOCK_MAX]


cdef inline bint is_wanted(Wanted *w, RowHead *h) noexcept nogil:
    if not w.all_types and (h.type >= 64 or not (w.types >> h.type) & 1):
        return False
    if w.has_range and (
        h.replica_id >= VCLOCK_MAX or h.lsn <= w.low[h.replica_id] or h.lsn > w.high[h.replica_id]
    ):
        return False
    return not w.has_times or w.begin <= h.timestamp < w.end


cdef class SpaceFacts:
    """What `set_spaces` told of one space."""

    cdef bytes name          # None if it was not told
    cdef uint32_t *key       # fields of the primary key, NULL if they were not told
    cdef uint32_t key_count
    cdef bint wanted
    cdef bint watched

    def __cinit__(self):
        self.key = NULL

    def __dealloc__(self):
        free(self.key)

    cdef int set_key(self, fields) except -1:
        cdef uint32_t at
        if len(fields) > 255:
            raise ValueError("a key of more than 255 fields")
        self.key = <uint32_t *> malloc((len(fields) + 1) * sizeof(uint32_t))
        if self.key == NULL:
            raise MemoryError()
        self.key_count = 0
        for at in range(<uint32_t> len(fields)):
            self.key[at] = fields[at]
        self.key_count = <uint32_t> len(fields)
        return 0


cdef class Spaces:
    """Facts of each space that was met since they were told."""

    cdef dict names
    cdef dict keys
    cdef object wanted       # None: rows of all are
    cdef object watched
    cdef dict known
    cdef SpaceFacts last
    cdef int64_t last_id

    def __init__(self):
        self.names, self.keys, self.wanted, self.watched = {}, {}, None, frozenset()
        self.forget()

    cdef int forget(self) except -1:
        self.known = {}
        self.last_id = -2
        self.last = None
        return 0

    cdef SpaceFacts at(self, int64_t space_id):
        cdef SpaceFacts found
        if space_id == self.last_id:
            return self.last
        known = self.known.get(space_id)
        found = self.learn(space_id) if known is None else known
        self.last_id = space_id
        self.last = found
        return found

    cdef SpaceFacts learn(self, int64_t space_id):
        cdef SpaceFacts found = SpaceFacts()
        found.name = self.names.get(space_id)
        if space_id in self.keys:
            found.set_key(self.keys[space_id])
        found.wanted = self.wanted is None or space_id in self.wanted
        found.watched = space_id in self.watched
        if len(self.known) >= 65536:
            # A stranger's file may name more spaces than memory holds.
            self.known = {}
        self.known[space_id] = found
        return found

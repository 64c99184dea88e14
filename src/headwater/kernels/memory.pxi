# Memory of one node: cells of one size in slabs, tuples, pages, and what is kept for read views.
#
# A slab is 16 KiB, aligned to its size, so that a cell finds its slab by its own address and needs no head of its
# own. Slabs are cut from regions of the system's memory; an empty slab serves any size next.
#
# All of this belongs to the thread that writes. It may be in a long call without the GIL (`Mx.busy`: rows of a file, of
# a master's stream), and meanwhile another thread may drop the last handle of an index, of a space or of a read view,
# be it only because garbage is collected there. What such a thread does then: it counts references of Python objects,
# which the writer does not look at in such a call; it notes dropped trees in `garbage`, which only holders of the GIL
# touch; it takes a view off the list, and the writer, reading `newest` before or after, copies a page too many at
# worst. It frees no cell: the next call of the writer does. A read view's thread only reads pages and tuples, which
# nobody changes.

cdef struct Space  # space.pxi

cdef extern from "sys/mman.h" nogil:
    void *mmap(void *addr, size_t size, int prot, int flags, int fd, int64_t offset)
    int munmap(void *addr, size_t size)
    int madvise(void *addr, size_t size, int advice)
    int PROT_READ
    int PROT_WRITE
    int MAP_PRIVATE
    int MAP_ANONYMOUS
    void *MAP_FAILED
    int MADV_DONTNEED

cdef extern from *:
    """
    #ifndef MADV_HUGEPAGE
    #define MADV_HUGEPAGE MADV_NORMAL
    #endif
    """
    int MADV_HUGEPAGE

cdef extern from *:
    """
    /* A build for address sanitizers takes every cell from malloc: docs/index.md. */
    #ifndef HEADWATER_MALLOC_CELLS
    #define HEADWATER_MALLOC_CELLS 0
    #endif
    """
    bint HEADWATER_MALLOC_CELLS

cdef enum:
    SLAB_SIZE = 16384
    SLAB_HEAD = 64
    REGION_SIZE = 1048576  # of the first region; each is twice the one before, up to 16 times this
    HUGE_SIZE = 2097152    # larger regions are aligned to this, for the sake of the address translation cache
    CELL_STEP = 8
    CELL_MAX = 1024        # larger ones come from malloc
    CELL_CLASSES = 129
    SLABS_IDLE = 64        # empty slabs whose memory is kept

cdef struct Slab:
    Slab *next             # in the list of slabs of its class with a free cell, or of empty slabs
    Slab *prev
    void *free_cell        # cells given back, linked through their first word
    uint32_t used
    uint32_t fresh         # offset of the first cell never used
    uint32_t size          # of a cell

cdef struct Region:
    Region *next
    void *base
    size_t size            # that slabs are cut from
    size_t mapped

cdef struct Tuple:
    uint32_t meta          # references | pending << 7 | epoch of birth << 8
    uint32_t size
    uint8_t data[4]

cdef enum:
    TUPLE_HEAD = 8
    TUPLE_REFS = 0x7F
    TUPLE_PENDING = 0x80   # made by a change that confirm_to has not passed
    TUPLE_EPOCH_MAX = 0xFFFFFF

cdef enum:
    LEAF_MAX = 62
    INNER_MAX = 31
    PAGE_SIZE = 1008
    HEIGHT_MAX = 16
    PAGES_IDLE = 256       # free pages kept for the next splits
    TIDY_AT_ONCE = 16384   # items dropped by the call that makes them garbage
    TIDY_A_TURN = 4096     # and by each later one

cdef struct Page:
    uint64_t birth         # epoch: a view as old or younger may see the page
    uint32_t n             # entries
    uint32_t level         # 0 for a leaf

cdef struct Leaf:
    uint64_t birth
    uint32_t n
    uint32_t level
    uint64_t hint[LEAF_MAX]
    Tuple *t[LEAF_MAX]

cdef struct Inner:
    uint64_t birth
    uint32_t n
    uint32_t level
    uint64_t hint[INNER_MAX]   # of the greatest entry under each child
    Tuple *t[INNER_MAX]        # that entry's tuple
    Page *kid[INNER_MAX]
    uint64_t card[INNER_MAX]   # entries under each child

cdef struct Retired:
    void *what
    uint64_t birth         # a view of an epoch in birth..death-1 may see it
    uint64_t death
    bool_t is_page

cdef struct Undo:
    Space *space           # NULL for a record made of calls
    Tuple *old
    Tuple *new
    uint64_t version       # of the space before the change

cdef struct Buffer:
    uint8_t *data
    size_t size
    size_t room

cdef struct Mx:
    uint32_t refs          # Python objects that point here
    bool_t busy            # the thread that writes is in a long call without the GIL: others free no memory
    # cells
    Slab *partial[CELL_CLASSES]
    Slab *idle
    uint32_t idle_count
    Region *regions
    uint8_t *region_at     # where the next slab is cut
    uint8_t *region_end
    size_t used            # bytes of live cells and large tuples
    Page *pages            # free ones, linked through their first word
    uint32_t pages_count
    # views
    uint64_t epoch
    uint64_t newest        # epoch of the newest open view, 0 without one
    uint64_t *views        # epochs of the open views, growing
    uint32_t views_count
    uint32_t views_room
    Retired *retired
    size_t retired_count
    size_t retired_room
    size_t sweep_at        # retired_sweep: next item to look at
    size_t sweep_to        # and where the next kept one goes
    uint32_t sweeps        # passes due
    # trees that nobody has any more: pages whose children, or whose tuples if the low bit is set, are not yet dropped
    uint64_t *garbage
    size_t garbage_count
    size_t garbage_room
    # undo: positions head..tail-1 in a ring
    Undo *undo
    uint64_t undo_room     # a power of two
    uint64_t head
    uint64_t tail
    uint64_t calls         # records of calls among them
    bool_t undo_enabled
    uint64_t versions      # last number given to a state of a space
    uint64_t served[8]     # requests that `run` served, by type
    # spaces by id: open addressing
    Space **spaces
    uint32_t spaces_room   # a power of two
    uint32_t spaces_count
    # journal
    uint32_t replica_id
    double timestamp
    uint64_t schema_version
    bool_t rows_enabled
    int64_t vclock[32]
    Buffer rows
    Buffer ends            # uint64 offsets after each transaction's last row
    uint64_t rows_count
    Buffer reply
    Buffer scratch


cdef inline int check_idle(Mx *mx) except -1:
    """Refuse a second thread, or a sort key, that comes while a long call is under way."""
    if mx.busy:
        raise RuntimeError("the node is being written by another call")
    return 0


cdef inline size_t cell_size(size_t size) noexcept nogil:
    return (size + CELL_STEP - 1) & ~<size_t> (CELL_STEP - 1)


cdef bint region_add(Mx *mx) noexcept nogil:
    """More memory to cut slabs from."""
    cdef size_t size = REGION_SIZE
    cdef Region *region
    cdef uint64_t step
    cdef void *p
    if mx.regions != NULL and mx.regions.size < 16 * REGION_SIZE:
        size = mx.regions.size * 2
    elif mx.regions != NULL:
        size = mx.regions.size
    region = <Region *> malloc(sizeof(Region))
    if region == NULL:
        return False
    step = HUGE_SIZE if size > HUGE_SIZE else SLAB_SIZE
    p = mmap(NULL, size + step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    if p == MAP_FAILED:
        free(region)
        return False
    region.base = p
    region.size = size
    region.mapped = size + step
    region.next = mx.regions
    mx.regions = region
    mx.region_at = <uint8_t *> ((<uint64_t> p + step - 1) & ~(step - 1))
    mx.region_end = mx.region_at + size
    if step == HUGE_SIZE:
        madvise(mx.region_at, size, MADV_HUGEPAGE)
    return True


cdef Slab *slab_new(Mx *mx, uint32_t size) noexcept nogil:
    """An empty slab for cells of `size`, first in the list of its class. NULL without memory."""
    cdef Slab *slab = mx.idle
    cdef uint32_t cls = size // CELL_STEP
    if slab != NULL:
        mx.idle = slab.next
        mx.idle_count -= 1
    else:
        if mx.region_at == mx.region_end and not region_add(mx):
            return NULL
        slab = <Slab *> mx.region_at
        mx.region_at += SLAB_SIZE
    slab.prev = NULL
    slab.next = mx.partial[cls]
    if slab.next != NULL:
        slab.next.prev = slab
    mx.partial[cls] = slab
    slab.free_cell = NULL
    slab.used = 0
    slab.fresh = SLAB_HEAD
    slab.size = size
    return slab


cdef inline void slab_unlink(Mx *mx, Slab *slab) noexcept nogil:
    if slab.prev != NULL:
        slab.prev.next = slab.next
    else:
        mx.partial[slab.size // CELL_STEP] = slab.next
    if slab.next != NULL:
        slab.next.prev = slab.prev


cdef inline void *cell_alloc(Mx *mx, uint32_t size) noexcept nogil:
    """`size` is a cell_size of at most CELL_MAX."""
    cdef Slab *slab = mx.partial[size // CELL_STEP]
    cdef void *cell
    if HEADWATER_MALLOC_CELLS:
        mx.used += size
        return malloc(size)
    if slab == NULL:
        slab = slab_new(mx, size)
        if slab == NULL:
            return NULL
    cell = slab.free_cell
    if cell != NULL:
        slab.free_cell = (<void **> cell)[0]
    else:
        cell = <uint8_t *> slab + slab.fresh
        slab.fresh += size
    slab.used += 1
    if slab.free_cell == NULL and slab.fresh + size > SLAB_SIZE:
        slab_unlink(mx, slab)
    mx.used += size
    return cell


cdef void slab_idle(Mx *mx, Slab *slab) noexcept nogil:
    """Its last cell came back: it may serve another size."""
    slab_unlink(mx, slab)
    if mx.idle_count >= SLABS_IDLE:
        madvise(<uint8_t *> slab + 4096, SLAB_SIZE - 4096, MADV_DONTNEED)
    slab.next = mx.idle
    mx.idle = slab
    mx.idle_count += 1


cdef inline void cell_free(Mx *mx, void *cell, uint32_t size) noexcept nogil:
    cdef Slab *slab = <Slab *> (<uint64_t> cell & ~<uint64_t> (SLAB_SIZE - 1))
    if HEADWATER_MALLOC_CELLS:
        mx.used -= size
        free(cell)
        return
    if slab.free_cell == NULL and slab.fresh + slab.size > SLAB_SIZE:
        slab.prev = NULL
        slab.next = mx.partial[slab.size // CELL_STEP]
        if slab.next != NULL:
            slab.next.prev = slab
        mx.partial[slab.size // CELL_STEP] = slab
    (<void **> cell)[0] = slab.free_cell
    slab.free_cell = cell
    slab.used -= 1
    mx.used -= slab.size
    if slab.used == 0 and (slab.next != NULL or slab.prev != NULL):
        slab_idle(mx, slab)


# ---- buffers ---------------------------------------------------------------------------------------


cdef bint buffer_grow(Buffer *b, size_t more) noexcept nogil:
    cdef size_t room = b.room * 2 if b.room else 4096
    cdef uint8_t *data
    while room < b.size + more:
        room *= 2
    data = <uint8_t *> realloc(b.data, room)
    if data == NULL:
        return False
    b.data = data
    b.room = room
    return True


cdef inline bint buffer_room(Buffer *b, size_t more) noexcept nogil:
    """Room for `more` bytes; False without memory."""
    return True if b.room - b.size >= more else buffer_grow(b, more)


cdef void buffer_reset(Buffer *b) noexcept nogil:
    """Empty it, and give back what one large batch took."""
    b.size = 0
    if b.room > 4194304:
        free(b.data)
        b.data = NULL
        b.room = 0

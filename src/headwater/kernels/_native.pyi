"""The contract of the kernels: `_native` (Cython) and `pure` (plain Python) both fulfil it to the letter.

`headwater.kernels` re-exports one of them; `HEADWATER_PURE=1` chooses the plain one. docs/index.md tells
the design. All byte arguments accept bytes; offsets are into that object. Nothing here decides: a kernel
answers, stops, or raises one of the exceptions below, and Python turns that into an error with a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

# ---- MessagePack ---------------------------------------------------------------------------------

def mp_next(data: bytes, offset: int = 0) -> int:
    """Offset just after the value at `offset`, checked: truncated bytes, 0xc1, extensions of a known type
    with wrong contents, and nesting above 1,000 raise MsgPackError. Iterative: depth costs no stack.
    Contents as msgpack.c msgpack_check_ext_data has them: decimal (decimal_unpack), uuid (16 bytes), error (a map whose
    key 0 is a stack of at least one error with type, file and message), datetime (8 or 16 bytes, seconds within
    ±2^31 days, nsec < 2*10^9, offset
    -720..840, zone 0..1024), interval, tuple (format id, array); at most 15 extensions inside one another."""

def mp_check_all(data: bytes, offset: int, end: int) -> int:
    """How many whole values lie in data[offset:end]; MsgPackError if they do not fill it exactly."""

def mp_compare(a: bytes, b: bytes) -> int:
    """-1, 0, 1: two scalar values in Tarantool's order of `scalar` (tuple_compare.cc mp_compare_scalar):
    nil < boolean < number (int, uint, float, double, decimal mixed exactly) < string < varbinary < uuid
    < datetime. NaN is less than every number (a signalling one less than a quiet one). Beside a decimal, a float or
    double that is not whole stands for the shortest decimal that reads back as it (repr of the double), so that double
    0.1 equals decimal 0.1 as in Tarantool; there it is cut to 15 digits, which is no total order, ours is one.
    Anything else (interval, array, map, other extensions) is not comparable: MsgPackError."""

def mp_array_fields(data: bytes, offset: int = 0) -> list[int]:
    """Offsets of the fields of the array at `offset`, and the offset after its end as the last item."""

# ---- checksums ------------------------------------------------------------------------------------

def crc32c(data: bytes | bytearray | memoryview, crc: int = 0) -> int:
    """Castagnoli, reflected 0x82F63B78, init 0 and no final xor, as xlog.c uses it. Releases the GIL."""

# ---- keys and formats -----------------------------------------------------------------------------

class KeyPart:
    """One part of an index key. Field types are `headwater.typing.FieldType`."""

    def __init__(
        self,
        field: int,
        type: int,
        nullable: bool = False,
        exclude_null: bool = False,
        sort_key: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """`sort_key` maps the UTF-8 of a string to bytes whose order is the collation's; None is bytewise order."""

class KeyDef:
    """How tuples are ordered by one index: its own parts, then (not for comparing with keys that a client
    gives) the parts of the primary key that make the order total."""

    def __init__(self, parts: Sequence[KeyPart], tail: Sequence[KeyPart] = ()) -> None: ...
    part_count: int
    def extract(self, tuple: bytes) -> bytes:
        """The key of a tuple as a MessagePack array of `part_count` values; a missing field is nil."""
    def compare(self, a: bytes, b: bytes) -> int:
        """Order of two tuples by parts and tail."""
    def compare_with_key(self, tuple: bytes, key: bytes) -> int:
        """Order of a tuple against a (maybe partial) key array."""
    def check_key(self, key: bytes, exact: bool) -> None:
        """KeyViolation when the array has too many parts, too few with `exact`, or a part of a wrong type (index.cc
        iterator_validate, exact_key_validate: nil is fine for a nullable part unless `exact`). MsgPackError if it is
        no array."""

class KeyViolation(Exception):  # noqa: N818 (the word of the contract)
    """`kind`: 'count' (too many parts, or an exact key needs all: `expected` is the count of parts of the index),
    'type', or 'range' (a sized integer that does not fit, ER_KEY_PART_VALUE_OUT_OF_RANGE); `part` is 0-based (0 for
    'count');
    `expected` a FieldType; `given` the count of parts given."""

    kind: str
    part: int
    expected: int
    given: int

class TupleFormat:
    """What every tuple of a space must look like: one (FieldType, nullable) for each field from 0 on.
    The caller has merged the field types of `_space.format` with those of the index parts."""

    def __init__(self, fields: Sequence[tuple[int, bool]], exact_field_count: int = 0) -> None: ...
    def check(self, tuple: bytes) -> None:
        """FormatViolation for the first wrong field; MsgPackError if it is not one whole valid array."""

class FormatViolation(Exception):  # noqa: N818 (the word of the contract)
    """`kind`: 'type', 'missing', 'count' or 'range' (a sized integer that does not fit, ER_FIELD_VALUE_OUT_OF_RANGE);
    `field` 0-based (0 for 'count'); `expected` a FieldType (or a count); `got` the name of what is there in Tarantool's
    words (mp_type_strs: 'unsigned', 'string', 'nil', …; '' for 'missing') or the count that is there.
    Checked in the order count, missing, then types from field 0 on (tuple_format.c tuple_field_map_create_plain)."""

    kind: str
    field: int
    expected: int
    got: str | int

class DuplicateKey(Exception):  # noqa: N818 (the word of the contract)
    """A unique index already has another tuple with this key."""
    def __init__(self, index_id: int, old: bytes, new: bytes) -> None: ...
    index_id: int
    old: bytes
    new: bytes
    offset: int
    """Raised by `apply`: where its row begins, and how many rows were taken before it. Otherwise 0."""
    rows: int

# ---- the store ------------------------------------------------------------------------------------

class MemtxIndex:
    """Ordered tuples of one index: a B+-tree with copy-on-write pages (a HASH index uses the same tree)."""

    id: int
    unique: bool
    key_def: KeyDef
    hash: bool
    """Set by the schema for a HASH index: `run` then leaves every SELECT but EQ by a full key and ALL with an empty one
    to the ordinary path. False at birth. The order is kept all the same."""
    def __len__(self) -> int: ...
    @property
    def bsize(self) -> int:
        """Bytes its pages take."""
    def get(self, key: bytes) -> bytes | None:
        """By a full key (all parts); unique indexes only."""
    def select(
        self, iterator: int, key: bytes, offset: int = 0, limit: int = 0xFFFFFFFF, after: bytes | None = None
    ) -> list[bytes]:
        """IteratorType EQ, REQ, ALL, LT, LE, GE, GT, NP, PP; ALL with a key is GE; an empty key array walks all
        (LT, LE, REQ backwards). `after` is a whole tuple: start behind it in the order of `key_def.compare`,
        whether it is still there or not. NP / PP (next / previous prefix) as in index.cc prepare_start_prefix_iterator;
        with `after` they are GT / LT behind it, and for EQ and REQ alone the key has a say then. KeyViolation
        for a key that is not of this index, ValueError for an iterator of another kind of index.
        A detached index answers nothing: ValueError."""
    def count(self, iterator: int, key: bytes) -> int: ...
    def random(self, seed: int) -> bytes | None: ...

class MemtxSpace:
    """The tuples of one space. Index 0 owns them; all indexes see every change or none."""

    id: int
    fast: bool
    """May `Memtx.run` serve it? Set by the schema: no trigger, sequence, view, recorded reads, …; false at birth."""
    local: bool
    temporary: bool
    unconfirmed: int
    """Read-only: undo records of this space that confirm_to has not passed."""
    def set_format(self, format: TupleFormat) -> None:
        """Used by the writes from now on; existing tuples are the caller's to check (see check_all)."""
    def check_all(self, format: TupleFormat) -> None:
        """FormatViolation if an existing tuple does not fit."""
    def set_access(self, token: int, bits: int) -> None:
        """Effective privilege bits of the user with auth token 0..31 (R 1, W 2), with those of universe folded in."""
    def add_index(self, index_id: int, key_def: KeyDef, unique: bool) -> MemtxIndex:
        """Build from index 0 (DuplicateKey leaves nothing behind)."""
    def detach_index(self, index_id: int) -> MemtxIndex: ...
    def attach_index(self, index: MemtxIndex) -> None:
        """Put back what detach_index gave; only valid if no tuple changed in between (undo)."""
    def index(self, index_id: int) -> MemtxIndex | None: ...
    def __len__(self) -> int: ...
    @property
    def bsize(self) -> int:
        """Sum of the lengths of its tuples."""
    def insert(self, tuple: bytes) -> None:
        """Format is checked (FormatViolation), then every unique index (DuplicateKey), then all indexes change.
        Leaves an undo record, as do all writes below."""
    def replace(self, tuple: bytes) -> bytes | None:
        """Insert or take the place of the tuple with the same primary key, which is returned. A unique secondary
        index that would lose a different tuple raises DuplicateKey."""
    def update(self, old: bytes, new: bytes) -> None:
        """`old` is there now and has the primary key of `new` (ValueError otherwise); checked like replace."""
    def delete(self, index_id: int, key: bytes) -> bytes | None:
        """By a full key of a unique index."""
    def detach_all(self) -> object:
        """Empty the space at once (truncate); the contents go into the returned handle. No undo record."""
    def attach_all(self, contents: object) -> None:
        """Put them back in place of what is there (undo of truncate)."""

class ReadView:
    """A frozen picture of some spaces. Writes go on meanwhile by copying the pages they touch."""

    def fill(self, limit: int, lsn: int, timestamp: float) -> tuple[bytes, int]:
        """The next rows as snapshot rows, space by space and by primary key: INSERT, header
        `00:02 [07:01] 03:lsn 04:tm` (lsn counts up from `lsn`, 0 is left out; group 1 for local spaces; map keys as
        xrow_header_encode orders them),
        body `82 10 ce<u32> 21 tuple`. At least one row, then until `limit` bytes are passed; with them their count.
        (b'', 0) at the end.
        Releases the GIL; may be called from another thread while the loop writes."""
    def fill_frames(self, limit: int, sync: int, timestamp: float) -> tuple[bytes, int]:
        """As `fill`, but packets without an LSN, `ce<u32> 00:02 [01:sync] [07:01] [04:tm]`: the first stage of JOIN.
        A call goes on where the one before ended."""
    def tuples(self, space_id: int) -> Iterator[bytes]: ...
    def close(self) -> None:
        """Pages and tuples that only this view kept are freed. Call it in the thread that writes."""

class Memtx:
    """Every tuple of one node, its undo log, and the compiled path for runs of plain requests. Spaces and indexes
    answer only as long as their Memtx lives: keep it."""

    replica_id: int
    """Origin written into rows. 0 until the node is registered."""
    timestamp: float
    """Written into rows; the loop sets it once a turn."""
    schema_version: int
    """Written into replies."""
    rows_enabled: bool
    """False for wal_mode none: LSNs are still counted, no row bytes are made (take_rows has nothing to give)."""
    vclock: list[int]
    """Read-only copy: component i of what is prepared, 32 numbers."""
    def set_lsn(self, replica_id: int, lsn: int) -> None: ...
    def next_lsn(self, replica_id: int) -> int:
        """Count one up and return it."""

    def add_space(self, space_id: int, local: bool = False, temporary: bool = False) -> MemtxSpace: ...
    def remove_space(self, space_id: int) -> MemtxSpace:
        """It leaves the table of `run` and `apply`; keep the handle to put it back."""
    def restore_space(self, space: MemtxSpace) -> None: ...
    def space(self, space_id: int) -> MemtxSpace | None: ...
    @property
    def bytes_used(self) -> int: ...

    # Undo: one queue for the whole node, in the order in which changes were prepared, which is the journal's.
    undo_enabled: bool
    """False during recovery: writes leave no record. A space with unconfirmed records is then not written: ValueError
    (`apply`, which never leaves one, stops)."""
    @property
    def undo_end(self) -> int:
        """Position after the newest record. Grows, and is set back by rollback_to."""
    def push_undo(self, rollback: Callable[[], None], confirm: Callable[[], None] | None = None) -> None:
        """A record made of calls: how DDL takes part. Without undo_enabled `confirm` is called at once."""
    def rollback_to(self, position: int) -> None:
        """Undo newest first down to `position`. LSNs are the journal's business, not undone here."""
    def confirm_to(self, position: int) -> None:
        """Everything before `position` is final: forget it, oldest first."""

    def open_view(self, space_ids: Sequence[int]) -> ReadView:
        """In this order."""

    # Rows on their way to the journal.
    def add_row(
        self,
        type: int,
        group_id: int,
        body: bytes,
        tsn: int = 0,
        flags: int = 0,
        replica_id: int = -1,
        lsn: int = 0,
        timestamp: float = 0.0,
    ) -> int:
        """Append one encoded row (header keys in xrow_header_encode's order, then `body`). With lsn 0 the next LSN is
        taken: of component 0 for group 1, else of `replica_id` (-1: our own). `tsn` 0: a transaction of one row;
        otherwise the header gets 08 = lsn - tsn (mod 2^64) and flags (bit 0 on the last row). Returns the LSN.
        A row with a given lsn (applied from a peer) moves the vclock of its replica_id to it."""
    @property
    def rows_pending(self) -> int:
        """Bytes of rows not yet taken."""
    def take_rows(self, apart: int = 0) -> tuple[bytes, list[int], int]:
        """(bytes, offsets after each transaction's last row, count of rows), and start anew. Of the offsets, those that
        are less than `apart` bytes behind the one told before are left out, the last one excepted."""

    # The compiled path.
    def run(self, data: bytes, offset: int, end: int, token: int, read_only: bool) -> tuple[int, bytes, int, bool]:
        """Serve whole requests from data[offset:end] as far as this path goes: SELECT (any iterator but BITS and
        spatial ones, no position, no after, no names), INSERT, REPLACE, DELETE on `fast` spaces for which `token` has
        the privilege, and PING; header without stream id; maps and their keys in the shortest form. With `read_only`
        only local and temporary spaces are written. Each is executed, replied (`struct iproto_header_bin`
        + body, DATA with dd<count>), journaled into the pending rows as an autocommit transaction, and leaves undo.
        It stops before the first request that is incomplete, malformed, not of this kind, refused or failing: the
        ordinary path takes that one from its untouched beginning. It also stops once its replies pass 16 MiB.
        A DELETE that finds nothing is journaled too, as txn_commit_stmt does (body as requested); one that finds one
        by a secondary index is journaled with the primary key (space.c space_execute_dml). Temporary spaces: no row,
        no LSN.
        Returns (offset where it stopped, replies, requests served, dirty): `dirty` says that a reply depends on a
        change that confirm_to has not passed yet (own writes included), so it must wait for the journal."""
    def take_served(self) -> tuple[int, int, int, int]:
        """How many SELECT, INSERT, REPLACE and DELETE `run` served since the last call (box.stat)."""
    def apply(self, data: bytes, offset: int, end: int, snapshot: bool) -> tuple[int, int]:
        """Recovery: apply rows `header-map body-map` of an xlog or snapshot block to `fast` spaces: INSERT, REPLACE,
        DELETE (xlog: INSERT of an existing key is DuplicateKey; rows with lsn <= vclock[replica_id] are skipped; the
        vclock moves). Keeps no undo, writes no rows. Stops before a row it cannot do, and before a whole transaction of
        several rows (key 08) if one of them is of another kind, its last row is not there, or its flags say that it is
        or waits for a synchronous one. Returns (offset where it stopped, rows taken, skipped ones included)."""

    # Replication: docs/replication.md, "What the kernels give".
    def apply_frames(self, data: bytes, offset: int, end: int) -> tuple[int, int, float]:
        """Packets of a master's stream into `fast` spaces that are neither local nor temporary: INSERT, REPLACE,
        DELETE and NOP, a transaction all or not at all, with undo (whatever undo_enabled says), and with rows for the
        journal that keep replica id, LSN, timestamp, TSN, flags and body of their origin. The vclock moves. A
        transaction whose last LSN is <= vclock[replica_id] is passed over whatever DML it holds, and so are the first
        rows of one that were seen: then its TSN is the LSN of the first row that is new. Stops before the first
        transaction that is not whole or not in order (one replica id, 1..31; LSNs grow, not always by one; TSN is the
        LSN of the first row), has another type of row, flags but COMMIT or a group, or does not fit (space, format,
        duplicate key): nothing of it is left. Never raises for bytes. Returns (offset where it stopped, rows taken,
        those passed over included, timestamp of the last of them or 0.0)."""
    def load_frames(self, data: bytes, offset: int, end: int) -> tuple[int, int]:
        """INSERT packets of the first stage of a JOIN into `fast` spaces: no undo, no rows, no vclock; LSNs mean
        nothing. Stops before a packet that is not whole, not such an INSERT, or does not fit. Returns (offset, rows
        taken)."""

# ---- the wire --------------------------------------------------------------------------------------

def frame_end(data: bytes, offset: int, end: int) -> int:
    """Offset after the packet `ce len32 …` (any MP_UINT length is accepted) at `offset`; 0 if it is not complete yet;
    MsgPackError if the length is not an unsigned integer."""

def frame_rows(rows: bytes) -> Frames:
    """Rows as they stand in a file, whole transactions, each framed as a packet `ce<u32>`, without a change.
    MsgPackError if they are none: a header that is no map, a known key of it with a value of another type, a replica id
    above 31, an LSN above 2^63 - 1, a body that is no map."""

def cut_frames(data: bytes, offset: int, end: int, rows_max: int) -> tuple[int, int, list[tuple[int, int]], float]:
    """Packets of a master's stream in data[offset:end], cut where transactions end, for who reads without a store:
    whole transactions of INSERT, REPLACE, UPDATE, DELETE, UPSERT and NOP, no further one after `rows_max` rows.
    Stops before a packet that is not whole, a transaction that is not whole or not in order or waits for others (flags
    other than COMMIT), anything with LSN 0 or replica id 0, of another type, or whose header cannot be read; raises for
    no bytes. Returns (offset where it stopped, rows, the last LSN of each replica by growing id, time of the last row).
    Bodies are not looked at."""

def renumber_frames(data: bytes, offset: int, end: int, ids: Sequence[int]) -> tuple[bytes, int]:
    """Whole packets of data[offset:end], copied, with replica id `n` of each header replaced by `ids[n]` (32 numbers,
    -1 or 1..31; ids[0] is not used). Stops before the first packet that is not whole, whose header cannot be read
    or has an id that maps to -1, that may speak of replicas in its body (RAFT, PROMOTE, DEMOTE, CONFIRM, ROLLBACK,
    errors, OK with more than `5a`), or whose body does not begin with the id of a space that is no system space.
    Returns (the packets, offset where it stopped)."""

class Frames:
    """A batch of the journal as packets (docs/replication.md). It never changes; any number of relays share it."""

    data: bytes
    """The packets one after another."""
    plain: bool
    """False when what a peer gets of a row depends on its version: RAFT, PROMOTE, DEMOTE, CONFIRM, ROLLBACK, and rows
    of group 1 with a replica id (local rows before 1.10.5)."""
    timestamp: float
    """Of the last row; 0.0 without one."""
    @property
    def last(self) -> list[tuple[int, int]]:
        """(replica id, greatest LSN of it) for each that is in it, by growing id: where a position that was before
        the batch is behind it."""
    def __len__(self) -> int:
        """Rows, those of component 0 too."""
    def pick(self, have: list[int], skip: int, own: int, own_limit: int, sync: int) -> tuple[bytes, int]:
        """(what one peer gets of it, how many rows that is). `have`: its position, 32 LSNs, moved behind the batch.
        Left out are rows with `lsn <= have[replica_id]`, rows of component 0, rows of the replicas in the bit mask
        `skip`, and rows of `own` (0: nobody) with a greater LSN than `own_limit`. If the last row of a transaction is
        left out, its flags go to the last one that stays (relay.cc, relay_process_row); if the first is, its TSN is
        the LSN of the first one that stays. `sync` other than 0 is written into each header. A row of group 1 that
        stays becomes a NOP of group 0 (relay_filter_row); what else is not plain stays as it is. Headers that change
        are encoded anew by xrow_header_encode's rules, as are those with unknown keys. `data` itself when nothing is
        left out or changed."""
    def rows(self) -> list[tuple[int, int, int, int, int, bool]]:
        """(begin, end, type, replica id, LSN, is it the last of its transaction) of each row: data[begin:end] is
        header and body, as wire.xrow.decode_row takes it; the packet begins 5 bytes before."""

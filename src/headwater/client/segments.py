"""A master's stream in segments: whole transactions, in order, each known to stay.

A machine: bytes in, segments out. What waits for a quorum is held back, with all that comes behind it, until its owner
says what becomes of it (txn_limbo.c): confirmed transactions are in a segment, rolled back ones are in none, and a
position never stands before an answer that belongs to what is before it. So the rows between two positions are the same
rows whoever sends them, and however often.

Masters before 2.6.3 do not say in a row that it waits. There the spaces decide that are synchronous, as they do in such
a server's applier (applier.cc, 2.6.0, applier_synchro_filter_tx), and the stream itself tells which those are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from headwater.errors import BoxError, Er, er
from headwater.kernels import cut_frames, frame_end
from headwater.kernels.columns import pick
from headwater.wire.constants import DML_TYPES, SYNCHRO_TYPES, Flag, Type
from headwater.wire.mpread import read_uint
from headwater.wire.msgpack import unpack
from headwater.wire.replication import decode_error, decode_relay_heartbeat
from headwater.wire.request import of_row
from headwater.wire.synchro import Synchro, decode_synchro
from headwater.wire.xrow import Row, decode_row

VClockMap = Mapping[int, int]

_WAITS = Flag.WAIT_SYNC | Flag.WAIT_ACK
_SPACE = 280
_PATIENCE = 200
"""So many rows of a transaction that is not whole are looked at one by one; the kernel takes the long ones."""
_LARGE = 4 << 20


@dataclass(frozen=True, slots=True)
class Segment:
    """Transactions one after another."""

    start: VClockMap
    """Where the one before it ended."""
    end: VClockMap
    data: bytes
    """Packets of rows, without heartbeats and the like."""
    rows: int
    timestamp: float
    """Of the last row; 0.0 if there is none."""


class _State(Enum):
    OPEN = "open"
    """Its quorum is waited for."""
    DONE = "done"
    DROPPED = "dropped"
    """Rolled back: only its numbers count."""


@dataclass(slots=True)
class _Item:
    """Part of the stream that is decided as a whole."""

    state: _State
    last: list[tuple[int, int]]
    """(replica id, LSN): where a position that was before it is behind it."""
    data: bytes = b""
    rows: int = 0
    timestamp: float = 0.0
    owner: int = 0
    """Of the queue that it waits in; 0 if it is no transaction."""
    lsn: int = 0
    """Its last one, of `owner`."""
    is_sync: bool = False
    """Waits for a quorum itself, and not only for those before it."""
    rolls_back: bool = False
    """It is a word that may have dropped those before it."""

    def leaves_doubt(self, before: bool) -> bool:
        """Would who began behind this one not know that something before it was rolled back?"""
        return self.state is _State.DROPPED or (before and not self.rolls_back)


@dataclass(slots=True)
class _Scan:
    """How far a transaction was looked at that is not whole yet."""

    size: int = 0
    """Bytes of its first packets."""
    rows: int = 0
    replica_id: int = 0
    tsn: int = 0
    lsn: int = 0
    """Of the last row."""
    is_sync: bool = False
    """Does it change a synchronous space?"""

    def add(self, row: Row, size: int) -> None:
        if row.lsn <= 0 or not row.replica_id:
            raise _broken(f"a row {{{row.replica_id}: {row.lsn}}} of type {row.type}")
        if not self.rows:
            if row.tsn != row.lsn:
                raise _broken(f"a transaction that begins with its row {{{row.replica_id}: {row.lsn}}}")
            self.replica_id, self.tsn = row.replica_id, row.tsn
        elif (row.replica_id, row.tsn) != (self.replica_id, self.tsn) or row.lsn <= self.lsn:
            raise er(Er.UNSUPPORTED, "replication", "interleaving transactions")
        self.size, self.lsn = size, row.lsn
        self.rows += 1


@dataclass(slots=True)
class _Segment:
    """One that grows."""

    last: dict[int, int] = field(default_factory=dict)
    data: list[bytes] = field(default_factory=list)
    size: int = 0
    rows: int = 0
    timestamp: float = 0.0


class Cutter:
    """The stream behind one SUBSCRIBE."""

    def __init__(
        self,
        vclock: VClockMap,
        *,
        rows_max: int = 10_000,
        bytes_max: int = 1 << 20,
        sync_spaces: Iterable[int] | None = None,
    ) -> None:
        """`rows_max`, `bytes_max`: a segment that has so much is ended; a transaction may be larger. `sync_spaces`: ids
        of those that are synchronous at `vclock`, for masters before 2.6.3; later ones say it of each row."""
        self.vclock = {int(replica_id): int(lsn) for replica_id, lsn in vclock.items() if replica_id and lsn}
        """Behind the last segment."""
        self.seen = dict(self.vclock)
        """Behind everything that was read, decided or not."""
        self.vclock_sync = 0
        """Number of the last heartbeat; it is echoed in acknowledgements."""
        self.heartbeats = 0
        self.term = 0
        self.sync_spaces = None if sync_spaces is None else set(sync_spaces)
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._rest = b""
        """What is not a whole transaction yet."""
        self._late: list[bytes] = []
        """What came behind it, while it is too long to be looked at again for every piece."""
        self._late_size = 0
        self._scan = _Scan()
        self._scan_at = _LARGE
        """A rest of this size is looked at row by row to its end."""
        self._items: deque[_Item] = deque()
        """The first of them is open, or there is none."""

    @property
    def pending(self) -> int:
        """Rows that wait for word about a quorum."""
        return sum(item.rows for item in self._items)

    @property
    def held_bytes(self) -> int:
        return len(self._rest) + self._late_size + sum(len(item.data) for item in self._items)

    def take(self, data: bytes, *, idle: bool = False) -> list[Segment]:
        """What is whole and decided now. `idle`: nothing more is on its way just now. BoxError for an error that the
        master sends, and for what it may not send."""
        if self._rest:
            self._late.append(data)
            self._late_size += len(data)
            if len(self._rest) > _LARGE and self._late_size * 4 < len(self._rest) and not idle:
                return []
            data = b"".join((self._rest, *self._late))
            self._late, self._late_size = [], 0
        self._cut(data, idle)
        return self._decided()

    def _cut(self, data: bytes, idle: bool) -> None:
        at, end = 0, len(data)
        while at < end:
            stop, rows, last, timestamp = cut_frames(data, at, end, self._rows_max)
            if rows and not self._may_wait(data, at, stop):
                self._put(_Item(_State.DONE, last, data[at:stop], rows, timestamp))
                self._scan = _Scan()
            else:
                stop = self._other(data, at, end, idle)
            if stop == at:
                break
            at = stop
        self._rest = data[at:]

    def _may_wait(self, data: bytes, at: int, stop: int) -> bool:
        """Are plain transactions perhaps none, since their master does not tell?"""
        if self.sync_spaces is None:
            return False
        return bool(self._items or pick(data[at:stop], 0, (_SPACE, *self.sync_spaces), True))

    def _put(self, item: _Item) -> None:
        for replica_id, lsn in item.last:
            self.seen[replica_id] = max(lsn, self.seen.get(replica_id, 0))
        self._items.append(item)

    # ---- what is not plain --------------------------------------------------------------------------

    def _other(self, data: bytes, at: int, end: int, idle: bool) -> int:
        """A packet or a transaction that the kernel leaves: the offset behind it, or `at` if it is not whole. Goes on
        where it stopped for the same transaction, and gives up early: most are plain and will be whole soon."""
        scan = self._scan
        to_the_end = idle or end - at >= self._scan_at
        while to_the_end or scan.rows < _PATIENCE:
            begin = at + scan.size
            after = frame_end(data, begin, end)
            if not after:
                break
            row = decode_row(data, read_uint(data, begin)[1], after, exact=True)[0]
            if row.is_error:
                raise decode_error(row)
            if not scan.rows and not row.lsn:
                self._message(row)
                return after
            scan.add(row, after - at)
            if self.sync_spaces is not None and row.type in DML_TYPES:
                scan.is_sync |= self._touches_sync(row)
            if row.is_commit:
                self._scan, self._scan_at = _Scan(), _LARGE
                self._transaction(scan, row, data[at:after])
                return after
        if to_the_end and not idle:
            self._scan_at = 2 * (end - at)
        return at

    def _message(self, row: Row) -> None:
        if row.type == Type.OK:
            self.heartbeats += 1
            self.vclock_sync = decode_relay_heartbeat(row).vclock_sync or self.vclock_sync
        elif row.type != Type.RAFT:
            raise _broken(f"a row of type {row.type} without LSN")

    def _touches_sync(self, row: Row) -> bool:
        """A row of an old master: is its space synchronous? Rows of `_space` say which are."""
        assert self.sync_spaces is not None
        request = of_row(row)
        if request.space_id == _SPACE and request.type in (Type.INSERT, Type.REPLACE) and request.tuple:
            space_id, *_, options, _ = unpack(request.tuple)[:7]
            change = self.sync_spaces.add if options.get("is_sync") else self.sync_spaces.discard
            change(space_id)
        return request.space_id in self.sync_spaces

    def _transaction(self, scan: _Scan, last: Row, data: bytes) -> None:
        position = [(last.replica_id, last.lsn)]
        if last.type in SYNCHRO_TYPES:
            self._word(decode_synchro(last), last)
            self._put(_Item(_State.DONE, position, rolls_back=last.type != Type.RAFT_CONFIRM))
            return
        waits, is_sync = bool(last.flags & _WAITS), bool(last.flags & Flag.WAIT_ACK)
        if self.sync_spaces is not None:
            is_sync = scan.is_sync
            waits = is_sync or any(item.is_sync and item.state is _State.OPEN for item in self._open(last.replica_id))
        state = _State.OPEN if waits else _State.DONE
        self._put(_Item(state, position, data, scan.rows, last.timestamp, last.replica_id, last.lsn, is_sync))

    # ---- the queue ----------------------------------------------------------------------------------

    def _word(self, said: Synchro, row: Row) -> None:
        """What becomes of transactions that wait (txn_limbo_read_confirm, txn_limbo_read_rollback,
        txn_limbo_read_promote)."""
        owner = said.queue_owner_id
        if row.type == Type.RAFT_CONFIRM:
            self._confirm(owner, said.lsn)
        elif row.type == Type.RAFT_ROLLBACK:
            self._drop(owner, said.lsn)
        else:
            self.term = max(self.term, said.term)
            self._confirm(owner, said.lsn)
            self._drop(owner, said.lsn + 1)

    def _open(self, owner: int) -> Iterator[_Item]:
        return (item for item in self._items if item.state is _State.OPEN and item.owner == owner)

    def _confirm(self, owner: int, lsn: int) -> None:
        """Numbers of one owner grow: what is behind is later."""
        for item in self._open(owner):
            if item.lsn > lsn:
                return
            item.state = _State.DONE

    def _drop(self, owner: int, lsn: int) -> None:
        for item in self._open(owner):
            if item.lsn >= lsn:
                item.state, item.data, item.rows = _State.DROPPED, b"", 0

    # ---- segments -----------------------------------------------------------------------------------

    def _decided(self) -> list[Segment]:
        """Everything up to the first that is open. One that only waits for those before it is decided with them."""
        out: list[Segment] = []
        grown = _Segment()
        in_doubt = False
        for _ in range(self._ready()):
            item = self._items.popleft()
            is_full = grown.rows + item.rows > self._rows_max or grown.size + len(item.data) > self._bytes_max
            if grown.rows and is_full and not in_doubt:
                out.append(self._end(grown))
                grown = _Segment()
            in_doubt = item.leaves_doubt(in_doubt)
            grown.last.update(item.last)
            if item.rows:
                grown.data.append(item.data)
                grown.size += len(item.data)
                grown.rows += item.rows
                grown.timestamp = item.timestamp
        if grown.last:
            out.append(self._end(grown))
        return out

    def _ready(self) -> int:
        """How many of the first items are decided. What is rolled back and the word that says so are so together, and
        in one segment: who began between them would take for confirmed what comes behind and only waits."""
        ready = 0
        in_doubt = False
        for count, item in enumerate(self._items, 1):
            if item.state is _State.OPEN and item.is_sync:
                break
            in_doubt = item.leaves_doubt(in_doubt)
            if not in_doubt:
                ready = count
        return ready

    def _end(self, grown: _Segment) -> Segment:
        start = dict(self.vclock)
        for replica_id, lsn in grown.last.items():
            self.vclock[replica_id] = max(lsn, self.vclock.get(replica_id, 0))
        return Segment(start, dict(self.vclock), b"".join(grown.data), grown.rows, grown.timestamp)


def _broken(words: str) -> BoxError:
    return er(Er.PROTOCOL, words)

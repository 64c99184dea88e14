"""An anonymous replica over one connection: the whole data as it stands, then every change (seeds 001, 003).

It is no member, has no id, and costs its master a connection and the files that it has not acknowledged yet. Works on
Tarantool from 2.3.1 on, and on Headwater. Blocking; one thread reads, and the same or another one acknowledges.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from headwater.client.link import TIMEOUT_SECONDS, WireClient
from headwater.errors import BoxError, Er, XlogGapError, er
from headwater.kernels import frame_end, mp_next
from headwater.uri import Uri
from headwater.wire.ballot import Ballot, decode_ballot
from headwater.wire.body import fields, is_map, read_vclock
from headwater.wire.constants import (
    PROTOCOL_VERSION,
    SYNCHRO_TYPES,
    VERSION_ID,
    Feature,
    Key,
    MpType,
    Type,
    version_id,
    version_of,
)
from headwater.wire.mpread import read_length, read_uint
from headwater.wire.msgpack import pack, unpack
from headwater.wire.replication import (
    ApplierHeartbeat,
    FetchSnapshot,
    Subscribe,
    SubscribeReply,
    decode_error,
    decode_subscribe_reply,
    encode_applier_heartbeat,
    encode_fetch_snapshot,
    encode_subscribe,
)
from headwater.wire.synchro import decode_raft, decode_synchro
from headwater.wire.xrow import Row, decode_row, encode_packet

VClockMap = Mapping[int, int]

KNOWS_ANONYMOUS = version_id(2, 3, 1)
ASKS_ID = version_id(2, 10, 0)
KNOWS_FETCH_BODY = version_id(2, 8, 2)
KNOWS_FILTER = version_id(2, 4, 1)
TELLS_SYNC = version_id(2, 6, 3)
"""Rows say that they wait for a quorum since."""
KNOWS_TERM = version_id(2, 11, 0)
"""Acknowledgements have term and number of the heartbeat since."""
KEEPS_FOR_ANONYMOUS = version_id(3, 3, 0)
"""Files are kept for anonymous replicas since (gc consumers)."""

_SCHEMA = 272
_META = frozenset((Type.JOIN_META, Type.JOIN_SNAPSHOT))
_FEATURES = [int(Feature.STREAMS), int(Feature.TRANSACTIONS), int(Feature.ERROR_EXTENSION), int(Feature.WATCHERS)]
"""What we tell of ourselves. Tuples are wanted as they are, without formats."""
_DUPLICATE = "duplicate connection with the same replica UUID"
"""box.cc, ReplicaConnectionGuard; box_process_subscribe before 3.0."""
_EVICTED = "the replica has connected anew"
"""replication.guests of Headwater."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where to go on in a snapshot that the server has on its disk."""

    vclock: VClockMap
    """Of the snapshot, component 0 too: it names the file."""
    number: int
    """Of the first row that is wanted."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a snapshot."""

    data: bytes
    """Whole packets."""
    rows: int
    number: int
    """Of the row behind them: with a cursor as the server numbers its rows, without one the count of them."""
    last: int
    """Offset of the last packet."""


class Picture:
    """A snapshot that is being sent."""

    def __init__(self, link: WireClient, vclock: VClockMap, *, is_numbered: bool) -> None:
        self.vclock = vclock
        """What it holds: changes behind it are asked for next. Component 0 is the server's own."""
        self.term = 0
        self.rows = 0
        """So many came."""
        self.is_whole = False
        self._link = link
        self._is_numbered = is_numbered
        self._next = 0

    def parts(self, rows_max: int = 1 << 30, patience: float = 0.0) -> Iterator[Part]:
        """INSERT rows, a part for each piece that comes, of `rows_max` rows at most. With `patience` a part without
        rows comes whenever nothing has come in time, until that has lasted for so many seconds. BoxError for an error
        that the server sends; ConnectionFailed or TimeoutError when it is gone before the end."""
        rest = b""
        heard = time.monotonic()
        while not self.is_whole:
            try:
                data = self._link.chunk()
            except TimeoutError:
                if time.monotonic() - heard >= patience:
                    raise
                yield Part(b"", 0, self._next, 0)
                continue
            heard = time.monotonic()
            data = rest + data if rest else data
            at = 0
            while True:
                rows, last, end = _inserts(data, at, rows_max)
                if rows:
                    yield self._part(data[at:end], rows, last - at)
                    at = end
                    continue
                end = frame_end(data, at, len(data))
                if not end:
                    break
                if self._message(data, at, end):
                    self._link.give_back(data[end:])
                    return
                at = end
            rest = data[at:]

    def _part(self, data: bytes, rows: int, last: int) -> Part:
        self.rows += rows
        self._next = self.rows
        if self._is_numbered:
            self._next = decode_row(data, read_uint(data, last)[1], exact=True)[0].lsn + 1
        return Part(data, rows, self._next, last)

    def _message(self, data: bytes, at: int, end: int) -> bool:
        """Something else. Is it the end?"""
        row = decode_row(data, read_uint(data, at)[1], end, exact=True)[0]
        if row.is_error:
            raise decode_error(row)
        if row.type == Type.RAFT:
            self.term = max(self.term, decode_raft(row).term)
        elif row.type in SYNCHRO_TYPES:
            self.term = max(self.term, decode_synchro(row).term)
        elif row.type == Type.OK:
            self.is_whole = True
        elif row.type not in _META:
            raise er(Er.UNKNOWN_REQUEST_TYPE, row.type)
        return self.is_whole


def is_taken(error: BoxError) -> bool:
    """Does the server say that another connection of the same UUID lives, or that one has taken this one's place?"""
    return error.code == Er.CFG and (_DUPLICATE in error.message or is_evicted(error))


def is_evicted(error: BoxError) -> bool:
    """Has another connection of the same UUID taken this one's place?"""
    return error.code == Er.CFG and _EVICTED in error.message


def is_gap(error: BoxError) -> bool:
    """Has the server removed files with rows that we asked for? Before 2.8 only the class of the error says so."""
    return isinstance(error, XlogGapError) or error.code == Er.XLOG_GAP


class AnonymousReplica:
    """One connection."""

    def __init__(self, uri: Uri, uuid: UUID, timeout: float = TIMEOUT_SECONDS) -> None:
        """ConnectionFailed if nobody answers there, BoxError if the login is refused or the server too old."""
        self.uri = uri
        self.uuid = uuid
        self._link = WireClient(uri, timeout)
        self.server_uuid = self._link.greeting.uuid
        self.version = self._link.greeting.version_id
        self.features: frozenset[int] = frozenset()
        self.server_id = 0
        """Among the members of its set, as it says when it is subscribed to."""
        try:
            self._introduce()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._link.close()

    @property
    def link(self) -> WireClient:
        """For requests, before it is a stream."""
        return self._link

    def set_timeout(self, seconds: float) -> None:
        """How long nothing may come."""
        self._link.set_timeout(seconds)

    # ---- before ---------------------------------------------------------------------------------------

    def _introduce(self) -> None:
        if self.version < KNOWS_ANONYMOUS:
            version = "{}.{}.{}".format(*version_of(self.version))
            words = (
                f"following Tarantool {version} without being a member: it serves no anonymous replicas before 2.3.1"
            )
            raise er(Er.UNSUPPORTED, "Headwater", words)
        if self.version >= ASKS_ID:
            row = self._link.ask(Type.ID, pack({int(Key.VERSION): PROTOCOL_VERSION, int(Key.FEATURES): _FEATURES}))
            for key, kind, at, end in fields(row.body, 0):
                if key == Key.FEATURES and kind == MpType.ARRAY:
                    self.features = frozenset(each for each in unpack(row.body[at:end]) if isinstance(each, int))

    @property
    def has_cursor(self) -> bool:
        """Can a snapshot be asked for from some row on?"""
        return Feature.FETCH_SNAPSHOT_CURSOR in self.features

    @property
    def must_be_told_sync(self) -> bool:
        """Must one know which spaces are synchronous, since rows do not say that they wait (`Cutter`)?"""
        return self.version < TELLS_SYNC

    @property
    def keeps_files(self) -> bool:
        """Does the server keep what we have not acknowledged, also while we are away?"""
        return self.version >= KEEPS_FOR_ANONYMOUS

    def ballot(self) -> Ballot:
        """Where the server is, and where its oldest log begins."""
        return decode_ballot(self._link.ask(Type.VOTE))

    def replicaset_uuid(self) -> UUID:
        """Of the set that the server belongs to; under either key that servers have had for it (schema 3.0.0)."""
        for name in ("replicaset_uuid", "cluster"):
            found = self.select(_SCHEMA, [name])
            if found:
                return UUID(unpack(found[0])[1])
        raise er(Er.UNSUPPORTED, str(self.uri), "replication: it does not say which replica set it belongs to")

    def select(self, space_id: int, key: list[object], limit: int = 0xFFFFFFFF) -> list[bytes]:
        """Tuples of a space by a part of its primary key."""
        body = {
            int(Key.SPACE_ID): space_id,
            int(Key.INDEX_ID): 0,
            int(Key.LIMIT): limit,
            int(Key.OFFSET): 0,
            int(Key.ITERATOR): 0 if key else 2,
            int(Key.KEY): key,
        }
        row = self._link.ask(Type.SELECT, pack(body))
        return _tuples(row.body)

    # ---- the data as it stands ------------------------------------------------------------------------

    def fetch_snapshot(self, cursor: Cursor | None = None, *, from_disk: bool = False) -> Picture:
        """Everything that the set shares. `from_disk`: the server's newest snapshot, whose rows are numbered; with a
        `cursor` one of them from some row on. Both need `has_cursor`."""
        request = FetchSnapshot(VERSION_ID, self.uuid)
        if cursor is not None:
            request.is_checkpoint_join = True
            request.checkpoint_vclock, request.checkpoint_lsn = dict(cursor.vclock), cursor.number
        elif from_disk:
            request.is_checkpoint_join = True
        row = encode_fetch_snapshot(request)
        if self.version < KNOWS_FETCH_BODY:
            row.body = b""
        self._link.send(encode_packet(row))
        answer = self._link.packet()
        if answer.is_error:
            raise decode_error(answer)
        return Picture(self._link, _vclock_of(answer), is_numbered=request.is_checkpoint_join)

    # ---- the changes ----------------------------------------------------------------------------------

    def subscribe(self, replicaset_uuid: UUID, vclock: VClockMap) -> SubscribeReply:
        """Every row after `vclock`, from now on: then `receive`. BoxError as the server refuses it; XLOG_GAP if it has
        removed rows that are asked for."""
        request = Subscribe(
            replicaset_uuid=replicaset_uuid, instance_uuid=self.uuid, vclock=vclock, version_id=VERSION_ID, is_anon=True
        )
        row = encode_subscribe(request, with_filter=self.version >= KNOWS_TERM)
        self._link.send(encode_packet(row))
        answer = self._link.packet()
        if answer.is_error:
            raise decode_error(answer)
        self.server_id = answer.replica_id
        return decode_subscribe_reply(answer)

    def receive(self) -> bytes:
        """What has come of the stream; packets need not be whole. TimeoutError when nothing came for too long."""
        return self._link.chunk()

    def acknowledge(self, vclock: VClockMap, *, term: int = 0, vclock_sync: int = 0, timestamp: float = 0.0) -> None:
        """Everything up to here is safe on our side: the server may remove files that hold nothing else. To be said
        every second or so, news or not, or the server drops us (relay.cc, replication_disconnect_timeout)."""
        knows = self.version >= KNOWS_TERM
        heartbeat = ApplierHeartbeat(vclock, term if knows else None, vclock_sync if knows else 0)
        self._link.send(encode_packet(encode_applier_heartbeat(heartbeat, timestamp)))


def _inserts(data: bytes, at: int, rows_max: int) -> tuple[int, int, int]:
    """The run of INSERT packets at `at`: how many, where the last one begins, where they end. Headers begin with the
    type, as all servers write them; another one is looked through."""
    size, rows, last = len(data), 0, at
    while rows < rows_max:
        end = frame_end(data, at, size)
        if not end:
            break
        begin = at + 5
        is_plain = data[at] == 0xCE and data[begin + 1] == Key.REQUEST_TYPE
        if (data[begin + 2] if is_plain else _type_of(data, at, end)) != Type.INSERT:
            break
        last, at, rows = at, end, rows + 1
    return rows, last, at


def _type_of(data: bytes, at: int, end: int) -> int:
    return decode_row(data, read_uint(data, at)[1], end, exact=True)[0].type


def _vclock_of(row: Row) -> dict[int, int]:
    """All of it: component 0 is needed where a snapshot is asked for by name."""
    for key, _, at, _ in fields(row.body, 0) if is_map(row.body) else ():
        if key == Key.VCLOCK:
            return read_vclock(row.body, at, ignore0=False)
    raise er(Er.INVALID_MSGPACK, "packet body")


def _tuples(body: bytes) -> list[bytes]:
    if not is_map(body):
        raise BoxError(Er.INVALID_MSGPACK, "packet body")
    for key, _, at, _ in fields(body, 0):
        if key == Key.DATA:
            count, at = read_length(body, at)
            out = []
            for _ in range(count):
                end = mp_next(body, at)
                out.append(body[at:end])
                at = end
            return out
    return []

"""Requests and answers of replication as values, and their rows (xrow.c, xrow_encode_replication_request and kin).

An encoder leaves out what is None or empty where 3.x does; a decoder skips what it does not know, and refuses a known
key with a wrong value in 3.x's words. See docs/formats/replication.md for who sends what when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from headwater.errors import BoxError
from headwater.typing import VCLOCK_MAX
from headwater.wire.body import (
    NIL_UUID,
    Malformed,
    fields,
    invalid,
    is_map,
    pack_uuid,
    pack_vclock,
    read_bool,
    read_name,
    read_number,
    read_uuid,
    read_vclock,
)
from headwater.wire.constants import ERROR_BIT, FEATURES, PROTOCOL_VERSION, Feature, Key, MpType, Type
from headwater.wire.mperror import unpack_stack
from headwater.wire.mpread import KIND, read_length, read_text, read_uint
from headwater.wire.mpwrite import pack_array_head, pack_bool, pack_map_head, pack_str, pack_text, pack_uint
from headwater.wire.xrow import Row

_U32 = (1 << 32) - 1
VClockMap = Mapping[int, int]


@dataclass(slots=True)
class Join:
    """A new replica asks for everything and for an id."""

    instance_uuid: UUID = NIL_UUID
    instance_name: str = ""
    version_id: int = 0
    """0 (older than 2.7.3): the peer does not know the meta stage."""


@dataclass(slots=True)
class FetchSnapshot:
    """An anonymous replica asks for everything and for no id."""

    version_id: int = 0
    instance_uuid: UUID = NIL_UUID
    is_checkpoint_join: bool = False
    checkpoint_vclock: dict[int, int] | None = None
    checkpoint_lsn: int = 0


@dataclass(slots=True)
class Register:
    """An anonymous replica asks for an id."""

    instance_uuid: UUID = NIL_UUID
    instance_name: str = ""
    vclock: VClockMap = field(default_factory=dict)


@dataclass(slots=True)
class Subscribe:
    """A replica asks for all rows after its vclock, for ever."""

    replicaset_uuid: UUID = NIL_UUID
    replicaset_name: str = ""
    instance_uuid: UUID = NIL_UUID
    instance_name: str = ""
    vclock: VClockMap = field(default_factory=dict)
    version_id: int = 0
    is_anon: bool = False
    id_filter: frozenset[int] = frozenset()
    """Rows of these replicas are not wanted: the peer gets them from elsewhere."""


@dataclass(slots=True)
class SubscribeReply:
    replicaset_uuid: UUID = NIL_UUID
    replicaset_name: str = ""
    vclock: VClockMap = field(default_factory=dict)


@dataclass(slots=True)
class RelayHeartbeat:
    """Master to replica: type OK, its own id in the header."""

    vclock_sync: int = 0
    """Counts heartbeats from 1; the replica echoes it. 0 and absent before 2.11."""


@dataclass(slots=True)
class ApplierHeartbeat:
    """Replica to master: how far it has written."""

    vclock: VClockMap = field(default_factory=dict)
    term: int | None = 0
    """None leaves it out, as peers up to 2.10 do."""
    vclock_sync: int = 0


# ---- writing --------------------------------------------------------------------------------------


def _body(pairs: list[bytes]) -> bytes:
    return pack_map_head(len(pairs)) + b"".join(pairs)


def _uuid(key: Key, uuid: UUID) -> list[bytes]:
    return [pack_uint(key) + pack_uuid(uuid)]


def _name(key: Key, name: str) -> list[bytes]:
    return [pack_uint(key) + pack_text(name)] if name else []


def _vclock(vclock: VClockMap, *, ignore0: bool = True) -> list[bytes]:
    return [pack_uint(Key.VCLOCK) + pack_vclock(vclock, ignore0=ignore0)]


def _number(key: Key, value: int) -> list[bytes]:
    return [pack_uint(key) + pack_uint(value)]


def _version(version: int) -> list[bytes]:
    """Left out when 0, as replicas do that know nothing of it."""
    return _number(Key.SERVER_VERSION, version) if version else []


def encode_join(request: Join) -> Row:
    pairs = _uuid(Key.INSTANCE_UUID, request.instance_uuid) + _name(Key.INSTANCE_NAME, request.instance_name)
    return Row(Type.JOIN, body=_body(pairs + _version(request.version_id)))


def encode_fetch_snapshot(request: FetchSnapshot) -> Row:
    """With a cursor (keys 62 to 64) if `is_checkpoint_join`; the open 3.x never asks so."""
    pairs = _uuid(Key.INSTANCE_UUID, request.instance_uuid) + _version(request.version_id)
    if request.is_checkpoint_join:
        pairs += [pack_uint(Key.IS_CHECKPOINT_JOIN) + pack_bool(True)]
        if request.checkpoint_vclock is not None:
            packed = pack_vclock(request.checkpoint_vclock, ignore0=False)
            pairs += [pack_uint(Key.CHECKPOINT_VCLOCK) + packed]
            pairs += _number(Key.CHECKPOINT_LSN, request.checkpoint_lsn)
    return Row(Type.FETCH_SNAPSHOT, body=_body(pairs))


def encode_register(request: Register) -> Row:
    pairs = _uuid(Key.INSTANCE_UUID, request.instance_uuid) + _name(Key.INSTANCE_NAME, request.instance_name)
    return Row(Type.REGISTER, body=_body(pairs + _vclock(request.vclock)))


def encode_subscribe(request: Subscribe, *, with_anon: bool = True, with_filter: bool = True) -> Row:
    """Older masters are not sent all of it."""
    ids = sorted(request.id_filter)
    pairs = (
        _uuid(Key.REPLICASET_UUID, request.replicaset_uuid)
        + _name(Key.REPLICASET_NAME, request.replicaset_name)
        + _uuid(Key.INSTANCE_UUID, request.instance_uuid)
        + _name(Key.INSTANCE_NAME, request.instance_name)
        + _vclock(request.vclock)
        + _version(request.version_id)
    )
    if with_anon:
        pairs.append(pack_uint(Key.REPLICA_ANON) + pack_bool(request.is_anon))
    if with_filter:
        pairs.append(pack_uint(Key.ID_FILTER) + pack_array_head(len(ids)) + b"".join(map(pack_uint, ids)))
    return Row(Type.SUBSCRIBE, body=_body(pairs))


def encode_subscribe_reply(reply: SubscribeReply, replica_id: int) -> Row:
    pairs = (
        _uuid(Key.REPLICASET_UUID, reply.replicaset_uuid)
        + _name(Key.REPLICASET_NAME, reply.replicaset_name)
        + _vclock(reply.vclock)
    )
    return Row(Type.OK, replica_id=replica_id, body=_body(pairs))


def encode_vclock(vclock: VClockMap, *, ignore0: bool = True) -> Row:
    """OK with a vclock: how the stages of JOIN begin and end."""
    return Row(Type.OK, body=_body(_vclock(vclock, ignore0=ignore0)))


def encode_vote() -> Row:
    return Row(Type.VOTE)


def encode_type(type_: Type) -> Row:
    """JOIN_META and JOIN_SNAPSHOT have nothing but their type."""
    return Row(type_)


def encode_relay_heartbeat(heartbeat: RelayHeartbeat, replica_id: int, timestamp: float = 0.0) -> Row:
    body = _body(_number(Key.VCLOCK_SYNC, heartbeat.vclock_sync)) if heartbeat.vclock_sync else b""
    return Row(Type.OK, replica_id=replica_id, timestamp=timestamp, body=body)


def encode_applier_heartbeat(heartbeat: ApplierHeartbeat, timestamp: float = 0.0) -> Row:
    pairs = _vclock(heartbeat.vclock)
    if heartbeat.term is not None:
        pairs += _number(Key.TERM, heartbeat.term)
    if heartbeat.vclock_sync:
        pairs += _number(Key.VCLOCK_SYNC, heartbeat.vclock_sync)
    return Row(Type.OK, timestamp=timestamp, body=_body(pairs))


def encode_id(*, remaps: bool = False) -> Row:
    """What an applier asks first of a peer of 2.10 or newer (xrow_encode_id). It needs no cursor for snapshots.
    One that `remaps` reads tuples of `_cluster` over this connection, and wants them as they are, without formats."""
    wanted = FEATURES - {Feature.FETCH_SNAPSHOT_CURSOR}
    if remaps:
        wanted = wanted - {Feature.DML_TUPLE_EXTENSION} | {Feature.REPLICA_IDS}
    numbers = sorted(wanted)
    features = pack_array_head(len(numbers)) + b"".join(map(pack_uint, numbers))
    return Row(Type.ID, body=_body([*_number(Key.VERSION, PROTOCOL_VERSION), pack_uint(Key.FEATURES) + features]))


def encode_auth(user: str, method: str, scramble: bytes) -> Row:
    """AUTH with the scramble as a string, as appliers send it (xrow_encode_auth)."""
    credentials = pack_array_head(2) + pack_text(method) + pack_str(scramble)
    return Row(Type.AUTH, body=_body([*_name(Key.USER_NAME, user), pack_uint(Key.TUPLE) + credentials]))


def encode_watch(key: str, type_: Type = Type.WATCH) -> Row:
    """WATCH, UNWATCH or WATCH_ONCE of a key (xrow_encode_watch_key)."""
    return Row(type_, body=_body([pack_uint(Key.EVENT_KEY) + pack_text(key)]))


# ---- reading --------------------------------------------------------------------------------------


def _read_filter(body: bytes, at: int) -> frozenset[int]:
    if KIND[body[at]] != MpType.ARRAY:
        raise Malformed
    count, at = read_length(body, at)
    ids = set()
    for _ in range(count):
        if KIND[body[at]] != MpType.UINT:
            raise Malformed
        id_, at = read_uint(body, at)
        if id_ >= VCLOCK_MAX:
            raise Malformed
        ids.add(id_)
    return frozenset(ids)


def _read_version(body: bytes, at: int) -> int:
    return read_number(body, at) & _U32


def _read_whole_vclock(body: bytes, at: int) -> dict[int, int]:
    return read_vclock(body, at, ignore0=False)


_READERS: dict[int, tuple[str, Callable[[bytes, int], Any], str]] = {
    Key.REPLICASET_UUID: ("replicaset_uuid", read_uuid, "replicaset UUID"),
    Key.REPLICASET_NAME: ("replicaset_name", read_name, "invalid REPLICASET_NAME"),
    Key.INSTANCE_UUID: ("instance_uuid", read_uuid, "instance UUID"),
    Key.INSTANCE_NAME: ("instance_name", read_name, "invalid INSTANCE_NAME"),
    Key.VCLOCK: ("vclock", read_vclock, "invalid VCLOCK"),
    Key.SERVER_VERSION: ("version_id", _read_version, "invalid VERSION"),
    Key.REPLICA_ANON: ("is_anon", read_bool, "invalid REPLICA_ANON flag"),
    Key.ID_FILTER: ("id_filter", _read_filter, "invalid ID_FILTER"),
    Key.IS_CHECKPOINT_JOIN: ("is_checkpoint_join", read_bool, "invalid IS_CHECKPOINT_JOIN"),
    Key.CHECKPOINT_VCLOCK: ("checkpoint_vclock", _read_whole_vclock, "invalid CHECKPOINT_VCLOCK"),
    Key.CHECKPOINT_LSN: ("checkpoint_lsn", read_number, "invalid CHECKPOINT_LSN"),
}
"""Key → field, reader, and the words of the error (xrow_decode_replication_request)."""


@dataclass(slots=True)
class _Position:
    """A packet that is nothing but a vclock."""

    vclock: VClockMap = field(default_factory=dict)


M = TypeVar("M", Join, FetchSnapshot, Register, Subscribe, SubscribeReply, _Position)


def _decode(row: Row, message: M) -> M:
    """Fill those fields of a message that the body has."""
    if not is_map(row.body):
        raise invalid("request body")
    for key, _, at, _ in fields(row.body, 0):
        name, read, words = _READERS.get(key, ("", None, ""))
        if read is None or name not in type(message).__slots__:
            continue
        try:
            setattr(message, name, read(row.body, at))
        except Malformed:
            raise invalid(words) from None
    return message


def decode_join(row: Row) -> Join:
    return _decode(row, Join())


def decode_fetch_snapshot(row: Row) -> FetchSnapshot:
    """Peers before 3.0 send no body."""
    return _decode(row, FetchSnapshot()) if row.body else FetchSnapshot()


def decode_register(row: Row) -> Register:
    return _decode(row, Register())


def decode_subscribe(row: Row) -> Subscribe:
    return _decode(row, Subscribe())


def decode_subscribe_reply(row: Row) -> SubscribeReply:
    return _decode(row, SubscribeReply())


def decode_vclock(row: Row) -> dict[int, int]:
    """Without component 0."""
    return dict(_decode(row, _Position()).vclock)


def decode_relay_heartbeat(row: Row) -> RelayHeartbeat:
    heartbeat = RelayHeartbeat()
    if not row.body:
        return heartbeat
    if not is_map(row.body):
        raise invalid("request body")
    for key, kind, at, _ in fields(row.body, 0):
        if key == Key.VCLOCK_SYNC:
            if kind != MpType.UINT:
                raise invalid("invalid vclock sync")
            heartbeat.vclock_sync = read_uint(row.body, at)[0]
    return heartbeat


def decode_applier_heartbeat(row: Row) -> ApplierHeartbeat:
    heartbeat = ApplierHeartbeat()
    if not is_map(row.body):
        raise invalid("request body")
    for key, _, at, _ in fields(row.body, 0):
        words = {Key.VCLOCK: "vclock", Key.VCLOCK_SYNC: "vclock sync", Key.TERM: "term"}.get(key)  # type: ignore[call-overload]
        try:
            if key == Key.VCLOCK:
                heartbeat.vclock = read_vclock(row.body, at)
            elif key == Key.VCLOCK_SYNC:
                heartbeat.vclock_sync = read_number(row.body, at)
            elif key == Key.TERM:
                heartbeat.term = read_number(row.body, at)
        except Malformed:
            raise invalid(f"invalid {words}") from None
    return heartbeat


def decode_error(row: Row) -> BoxError:
    """The error that a peer answered, class and stack rebuilt; one without a stack is a ClientError of the code in
    its type (xrow_decode_error)."""
    code = row.type & (ERROR_BIT - 1)
    error = BoxError(code, "")
    if not is_map(row.body):
        return error
    has_stack = False
    for key, kind, at, _ in fields(row.body, 0):
        if key == Key.ERROR_24 and kind == MpType.STR and not has_stack:
            error = BoxError(code, read_text(row.body, at)[0])
        elif key == Key.ERROR:
            try:
                error, has_stack = unpack_stack(row.body, at)[0], True
            except BoxError:
                return BoxError(code, "")
    return error

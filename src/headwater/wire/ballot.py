"""The ballot: what an instance tells everyone about itself before any login, so that a leader can be chosen
(xrow.c, mp_encode_ballot and mp_decode_ballot). Answer to VOTE, and value of the watched key `internal.ballot`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from headwater.kernels import mp_next
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
    read_uuid,
    read_vclock,
)
from headwater.wire.constants import BallotKey, Key, MpType
from headwater.wire.mpread import KIND, read_length
from headwater.wire.mpwrite import pack_array_head, pack_bool, pack_map_head, pack_text, pack_uint
from headwater.wire.xrow import Row


@dataclass(frozen=True, slots=True)
class Ballot:
    """Defaults are those of a VOTE reply in which a field is absent (xrow_decode_ballot)."""

    is_ro_cfg: bool = False
    """Is it read-only by configuration?"""
    is_ro: bool = False
    """Is it read-only for any reason? An instance that is not booted must say so: a 2.11 or newer peer waits for
    ever for one that is neither booted nor read-only."""
    is_anon: bool = False
    is_booted: bool = True
    vclock: Mapping[int, int] = field(default_factory=dict)
    gc_vclock: Mapping[int, int] = field(default_factory=dict)
    """Where its oldest log begins."""
    can_lead: bool = False
    bootstrap_leader_uuid: UUID = NIL_UUID
    instance_name: str = ""
    registered_replica_uuids: tuple[UUID, ...] = ()


def encode_ballot(ballot: Ballot) -> bytes:
    """The map `{BALLOT: {…}}` in the order of mp_encode_ballot."""
    uuids = ballot.registered_replica_uuids
    pairs = [
        pack_uint(BallotKey.IS_RO_CFG) + pack_bool(ballot.is_ro_cfg),
        pack_uint(BallotKey.IS_RO) + pack_bool(ballot.is_ro),
        pack_uint(BallotKey.IS_ANON) + pack_bool(ballot.is_anon),
        pack_uint(BallotKey.IS_BOOTED) + pack_bool(ballot.is_booted),
        pack_uint(BallotKey.VCLOCK) + pack_vclock(ballot.vclock),
        pack_uint(BallotKey.GC_VCLOCK) + pack_vclock(ballot.gc_vclock),
        pack_uint(BallotKey.CAN_LEAD) + pack_bool(ballot.can_lead),
        pack_uint(BallotKey.BOOTSTRAP_LEADER_UUID) + pack_uuid(ballot.bootstrap_leader_uuid),
        pack_uint(BallotKey.INSTANCE_NAME) + pack_text(ballot.instance_name) if ballot.instance_name else b"",
        pack_uint(BallotKey.REGISTERED_REPLICA_UUIDS) + pack_array_head(len(uuids)) + b"".join(map(pack_uuid, uuids)),
    ]
    present = [pair for pair in pairs if pair]
    return pack_map_head(1) + pack_uint(Key.BALLOT) + pack_map_head(len(present)) + b"".join(present)


def decode_ballot(row: Row) -> Ballot:
    """From the answer to VOTE; absent fields have their defaults. BoxError INVALID_MSGPACK 'packet body'."""
    return _decode(row.body, Ballot())[0]


def decode_ballot_event(value: bytes, before: Ballot) -> Ballot | None:
    """From the checked value of an event; absent fields keep what they had. None if it says nothing at all, as from
    an instance that is not configured yet (xrow_decode_ballot_event)."""
    ballot, says_something = _decode(value, before)
    return ballot if says_something else None


def _decode(body: bytes, ballot: Ballot) -> tuple[Ballot, bool]:
    """The ballot with what the body says, and whether it says more than a name."""
    changes: dict[str, object] = {}
    try:
        if not is_map(body):
            raise Malformed
        at = _find(body)
        if at is None:
            return ballot, False
        if KIND[body[at]] != MpType.MAP:
            raise Malformed
        for key, _, value, _ in fields(body, at):
            name = _NAMES.get(key)
            if name is not None:
                changes[name] = _read(key, body, value)
    except Malformed:
        raise invalid("packet body") from None
    return replace(ballot, **changes), bool(changes.keys() - {"instance_name"})  # type: ignore[arg-type]


def _find(body: bytes) -> int | None:
    """Offset of the value under BALLOT."""
    for key, _, at, _ in fields(body, 0):
        if key == Key.BALLOT:
            return at
    return None


_NAMES = {int(key): key.name.lower() for key in BallotKey}


def _read(key: int, body: bytes, at: int) -> object:
    if key in (BallotKey.VCLOCK, BallotKey.GC_VCLOCK):
        return read_vclock(body, at)
    if key == BallotKey.BOOTSTRAP_LEADER_UUID:
        return read_uuid(body, at)
    if key == BallotKey.INSTANCE_NAME:
        return read_name(body, at)
    if key == BallotKey.REGISTERED_REPLICA_UUIDS:
        return _read_uuids(body, at)
    return read_bool(body, at)


def _read_uuids(body: bytes, at: int) -> tuple[UUID, ...]:
    if KIND[body[at]] != MpType.ARRAY:
        raise Malformed
    count, at = read_length(body, at)
    if count >= VCLOCK_MAX:
        raise Malformed
    uuids = []
    for _ in range(count):
        uuids.append(read_uuid(body, at))
        at = mp_next(body, at)
    return tuple(uuids)

"""Bodies of rows about agreement: RAFT, and CONFIRM, ROLLBACK, PROMOTE, DEMOTE of the queue of synchronous
transactions (xrow.c, xrow_encode_raft, xrow_encode_synchro and their decoders)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.errors import Er, er
from headwater.wire.body import Malformed, fields, invalid, is_map, pack_vclock, read_bool, read_number, read_vclock
from headwater.wire.constants import KEY_MAX, KEY_TYPE, SYNCHRO_TYPES, Key, RaftKey, Type
from headwater.wire.mpwrite import pack_bool, pack_map_head, pack_uint
from headwater.wire.xrow import Row

_U32 = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class RaftMessage:
    """State of the election on one node: as a message to peers, or as the row that persists term and vote."""

    term: int = 0
    vote: int = 0
    """Id that got this node's vote in `term`, 0 for nobody."""
    state: int = 0
    """RaftState; 0 in the persistent row."""
    leader_id: int = 0
    is_leader_seen: bool = False
    vclock: Mapping[int, int] | None = None
    """Sent by candidates, so that a voter can judge who is ahead."""
    group_id: int = 0
    """Group.LOCAL in the log, and towards peers up to 3.2.1."""


@dataclass(frozen=True, slots=True)
class Synchro:
    """A word about the queue: up to which LSN it is confirmed, from which rolled back, who owns it now."""

    type: int
    queue_owner_id: int = 0
    """Whose transactions are meant. The new owner is the origin of a PROMOTE."""
    lsn: int = 0
    term: int = 0
    """Of PROMOTE and DEMOTE. 0, or absent, in checkpoints of some versions."""
    confirmed_vclock: Mapping[int, int] | None = None
    """Only in the PROMOTE of checkpoints and of JOIN_META, since 2.11.2."""
    origin_id: int = 0
    """Who wrote it: replica_id of the row."""


# ---- raft -----------------------------------------------------------------------------------------


def encode_raft(message: RaftMessage) -> Row:
    """TERM always, the others when they say something, in the order of xrow_encode_raft (VCLOCK last)."""
    pairs = [pack_uint(RaftKey.TERM) + pack_uint(message.term)]
    if message.vote:
        pairs.append(pack_uint(RaftKey.VOTE) + pack_uint(message.vote))
    if message.state:
        pairs.append(pack_uint(RaftKey.STATE) + pack_uint(message.state))
    if message.leader_id:
        pairs.append(pack_uint(RaftKey.LEADER_ID) + pack_uint(message.leader_id))
    if message.is_leader_seen:
        pairs.append(pack_uint(RaftKey.IS_LEADER_SEEN) + pack_bool(True))
    if message.vclock is not None:
        pairs.append(pack_uint(RaftKey.VCLOCK) + pack_vclock(message.vclock))
    return Row(Type.RAFT, group_id=message.group_id, body=pack_map_head(len(pairs)) + b"".join(pairs))


def decode_raft(row: Row) -> RaftMessage:
    """BoxError INVALID_MSGPACK in 3.x's words. That the values make sense is the raft machine's to judge."""
    if row.type != Type.RAFT:
        raise invalid("raft body")
    if not row.body:
        raise invalid("malformed raft request")
    body = row.body
    term = vote = state = leader_id = 0
    is_leader_seen = False
    vclock: Mapping[int, int] | None = None
    try:
        if not is_map(body):
            raise Malformed
        for key, _, at, _ in fields(body, 0, strict=True):
            if key == RaftKey.TERM:
                term = read_number(body, at)
            elif key == RaftKey.VOTE:
                vote = read_number(body, at) & _U32
            elif key == RaftKey.STATE:
                state = read_number(body, at) & _U32
            elif key == RaftKey.LEADER_ID:
                leader_id = read_number(body, at) & _U32
            elif key == RaftKey.IS_LEADER_SEEN:
                is_leader_seen = read_bool(body, at)
            elif key == RaftKey.VCLOCK:
                vclock = read_vclock(body, at)
    except Malformed:
        raise invalid("raft body") from None
    return RaftMessage(term, vote, state, leader_id, is_leader_seen, vclock, row.group_id)


# ---- the queue ------------------------------------------------------------------------------------


def encode_synchro(request: Synchro) -> Row:
    """Key 53 is written for every PROMOTE and DEMOTE, as 3.3 and newer do (xrow_encode_synchro)."""
    if request.type not in SYNCHRO_TYPES:
        raise er(Er.UNKNOWN_REQUEST_TYPE, request.type)
    pairs = [
        pack_uint(Key.REPLICA_ID) + pack_uint(request.queue_owner_id),
        pack_uint(Key.LSN) + pack_uint(request.lsn),
    ]
    if request.type in (Type.RAFT_PROMOTE, Type.RAFT_DEMOTE):
        pairs.append(pack_uint(Key.TERM) + pack_uint(request.term))
        if request.confirmed_vclock is not None:
            pairs.append(pack_uint(Key.VCLOCK) + pack_vclock(request.confirmed_vclock))
    return Row(request.type, replica_id=request.origin_id, body=pack_map_head(len(pairs)) + b"".join(pairs))


def decode_synchro(row: Row) -> Synchro:
    """BoxError INVALID_MSGPACK 'request body'. Keys 53 and 26 may be there or not, in any combination."""
    body = row.body
    owner = lsn = term = 0
    confirmed: Mapping[int, int] | None = None
    is_promote = row.type in (Type.RAFT_PROMOTE, Type.RAFT_DEMOTE)
    try:
        if not is_map(body):
            raise Malformed
        for key, kind, at, _ in fields(body, 0):
            if key < KEY_MAX and kind != KEY_TYPE[key]:
                raise Malformed
            if key == Key.REPLICA_ID:
                owner = read_number(body, at) & _U32
            elif key == Key.LSN:
                lsn = read_number(body, at)
            elif is_promote and key == Key.TERM:
                term = read_number(body, at)
            elif is_promote and key == Key.VCLOCK:
                confirmed = read_vclock(body, at)
    except Malformed:
        raise invalid("request body") from None
    return Synchro(row.type, owner, lsn, term, confirmed, row.replica_id)

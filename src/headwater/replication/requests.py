"""What this node says to a master, in the form that the master's version knows (docs/formats/replication.md).

Tarantool sends everybody the newest form: bodies of requests may have keys that an old server skips. We send old
servers what their own replicas send, so that nothing depends on that. The header never has a key that is not of 1.10.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.replication.host import Host
from headwater.wire.constants import VERSION_ID, version_id
from headwater.wire.replication import (
    ApplierHeartbeat,
    FetchSnapshot,
    Join,
    Register,
    Subscribe,
    encode_applier_heartbeat,
    encode_fetch_snapshot,
    encode_join,
    encode_register,
    encode_subscribe,
)
from headwater.wire.xrow import Row

OLDEST = version_id(1, 10, 0)
"""Whom we follow at all."""
ASKS_ID = version_id(2, 10, 0)
"""IPROTO_ID is known since; without its answer a peer has no features."""
KNOWS_ANON = version_id(2, 3, 1)
KNOWS_FILTER = version_id(2, 4, 1)
ALWAYS_FILTER = version_id(2, 11, 0)
"""Key 51 is sent even when there is nothing to filter."""
KNOWS_META = (version_id(2, 7, 3), version_id(2, 8, 0), version_id(2, 8, 2))
"""JOIN_META came with 2.7.3 and with 2.8.2, but not with 2.8.0."""
KNOWS_FETCH_BODY = version_id(2, 8, 2)
"""FETCH_SNAPSHOT has no body before."""
REGISTERS_FROM_OURS = version_id(2, 8, 1)
"""REGISTER brings the rows behind our vclock since. Before, those behind the master's: what it had not sent us yet is
left out, without a word (box.cc of 2.6.0, box_process_register: start_vclock)."""
KNOWS_NAMES = version_id(3, 0, 0)
KNOWS_TERM = version_id(2, 11, 0)
"""Acknowledgements have term and vclock sync since; heartbeats come also while rows flow."""


def sends_meta(version: int) -> bool:
    """May a master of this version be told ours when it is asked to JOIN?"""
    late_27, first_28, late_28 = KNOWS_META
    return late_27 <= version < first_28 or version >= late_28


def join(host: Host, version: int) -> Row:
    name = host.options.instance_name or "" if version >= KNOWS_NAMES else ""
    return encode_join(Join(host.uuid, name, VERSION_ID if sends_meta(version) else 0))


def fetch_snapshot(host: Host, version: int) -> Row:
    row = encode_fetch_snapshot(FetchSnapshot(VERSION_ID, host.uuid))
    if version < KNOWS_FETCH_BODY:
        row.body = b""
    return row


def register(host: Host, version: int, vclock: Mapping[int, int]) -> Row:
    name = host.options.instance_name or "" if version >= KNOWS_NAMES else ""
    return encode_register(Register(host.uuid, name, vclock))


def subscribe(
    host: Host, version: int, vclock: Mapping[int, int], id_filter: frozenset[int], *, is_member: bool = False
) -> Row:
    """From `vclock` on, without the rows of `id_filter`. `is_member`: the master has given us an id that we do not know
    yet."""
    own_id = host.memtx.replica_id
    has_names = version >= KNOWS_NAMES
    request = Subscribe(
        replicaset_uuid=host.replicaset_uuid,
        replicaset_name=host.schema.identity.replicaset_name if has_names else "",
        instance_uuid=host.uuid,
        instance_name=registered_name(host) if has_names else "",
        vclock=vclock,
        version_id=VERSION_ID,
        is_anon=not own_id and not is_member,
        id_filter=id_filter,
    )
    with_filter = version >= ALWAYS_FILTER or (version >= KNOWS_FILTER and bool(id_filter))
    return encode_subscribe(request, with_anon=version >= KNOWS_ANON, with_filter=with_filter)


def registered_name(host: Host) -> str:
    """The name of this node as `_cluster` has it, which may lag behind the option (box.cc, INSTANCE_NAME)."""
    member = host.schema.cluster.by_uuid(host.uuid)
    return member.name if member is not None else ""


def acknowledgement(version: int, vclock: Mapping[int, int], term: int, vclock_sync: int, timestamp: float) -> Row:
    """How far this node has written; `timestamp` is that of the last transaction, 0 if nothing is new."""
    if version < KNOWS_TERM:
        return encode_applier_heartbeat(ApplierHeartbeat(vclock, term=None), timestamp)
    return encode_applier_heartbeat(ApplierHeartbeat(vclock, term, vclock_sync), timestamp)

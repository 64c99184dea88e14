"""`box.info`: one map, shaped as 3.x prints it (lua/info.c).

What only the running node knows comes as `Facts`; the rest is read from options, schema and store. Keys of Tarantool
are always there, also those of parts that this node does not have: then they say what a node without them says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater import __version__
from headwater.box.host import Host
from headwater.options.formula import FormulaError, evaluate
from headwater.wire.constants import VERSION

PACKAGE = "Headwater"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One snapshot that is kept."""

    vclock: Mapping[int, int]
    references: Sequence[str] = ()
    """Who needs it: the names of backups."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """Who still reads the journal, and from where."""

    name: str
    vclock: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Upstream:
    """Who feeds us (lbox_pushapplier)."""

    status: str
    lag: float
    idle: float
    peer: str
    """Its address, without the password."""
    message: str = ""
    """Why it is not in order; empty if it is."""
    system_message: str = ""
    """What the operating system said."""


@dataclass(frozen=True, slots=True)
class Downstream:
    """Whom we feed (lbox_pushrelay)."""

    status: str
    """follow or stopped; the numbers are those of one that follows."""
    vclock: Mapping[int, int] = field(default_factory=dict)
    idle: float = 0.0
    lag: float = 0.0
    message: str = ""
    system_message: str = ""
    sent_rows: int = 0
    sent_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Member:
    """One node of the replica set, or one that follows it without being a member."""

    uuid: str
    id: int
    name: str | None = None
    is_anon: bool = False
    upstream: Upstream | None = None
    downstream: Downstream | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    """Synchronous transactions that wait."""

    length: int = 0
    size: int = 0
    """Bytes of them."""
    owner: int = 0
    term: int = 0
    age: float = 0.0
    """Of the first one, in seconds."""
    confirm_lag: float = 0.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What the running node knows of itself."""

    status: str
    """loading, running or orphan (box.cc, box_status)."""
    id: int | None
    """Of its row in `_cluster`; None before it has one, 0 of an anonymous replica."""
    vclock: Mapping[int, int]
    """What is written."""
    ro_reason: str | None
    """None if writable; else config, orphan, synchro, expelled, or that it waits for its own rows (box_ro_reason)."""
    uptime: float
    """Seconds since the process began."""
    listening: Sequence[str]
    """Addresses with the ports that were really taken."""
    gc_vclock: Mapping[int, int] = field(default_factory=dict)
    """Journal files before it may be gone."""
    checkpoints: Sequence[Checkpoint] = ()
    """Oldest first."""
    consumers: Sequence[Consumer] = ()
    is_gc_paused: bool = False
    is_checkpointing: bool = False
    pid: int = 0
    hostname: str | None = None
    members: Sequence[Member] = ()
    """With an id by that, then those without."""
    term: int = 1
    vote: int = 0
    leader: int = 0
    queue: Queue = Queue()
    net_bytes: int = 0
    """Memory of connections."""


def box_info(host: Host) -> dict[str, Any]:
    """What CALL of `box.info` gives."""
    facts = host.facts()
    identity = host.schema.identity
    return {
        "version": ".".join(map(str, VERSION)),
        "package": f"{PACKAGE} {__version__}",
        "id": facts.id,
        "uuid": _text(identity.instance_uuid),
        "name": host.schema.own_name or None,
        "lsn": facts.vclock.get(facts.id, 0) if facts.id is not None else -1,
        "signature": sum(facts.vclock.values()),
        "vclock": dict(facts.vclock),
        "ro": facts.ro_reason is not None,
        "ro_reason": facts.ro_reason,
        "replication": {one.id: _member(one, facts) for one in facts.members if one.id},
        "replication_anon": {"count": sum(one.is_anon for one in facts.members)},
        "replicaset": {"uuid": _text(identity.replicaset_uuid), "name": identity.replicaset_name or None},
        "status": facts.status,
        "uptime": int(facts.uptime) + 1,
        "pid": facts.pid,
        "cluster": {"name": identity.cluster_name or None},
        "memory": {},
        "gc": {},
        "vinyl": {},
        "sql": {},
        "listen": _listening(facts),
        "election": {"state": "follower", "term": facts.term, "vote": facts.vote, "leader": facts.leader},
        "synchro": _synchro(host, facts),
        "schema_version": host.memtx.schema_version,
        "hostname": facts.hostname,
        "config": {"status": "uninitialized", "meta": {"active": {}, "last": {}}, "alerts": []},
        "health": _health(facts),
    }


def _health(facts: Facts) -> dict[str, Any]:
    """Does it live, and is it ready? (healthcheck_defaults.lua, add_box_check.)"""
    is_ready = facts.status == "running"
    box = {"status": "ready"} if is_ready else {"status": "not_ready", "reason": facts.status}
    readiness = {"status": is_ready, "checks": {"box": box}}
    return {"liveness": {"verdict": True, "checks": {}}, "readiness": readiness}


def _text(uuid: object) -> str | None:
    return None if uuid is None else str(uuid)


def _member(member: Member, facts: Facts) -> dict[str, Any]:
    """lbox_pushreplica"""
    shown: dict[str, Any] = {
        "id": member.id,
        "uuid": member.uuid,
        "name": member.name,
        "lsn": facts.vclock.get(member.id, 0),
    }
    if member.upstream is not None:
        shown["upstream"] = _upstream(member.upstream)
    if member.downstream is not None:
        shown["downstream"] = _downstream(member.downstream)
    return shown


def _upstream(upstream: Upstream) -> dict[str, Any]:
    return {
        "status": upstream.status,
        "lag": upstream.lag,
        "idle": upstream.idle,
        "peer": upstream.peer,
        **_trouble(upstream),
    }


def _downstream(downstream: Downstream) -> dict[str, Any]:
    """What was sent is Headwater's own."""
    sent = {"sent_rows": downstream.sent_rows, "sent_bytes": downstream.sent_bytes}
    if downstream.status != "follow":
        return {"status": downstream.status, **_trouble(downstream), **sent}
    return {
        "status": downstream.status,
        "vclock": dict(downstream.vclock),
        "idle": downstream.idle,
        "lag": downstream.lag,
        **sent,
    }


def _trouble(stream: Upstream | Downstream) -> dict[str, str]:
    """lbox_push_replication_error_message"""
    said = {"message": stream.message, "system_message": stream.system_message}
    return {name: words for name, words in said.items() if words}


def replication_anon(host: Host) -> dict[str, Any]:
    """box.info.replication_anon()"""
    facts = host.facts()
    return {one.uuid: _member(one, facts) for one in facts.members if one.is_anon}


def _listening(facts: Facts) -> str | list[str] | None:
    """One address as text, several as a list (lbox_info_listen)."""
    addresses = list(facts.listening)
    return addresses[0] if len(addresses) == 1 else addresses or None


def _synchro(host: Host, facts: Facts) -> dict[str, Any]:
    queue = {
        "len": facts.queue.length,
        "size": facts.queue.size,
        "owner": facts.queue.owner,
        "busy": False,
        "term": facts.queue.term,
        "age": facts.queue.age,
        "confirm_lag": facts.queue.confirm_lag,
    }
    return {"quorum": quorum(host), "queue": queue}


def quorum(host: Host) -> int:
    """The value of `replication_synchro_quorum` for the members there are."""
    written = host.options.replication_synchro_quorum
    if not isinstance(written, str):
        return int(written)
    members = max(1, sum(1 for _ in host.schema.cluster))
    try:
        return evaluate(written, N=members)
    except FormulaError:
        return 1


def memory(host: Host) -> dict[str, int]:
    """box.info.memory()"""
    data, indexes = used_memory(host)
    return {"data": data, "index": indexes, "cache": 0, "tx": 0, "net": host.facts().net_bytes, "lua": 0}


def used_memory(host: Host) -> tuple[int, int]:
    """Bytes of tuples and of indexes."""
    data = indexes = 0
    for space in host.schema.spaces.values():
        if space.kernel is None:
            continue
        data += space.kernel.bsize
        for index_id in space.indexes:
            index = space.kernel.index(index_id)
            indexes += index.bsize if index is not None else 0
    return data, indexes


def gc(host: Host) -> dict[str, Any]:
    """box.info.gc()"""
    facts = host.facts()
    return {
        "vclock": dict(facts.gc_vclock),
        "signature": sum(facts.gc_vclock.values()),
        "checkpoint_is_in_progress": facts.is_checkpointing,
        "is_paused": facts.is_gc_paused,
        "wal_retention_vclock": None,
        "checkpoints": [
            {
                "vclock": dict(checkpoint.vclock),
                "signature": sum(checkpoint.vclock.values()),
                "references": list(checkpoint.references),
            }
            for checkpoint in facts.checkpoints
        ],
        "consumers": [
            {"name": one.name, "vclock": dict(one.vclock), "signature": sum(one.vclock.values())}
            for one in facts.consumers
        ],
    }


def slab_info(host: Host) -> dict[str, Any]:
    """box.slab.info(): what tuples and indexes take of `memtx_memory` (lua/slab.cc, lbox_slab_info)."""
    data, indexes = used_memory(host)
    total, quota = max(host.memtx.bytes_used, data + indexes), host.options.memtx_memory
    return {
        "items_size": total - indexes,
        "items_used": data,
        "items_used_ratio": f"{100 * data / (total - indexes + 0.0001):0.2f}%",
        "arena_size": total,
        "arena_used": data + indexes,
        "arena_used_ratio": f"{100 * (data + indexes) / (total + 1):0.1f}%",
        "quota_size": quota,
        "quota_used": total,
        "quota_used_ratio": f"{100 * total / (quota + 0.0001):0.2f}%",
    }

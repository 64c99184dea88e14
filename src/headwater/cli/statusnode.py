"""What nodes say of themselves and of each other, as values: `box.info`, `box.info.gc` and `box.info.replication_anon`
of Headwater and of any Tarantool since 1.10 (lua/info.c), without the fields that nobody looks at here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

VClockMap = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Upstream:
    """How a node follows another one: state of its applier."""

    status: str
    """follow, sync, connect, auth, disconnected, stopped, … (applier.h, applier_STATE)."""
    peer: str = ""
    """The address as configured, without the password."""
    lag: float | None = None
    """Seconds between a row's time and its arrival."""
    idle: float | None = None
    """Seconds since anything came."""
    message: str = ""
    """What it failed with."""


@dataclass(frozen=True, slots=True)
class Downstream:
    """How a node feeds another one: state of its relay."""

    status: str
    vclock: VClockMap | None = None
    """What the other one has acknowledged."""
    lag: float | None = None
    idle: float | None = None
    message: str = ""
    row_bytes: float | None = None
    """How long a row is on the wire, on the average of all that were sent; Headwater alone tells."""


@dataclass(frozen=True, slots=True)
class Member:
    """What a node knows of one member of its set, itself included."""

    uuid: str
    id: int = 0
    """0: an anonymous replica."""
    name: str = ""
    upstream: Upstream | None = None
    downstream: Downstream | None = None


@dataclass(frozen=True, slots=True)
class Consumer:
    """Who keeps journal files from being removed."""

    name: str
    vclock: VClockMap
    signature: int


@dataclass(frozen=True, slots=True)
class Election:
    state: str
    term: int
    leader: int


@dataclass(frozen=True, slots=True)
class Node:
    """One that answered."""

    address: str
    uuid: str
    version: str
    vclock: VClockMap
    id: int = 0
    name: str = ""
    status: str = "running"
    ro: bool = False
    ro_reason: str = ""
    """Empty on versions that do not tell it (before 2.10)."""
    replicaset_uuid: str = ""
    lsn: int = -1
    election: Election | None = None
    queue_length: int = 0
    """Synchronous transactions that wait for their quorum."""
    queue_owner: int = 0
    members: tuple[Member, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    gc_signature: int | None = None
    """Journal files before it may be gone."""
    denied: str = ""
    """Why nothing but version, vclock and read-only is known of it."""

    @property
    def label(self) -> str:
        """Its name, or the beginning of its UUID."""
        return self.name or self.uuid[:8]

    def member(self, uuid: str) -> Member | None:
        return next((member for member in self.members if member.uuid == uuid), None)


@dataclass(frozen=True, slots=True)
class Silent:
    """One that could not be asked."""

    address: str
    error: str
    named_by: str = ""
    """The address of the node that follows it; empty if the command line names it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One look at a set."""

    nodes: tuple[Node, ...]
    silent: tuple[Silent, ...] = ()
    unasked: tuple[Silent, ...] = ()
    """Peers that were learned of and left alone."""

    def by_uuid(self, uuid: str) -> Node | None:
        return next((node for node in self.nodes if node.uuid == uuid), None)


def missing(has: VClockMap, lacks: VClockMap) -> dict[int, int]:
    """Replica id → how many rows of `has` are not in `lacks`. Component 0 stays on its node and does not count."""
    rows = {id_: lsn - lacks.get(id_, 0) for id_, lsn in has.items() if id_}
    return {id_: count for id_, count in rows.items() if count > 0}


def rows_missing(has: VClockMap, lacks: VClockMap) -> int:
    """How many of all replicas together."""
    return sum(missing(has, lacks).values())


def is_one_set(one: Node, other: Node) -> bool:
    """As far as they tell."""
    return not one.replicaset_uuid or not other.replicaset_uuid or one.replicaset_uuid == other.replicaset_uuid


def newest(nodes: Iterable[Node], of: Node) -> dict[int, int]:
    """What the nodes of its set have together: the greatest LSN of each replica."""
    most: dict[int, int] = {}
    for node in nodes:
        if is_one_set(node, of):
            for id_, lsn in node.vclock.items():
                most[id_] = max(lsn, most.get(id_, 0))
    return most


@dataclass(frozen=True, slots=True)
class Link:
    """One node follows another, seen from either end or from both."""

    follower: str
    """UUID."""
    leader: str
    upstream: Upstream | None
    """None: the follower was not asked."""
    downstream: Downstream | None
    """None: the leader was not asked, or knows of no such relay."""
    behind: Mapping[int, int] | None
    """Replica id → rows of it that the leader has and the follower has not; None if neither says it."""

    @property
    def rows_behind(self) -> int | None:
        return None if self.behind is None else sum(self.behind.values())

    @property
    def bytes_behind(self) -> int | None:
        """About how many bytes these rows are, where the leader tells how long its rows are."""
        size = self.downstream.row_bytes if self.downstream is not None else None
        return None if size is None or self.rows_behind is None else round(size * self.rows_behind)


def links(picture: Picture) -> list[Link]:
    """Who follows whom, in the order of the nodes."""
    found = [link for node in picture.nodes for link in _links_up(picture, node)]
    known = {(link.follower, link.leader) for link in found}
    for node in picture.nodes:
        for member in node.members:
            relay = member.downstream
            if relay is not None and (member.uuid, node.uuid) not in known:
                found.append(Link(member.uuid, node.uuid, None, relay, _acknowledged(node, relay)))
    return found


def _links_up(picture: Picture, node: Node) -> Iterator[Link]:
    for member in node.members:
        if member.upstream is None:
            continue
        leader = picture.by_uuid(member.uuid)
        seen = leader.member(node.uuid) if leader is not None else None
        behind = missing(leader.vclock, node.vclock) if leader is not None else None
        yield Link(node.uuid, member.uuid, member.upstream, seen.downstream if seen else None, behind)


def _acknowledged(leader: Node, relay: Downstream) -> Mapping[int, int] | None:
    return None if relay.vclock is None else missing(leader.vclock, relay.vclock)


# ---- from box.info ----------------------------------------------------------------------------------


def node_of(address: str, info: Mapping[Any, Any], gc: object = None, anon: object = None) -> Node:
    """From what was answered. What is absent or of another form than expected is left at its default."""
    replicaset = _map(info.get("replicaset")) or _map(info.get("cluster"))
    queue = _map(_map(info.get("synchro")).get("queue"))
    given = _map(gc)
    return Node(
        address=address,
        uuid=_text(info.get("uuid")),
        version=_version(_text(info.get("package")), _text(info.get("version"))),
        vclock=_vclock(info.get("vclock")) or {},
        id=_number(info.get("id")),
        name=_text(info.get("name")),
        status=_text(info.get("status")),
        ro=info.get("ro") is True,
        ro_reason=_text(info.get("ro_reason")),
        replicaset_uuid=_text(replicaset.get("uuid")),
        lsn=_number(info.get("lsn"), -1),
        election=_election(_map(info.get("election"))),
        queue_length=_number(queue.get("len")),
        queue_owner=_number(queue.get("owner")),
        members=(*_members(info.get("replication")), *_members(anon)),
        consumers=tuple(_consumer(_map(item)) for item in _items(given.get("consumers"))),
        gc_signature=_number(given["signature"]) if "signature" in given else None,
    )


def _version(package: str, version: str) -> str:
    """`Tarantool 2.6.0`; Headwater's package has its own version in it."""
    plain = version.partition("-")[0]
    return f"{package} ({plain})" if any(char.isdigit() for char in package) else f"{package} {plain}".strip()


def _election(given: Mapping[Any, Any]) -> Election | None:
    if not given:
        return None
    return Election(_text(given.get("state")), _number(given.get("term")), _number(given.get("leader")))


def _members(given: object) -> Iterator[Member]:
    """Maps by id, and by UUID for anonymous ones."""
    pairs = given.items() if isinstance(given, Mapping) else enumerate(_items(given), 1)
    for key, value in pairs:
        shown = _map(value)
        uuid = _text(shown.get("uuid")) or (key if isinstance(key, str) else "")
        if uuid and uuid != "count":
            yield Member(
                uuid=uuid,
                id=_number(shown.get("id")),
                name=_text(shown.get("name")),
                upstream=_upstream(_map(shown.get("upstream"))),
                downstream=_downstream(_map(shown.get("downstream"))),
            )


def _upstream(given: Mapping[Any, Any]) -> Upstream | None:
    if not given:
        return None
    return Upstream(
        status=_text(given.get("status")),
        peer=_text(given.get("peer")),
        lag=_seconds(given.get("lag")),
        idle=_seconds(given.get("idle")),
        message=_message(given),
    )


def _downstream(given: Mapping[Any, Any]) -> Downstream | None:
    if not given:
        return None
    return Downstream(
        status=_text(given.get("status")),
        vclock=_vclock(given.get("vclock")),
        lag=_seconds(given.get("lag")),
        idle=_seconds(given.get("idle")),
        message=_message(given),
        row_bytes=_quotient(given.get("sent_bytes"), given.get("sent_rows")),
    )


def _quotient(total: object, count: object) -> float | None:
    return _number(total) / _number(count) if _number(count) > 0 else None


def _message(given: Mapping[Any, Any]) -> str:
    """Words of the error, and those of the system behind it."""
    return ": ".join(filter(None, (_text(given.get("message")), _text(given.get("system_message")))))


def _consumer(given: Mapping[Any, Any]) -> Consumer:
    return Consumer(_text(given.get("name")), _vclock(given.get("vclock")) or {}, _number(given.get("signature")))


def _vclock(given: object) -> dict[int, int] | None:
    """A map, or what Lua makes of one whose keys are 1, 2, 3."""
    if isinstance(given, str | bytes) or not isinstance(given, Mapping | Sequence):
        return None
    pairs: Any = given.items() if isinstance(given, Mapping) else enumerate(given, 1)
    return {int(id_): int(lsn) for id_, lsn in pairs if isinstance(id_, int) and isinstance(lsn, int)}


def _items(given: object) -> Sequence[Any]:
    return given if isinstance(given, Sequence) and not isinstance(given, str | bytes) else ()


def _map(given: object) -> Mapping[Any, Any]:
    return given if isinstance(given, Mapping) else {}


def _text(given: object) -> str:
    """Of a string or a UUID; nothing is no text."""
    return "" if given is None or isinstance(given, bool) else str(given)


def _number(given: object, otherwise: int = 0) -> int:
    return given if isinstance(given, int) and not isinstance(given, bool) else otherwise


def _seconds(given: object) -> float | None:
    return float(given) if isinstance(given, int | float) and not isinstance(given, bool) else None

"""Is a set healthy, and if not, why: two looks at it in, reasons out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.cli.statusnode import Link, Member, Node, Picture, is_one_set, links, rows_missing

FOLLOWING = frozenset(("follow", "sync"))
"""States of an applier in which rows arrive (applier.h, applier_STATE)."""
MAX_LAG = 10.0
"""Seconds, as replication_sync_lag."""
SERVING = frozenset(("running", ""))
"""Values of box.info.status with nothing to explain; empty: not known."""


def judge(now: Picture, before: Picture | None = None, *, max_lag: float = MAX_LAG) -> list[str]:
    """Every reason why the set is not healthy; none if it is. `before`: an earlier look, to tell a node that catches
    up from one that stands still; without it a difference is no reason."""
    return [
        *_unreachable(now),
        *_identities(now.nodes),
        *_states(now.nodes),
        *_appliers(now, max_lag),
        *_relays(now),
        *_standing_still(now, before),
        *_leaders(now.nodes),
        *_not_writable(now.nodes),
    ]


def needs_second_look(picture: Picture) -> bool:
    """Has a node rows that another one has not?"""
    return any(rows_missing(one.vclock, other.vclock) for one in picture.nodes for other in picture.nodes)


def _unreachable(now: Picture) -> Iterator[str]:
    for one in now.silent:
        by = f", which {one.named_by} follows," if one.named_by else ""
        yield f"{one.address}{by} cannot be asked: {one.error}"
    for node in now.nodes:
        if node.denied:
            yield f"{node.address} does not say how it is: {node.denied}"


def _identities(nodes: Sequence[Node]) -> Iterator[str]:
    """One UUID of the set, and each id once."""
    sets: dict[str, list[Node]] = {}
    ids: dict[tuple[str, int], list[Node]] = {}
    for node in nodes:
        if node.replicaset_uuid:
            sets.setdefault(node.replicaset_uuid, []).append(node)
        if node.id:
            ids.setdefault((node.replicaset_uuid, node.id), []).append(node)
    if len(sets) > 1:
        shown = "; ".join(f"{uuid}: {_addresses(members)}" for uuid, members in sets.items())
        yield f"they are of {len(sets)} replica sets: {shown}"
    for (_, id_), members in ids.items():
        if len(members) > 1:
            yield f"{_addresses(members)} both have the id {id_}"


def _states(nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        if node.status == "orphan":
            yield f"{node.address} is an orphan: {why_orphan(node)}"
        elif node.status not in SERVING:
            yield f"{node.address} is {node.status}"


def why_orphan(node: Node) -> str:
    """What it waits for before it takes writes (replication.cc, replicaset_sync)."""
    missing = [
        f"{_peer(member)} is {member.upstream.status}"
        for member in node.members
        if member.upstream is not None and member.upstream.status != "follow"
    ]
    if missing:
        return ", ".join(missing)
    return "it is not in sync with as many peers as replication_connect_quorum asks for, or could not connect to them"


def _appliers(now: Picture, max_lag: float) -> Iterator[str]:
    for node in now.nodes:
        for member in node.members:
            applier = member.upstream
            if applier is None:
                continue
            who = f"{node.address} follows {_peer(member)}"
            if applier.status not in FOLLOWING:
                yield f"{node.address} does not follow {_peer(member)}: {_with(applier.status, applier.message)}"
            elif applier.lag is not None and applier.lag > max_lag:
                yield f"{who} with a lag of {applier.lag:.1f} s, more than {max_lag:g} s"


def _relays(now: Picture) -> Iterator[str]:
    """A relay that failed, unless its other end says that it follows."""
    for link in links(now):
        if link.downstream is None or link.downstream.status != "stopped" or link.upstream is not None:
            continue
        leader = now.by_uuid(link.leader)
        if leader is not None and not _left(leader, link):
            words = _with("stopped", link.downstream.message)
            yield f"{leader.address} does not feed {_name(leader, link.follower)}: {words}"


def _left(leader: Node, link: Link) -> bool:
    """An anonymous replica may go whenever it likes."""
    member = leader.member(link.follower)
    return member is None or not member.id


def _standing_still(now: Picture, before: Picture | None) -> Iterator[str]:
    """Rows that were there at the first look, and at the second one have come no nearer."""
    if before is None:
        return
    for node in now.nodes:
        earlier = before.by_uuid(node.uuid)
        if earlier is None:
            continue
        for other in before.nodes:
            missing = rows_missing(other.vclock, earlier.vclock)
            if missing and is_one_set(node, other) and rows_missing(other.vclock, node.vclock) >= missing:
                yield f"{node.address} has not got {missing} rows of {other.address}, and none came between two looks"


def _leaders(nodes: Sequence[Node]) -> Iterator[str]:
    leaders: dict[tuple[str, int], list[Node]] = {}
    for node in nodes:
        if node.election is not None and node.election.state == "leader":
            leaders.setdefault((node.replicaset_uuid, node.election.term), []).append(node)
    for (_, term), members in leaders.items():
        if len(members) > 1:
            yield f"{_addresses(members)} are both leader of term {term}"


def _not_writable(nodes: Sequence[Node]) -> Iterator[str]:
    if nodes and all(node.ro for node in nodes):
        reasons = ", ".join(f"{node.address}: {why_read_only(node)}" for node in nodes)
        yield f"no node is writable ({reasons})"


def why_read_only(node: Node) -> str:
    """In the words of box.info.ro_reason, or what can be told without it."""
    if node.ro_reason:
        return node.ro_reason
    if node.status == "orphan":
        return "orphan"
    if node.denied:
        return "not known"
    return "config or election" if node.election is not None else "config"


def _peer(member: Member) -> str:
    """As it is configured."""
    peer = member.upstream.peer.rpartition("@")[2] if member.upstream is not None else ""
    return peer or member.name or member.uuid[:8]


def _name(node: Node, uuid: str) -> str:
    member = node.member(uuid)
    if member is None or not member.id:
        return f"the anonymous replica {uuid}"
    return f"replica {member.id} ({member.name or uuid[:8]})"


def _with(status: str, message: str) -> str:
    return f"{status}, {message}" if message else status


def _addresses(nodes: Sequence[Node]) -> str:
    return " and ".join(node.address for node in nodes)

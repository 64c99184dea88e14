"""One look at a set as tables for people and as JSON for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headwater.cli.statusjudge import FOLLOWING, why_orphan, why_read_only
from headwater.cli.statusnode import Link, Member, Node, Picture, VClockMap, links, missing, newest, rows_missing


def as_json(picture: Picture, reasons: Sequence[str]) -> dict[str, Any]:
    """Keys stay; new ones may come."""
    return {
        "healthy": not reasons,
        "reasons": list(reasons),
        "nodes": [
            {
                **{key: value for key, value in asdict(node).items() if key not in ("members", "consumers")},
                "vclock": dict(node.vclock),
                "gc_consumers": [asdict(consumer) for consumer in node.consumers],
            }
            for node in picture.nodes
        ],
        "links": [
            {**asdict(link), "rows_behind": link.rows_behind, "bytes_behind": link.bytes_behind}
            for link in links(picture)
        ],
        "unreachable": [asdict(one) for one in picture.silent],
        "not_asked": [{"address": one.address, "named_by": one.named_by} for one in picture.unasked],
    }


def draw(picture: Picture, reasons: Sequence[str]) -> RenderableType:
    """Nodes, links, notes, and the verdict as the last line."""
    parts: list[RenderableType] = [_nodes(picture)]
    found = links(picture)
    if found:
        parts.append(_links(picture, found))
    parts += [Text(note) for note in notes(picture)]
    parts.append(_verdict(reasons))
    return Group(*parts)


def _verdict(reasons: Sequence[str]) -> Text:
    if not reasons:
        return Text("healthy", style="green")
    if len(reasons) == 1:
        return Text(f"not healthy: {reasons[0]}", style="red")
    return Text("not healthy:\n" + "\n".join(f"  - {reason}" for reason in reasons), style="red")


# ---- nodes ------------------------------------------------------------------------------------------


def _nodes(picture: Picture) -> Table:
    table = _table("id", "node", "address", "version", "status", "writable", "election", "lsn", "vclock")
    for node in picture.nodes:
        table.add_row(*map(_cell, node_cells(node, newest(picture.nodes, node))))
    for one in picture.silent:
        words = Text(f"unreachable: {one.error}", style="red")
        table.add_row("", "", _cell(one.address), "", words, "", "", "", "")
    return table


def node_cells(node: Node, most: VClockMap) -> tuple[str, ...]:
    """`most`: what its set has, beside which its own vclock is shown."""
    election = node.election
    return (
        str(node.id) if node.id else "anon" if not node.denied else "?",
        node.label,
        node.address,
        node.version,
        node.status or "?",
        f"no: {why_read_only(node)}" if node.ro else "yes",
        f"{election.state}, term {election.term}" if election is not None else "",
        str(node.lsn) if node.lsn >= 0 else "",
        shown_vclock(node.vclock, most),
    )


def shown_vclock(vclock: VClockMap, most: VClockMap | None = None) -> str:
    """`{1: 20, 2: 7 (-3)}`: three rows of replica 2, which others have, are not here."""
    lacking = missing(most or {}, vclock)
    shown = {**dict.fromkeys(lacking, 0), **vclock}
    parts = (f"{id_}: {lsn}" + (f" (-{lacking[id_]})" if id_ in lacking else "") for id_, lsn in sorted(shown.items()))
    return "{" + ", ".join(parts) + "}"


# ---- links ------------------------------------------------------------------------------------------


def _links(picture: Picture, found: Sequence[Link]) -> Table:
    table = _table("follower", "follows", "state", "lag", "idle", "behind", "relay", "relay lag", "message")
    for link in found:
        table.add_row(*map(_cell, link_cells(picture, link)), style=None if _is_good(link) else "red")
    return table


def link_cells(picture: Picture, link: Link) -> tuple[str, ...]:
    applier, relay = link.upstream, link.downstream
    messages = [side.message for side in (applier, relay) if side is not None and side.message]
    return (
        _label(picture, link.follower),
        _label(picture, link.leader),
        applier.status if applier is not None else "?",
        _seconds(applier.lag if applier is not None else None),
        _seconds(applier.idle if applier is not None else None),
        _behind(link),
        relay.status if relay is not None else "?",
        _seconds(relay.lag if relay is not None else None),
        "; ".join(messages),
    )


def _behind(link: Link) -> str:
    """In rows, in bytes where that is known, and of whom."""
    if link.rows_behind is None or link.behind is None:
        return "?"
    if not link.behind:
        return "0 rows"
    size = "" if link.bytes_behind is None else f", about {link.bytes_behind:,} bytes"
    whose = ", ".join(f"{count:,} of replica {id_}" for id_, count in sorted(link.behind.items()))
    return f"{link.rows_behind:,} rows{size} ({whose})"


def _is_good(link: Link) -> bool:
    if link.upstream is not None:
        return link.upstream.status in FOLLOWING
    return link.downstream is None or link.downstream.status != "stopped"


def _label(picture: Picture, uuid: str) -> str:
    """Id and name of a node, as itself says it or as others do."""
    node = picture.by_uuid(uuid)
    if node is not None:
        return f"{node.id or 'anon'} {node.label}"
    for other in picture.nodes:
        member = other.member(uuid)
        if member is not None:
            return f"{member.id or 'anon'} {member.name or uuid[:8]}"
    return uuid[:8]


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value * 1000:.0f} ms" if abs(value) < 10 else f"{value:.0f} s"


# ---- notes ------------------------------------------------------------------------------------------


def notes(picture: Picture) -> Iterator[str]:
    """What the tables do not say."""
    for node in picture.nodes:
        if node.status == "orphan":
            yield f"{node.address} is an orphan, and takes no writes: {why_orphan(node)}."
        if node.queue_length:
            yield f"{node.address}: {node.queue_length} synchronous transactions wait for their quorum."
        yield from _held_back(node)
        yield from _strangers(picture, node)
    for one in picture.unasked:
        yield f"{one.address}, which {one.named_by} follows, was not asked."


def _held_back(node: Node) -> Iterator[str]:
    """Who keeps journal files from being removed, and is not there to let them go. One that is connected does so as
    soon as a file is closed."""
    for consumer in sorted(node.consumers, key=lambda consumer: consumer.signature):
        rows = rows_missing(node.vclock, consumer.vclock)
        if rows and not any(_is_fed(member) and member.uuid in consumer.name for member in node.members):
            place = shown_vclock(consumer.vclock)
            yield (
                f"{node.address} keeps its journal from {place} on for {consumer.name}, which is not connected: "
                f"{rows:,} rows."
            )


def _is_fed(member: Member) -> bool:
    return member.downstream is not None and member.downstream.status == "follow"


def _strangers(picture: Picture, node: Node) -> Iterator[str]:
    """Registered, and nobody says more of it."""
    for member in node.members:
        known = picture.by_uuid(member.uuid) or member.upstream or member.downstream
        if known is None and node is picture.nodes[0]:
            name = member.name or member.uuid
            yield f"Replica {member.id} ({name}) is registered, and nobody here knows where it is."


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("id", "node", "address", "follower", "follows"))
    return table


def _cell(text: str) -> Text:
    """Never markup."""
    return Text(text)

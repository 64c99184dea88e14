"""Do two nodes hold the same? Judged by what any client can read, byte by byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.cluster import Node

SYSTEM_OF_ONE_NODE = {"_vinyl_deferred_delete", "_session_settings", "_gc_consumers"}


def replicated_spaces(node: Node) -> dict[int, str]:
    """Id -> name of the spaces whose contents every member has."""
    out: dict[int, str] = {}
    for id, _, name, engine, _, options, *_ in node.rows(280):
        options = options if isinstance(options, dict) else {}
        at_home = options.get("group_id") == 1 or options.get("temporary") or options.get("type") == "temporary"
        if engine == "memtx" and not at_home and name not in SYSTEM_OF_ONE_NODE:
            out[id] = name
    return out


def difference(one: Node, two: Node) -> list[str]:
    """What the two do not hold alike, a line each, at most ten of a space."""
    out: list[str] = []
    spaces = replicated_spaces(one)
    indexed = {row[0] for row in one.rows(288)}
    if one.raw_rows(280) != two.raw_rows(280):
        out += _rows_apart("_space", one.rows(280), two.rows(280))
    for id in sorted(spaces.keys() & replicated_spaces(two).keys() & indexed):
        mine, theirs = one.raw_rows(id), two.raw_rows(id)
        if mine != theirs:
            apart = _rows_apart(spaces[id], one.rows(id), two.rows(id))
            out += apart or [f"{spaces[id]}: equal values, other bytes: {mine.hex()[:400]} / {theirs.hex()[:400]}"]
    return out


def _rows_apart(space: str, one: list[Any], two: list[Any]) -> list[str]:
    mine, theirs = {repr(row) for row in one}, {repr(row) for row in two}
    apart = [f"{space}: only the first has {row[:300]}" for row in sorted(mine - theirs)]
    apart += [f"{space}: only the second has {row[:300]}" for row in sorted(theirs - mine)]
    return [*apart[:10], f"{space}: {len(apart)} rows in all"] if len(apart) > 10 else apart

"""Spaces and indexes as maps, as Lua's `box.space.NAME` shows them (lua/space.cc, lbox_fillspace), without what only a
Lua program could use: methods, triggers, key definitions."""

from __future__ import annotations

from typing import Any

from headwater.box.procedures.context import Context
from headwater.store.definitions import IndexDef, PartDef
from headwater.store.space import Space


def describe_space(ctx: Context, space: Space) -> dict[str, Any]:
    definition = space.definition
    indexes = {index.name: describe_index(ctx, space, index) for index in space.indexes.values()}
    return {
        "id": space.id,
        "name": space.name,
        "engine": space.engine,
        "type": definition.type,
        "temporary": definition.is_temporary,
        "is_local": definition.is_local,
        "is_sync": definition.is_sync,
        "field_count": definition.field_count,
        "enabled": space.pk is not None,
        "state": {"is_sync": definition.is_sync},
        "index": indexes,
    }


def describe_index(ctx: Context, space: Space, index: IndexDef) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": index.id,
        "space_id": space.id,
        "name": index.name,
        "type": index.type.upper(),
        "unique": index.unique,
        "parts": [_part(ctx, part, ordered=index.type == "tree") for part in index.parts],
    }
    if index.type == "tree":
        shown["hint"] = index.options.get("hint", True)
    if index.id == 0 and space.sequence is not None:
        shown["sequence_id"] = space.sequence.id
        shown["sequence_fieldno"] = space.sequence_field + 1
    return shown


def _part(ctx: Context, part: PartDef, *, ordered: bool) -> dict[str, Any]:
    """Fields count from 1 (lua/key_def.c, luaT_push_key_def_parts)."""
    shown: dict[str, Any] = {
        "type": part.type.name.lower(),
        "fieldno": part.field + 1,
        "is_nullable": part.nullable,
        "exclude_null": part.exclude_null,
    }
    if ordered:
        shown["sort_order"] = "asc"
    if part.collation is not None:
        collation = ctx.host.schema.collations.by_id(part.collation)
        shown["collation"] = collation.name if collation is not None else "<deleted>"
    return shown

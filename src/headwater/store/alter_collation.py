"""The trigger of `_collation` (alter.cc on_replace_dd_collation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import Er, er
from headwater.store.collation import NONE, Collation, read_collation
from headwater.store.context import Context
from headwater.store.privileges import ObjectType, Priv
from headwater.store.rowview import Row
from headwater.store.space import Space

if TYPE_CHECKING:
    from headwater.store.schema import Schema


def replaced(schema: Schema, _collation: Space, old: bytes | None, new: bytes | None, ctx: Context) -> None:
    if old is not None and new is not None:
        raise er(Er.UNSUPPORTED, "collation", "alter")
    if new is not None:
        _create(schema, read_collation(Row(new)), ctx)
    else:
        _drop(schema, Row(old or b"").u32(0), ctx)


def _create(schema: Schema, collation: Collation, ctx: Context) -> None:
    owner = collation.owner
    schema.access.check_ddl(ctx.user, collation.name, owner, None, ObjectType.COLLATION, Priv.CREATE)
    schema.collations.add(collation)
    schema.undo(lambda: schema.collations.remove(collation))


def _drop(schema: Schema, collation_id: int, ctx: Context) -> None:
    if collation_id == NONE:
        raise er(Er.DROP_COLLATION, "none", "system collation")
    collation = schema.collations.by_id(collation_id)
    assert collation is not None, "a row of _collation without a collation"
    owner = collation.owner
    schema.access.check_ddl(ctx.user, collation.name, owner, None, ObjectType.COLLATION, Priv.DROP)
    holder = _holder(schema, collation_id)
    if holder is not None:
        raise er(Er.DROP_COLLATION, collation.name, f"collation is referenced by {holder}")
    schema.collations.remove(collation)
    schema.undo(lambda: schema.collations.add(collation))


def _holder(schema: Schema, collation_id: int) -> str | None:
    """What uses it: 'space format' or 'index' (coll_id_cache.c, coll_id_holder_type_strs)."""
    for space in schema.spaces.values():
        if any(field.collation == collation_id for field in space.definition.format):
            return "space format"
        for index in space.indexes.values():
            if any(part.collation == collation_id for part in index.parts):
                return "index"
    return None

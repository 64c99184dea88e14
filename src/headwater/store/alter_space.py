"""The trigger of `_space`: spaces made, altered and dropped (alter.cc on_replace_dd_space)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import BoxError, Er, er
from headwater.store import system
from headwater.store.context import Context, Journal, Source
from headwater.store.definitions import SpaceDef
from headwater.store.privileges import ObjectType, Priv
from headwater.store.rowview import Row
from headwater.store.space import Space
from headwater.store.spacedef import read_space_def
from headwater.typing import SpaceId

if TYPE_CHECKING:
    from headwater.store.schema import Schema


def journal_of(definition: SpaceDef | None, ctx: Context) -> Journal:
    """Definitions of temporary spaces stay here, and may be written on a read-only instance; nothing else may
    (filter_temporary_ddl_stmt)."""
    if definition is None:
        return Journal.GLOBAL
    if definition.is_fully_temporary:
        return Journal.NOWHERE
    if definition.id in system.OWN_SPACES and definition.is_local:
        return Journal.LOCAL
    if ctx.source is Source.CLIENT and ctx.check_writable is not None:
        ctx.check_writable()
    return Journal.GLOBAL


def replaced(schema: Schema, _space: Space, old: bytes | None, new: bytes | None, ctx: Context) -> Journal:
    row = Row(old if old is not None else new or b"")
    existing = schema.spaces.get(SpaceId(row.u32(0)))
    definition, error = None, None
    if new is not None:
        try:
            code = Er.CREATE_SPACE if old is None else Er.ALTER_SPACE
            definition = read_space_def(Row(new), code, schema.collations.__contains__)
        except BoxError as fault:
            error = fault
    journal = journal_of(existing.definition if existing is not None else definition, ctx)
    if error is not None:
        raise error
    if definition is not None and definition.is_sync and schema.refuses_sync:
        raise er(Er.UNSUPPORTED, schema.refuses_sync, "synchronous spaces: their rows hold replica ids")
    if definition is None:
        assert existing is not None, "a row of _space without a space"
        _drop(schema, existing, ctx)
    elif existing is None:
        _create(schema, definition, ctx)
    else:
        _alter(schema, existing, definition, ctx)
    return journal


def _create(schema: Schema, definition: SpaceDef, ctx: Context) -> None:
    schema.access.check_ddl(ctx.user, definition.name, definition.owner, None, ObjectType.SPACE, Priv.CREATE)
    space = schema.make_space(definition)
    if space.kernel is not None:
        space.kernel.set_format(space.format.kernel())
    schema.put_space(space)

    def rollback() -> None:
        schema.take_space(space)
        if space.kernel is not None:
            schema.memtx.remove_space(space.id)

    schema.undo_of(space, rollback)
    schema.bump()


def _drop(schema: Schema, space: Space, ctx: Context) -> None:
    """Only what has no indexes, no grants and no record in `_truncate`: the rows that say so must be gone before."""
    schema.access.check_ddl(ctx.user, space.name, space.owner, space.access, ObjectType.SPACE, Priv.DROP)
    if space.indexes:
        raise er(Er.DROP_SPACE, space.name, "the space has indexes")
    if schema.has_grants(ObjectType.SPACE, space.id):
        raise er(Er.DROP_SPACE, space.name, "the space has grants")
    if schema.has_rows(system.TRUNCATE, 0, space.id):
        raise er(Er.DROP_SPACE, space.name, "the space has truncate record")
    if ctx.source.is_checked and space.is_system:
        raise er(Er.DROP_SPACE, space.name, "the space is a system space")
    schema.take_space(space)
    if space.kernel is not None:
        schema.memtx.remove_space(space.id)

    def rollback() -> None:
        if space.kernel is not None:
            schema.memtx.restore_space(space.kernel)
        schema.put_space(space)

    schema.undo(rollback)
    schema.bump()


def _alter(schema: Schema, space: Space, definition: SpaceDef, ctx: Context) -> None:
    schema.access.check_ddl(ctx.user, definition.name, definition.owner, space.access, ObjectType.SPACE, Priv.ALTER)
    old = space.definition
    if definition.id != old.id:
        raise er(Er.ALTER_SPACE, old.name, "space id is immutable")
    if definition.engine != old.engine:
        raise er(Er.ALTER_SPACE, old.name, "can not change space engine")
    if definition.options.get("group_id", 0) != old.options.get("group_id", 0):
        raise er(Er.ALTER_SPACE, old.name, "replication group is immutable")
    if definition.is_fully_temporary != old.is_fully_temporary:
        raise er(Er.ALTER_SPACE, old.name, "temporariness cannot change")
    if len(space) and definition.is_temporary != old.is_temporary:
        raise er(Er.ALTER_SPACE, old.name, "can not change data-temporariness on a non-empty space")
    schema.alteration(space, ctx).apply(definition, space.indexes, task="space format check")

"""The trigger of `_index`: indexes built, altered and dropped (alter.cc on_replace_dd_index)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import Er, er
from headwater.store.alter import PRIMARY
from headwater.store.alter_space import journal_of
from headwater.store.context import Context, Journal
from headwater.store.definitions import IndexDef
from headwater.store.indexdef import read_index_def
from headwater.store.keys import depends_on_pk, requires_rebuild
from headwater.store.privileges import ObjectType, Priv
from headwater.store.rowview import Row
from headwater.store.space import Space
from headwater.typing import IndexId

if TYPE_CHECKING:
    from headwater.store.schema import Schema


def replaced(schema: Schema, _index: Space, old: bytes | None, new: bytes | None, ctx: Context) -> Journal:
    row = Row(old if old is not None else new or b"")
    space_id, index_id = row.u32(0), IndexId(row.u32(1))
    space = schema.space(space_id)
    journal = journal_of(space.definition, ctx)
    needed = Priv.DROP if new is None else Priv.CREATE if old is None else Priv.ALTER
    schema.access.check_ddl(ctx.user, space.name, space.owner, space.access, ObjectType.SPACE, needed)
    if new is None:
        _drop(schema, space, index_id, ctx)
    else:
        _put(schema, space, index_id, Row(new), ctx)
    return journal


def _drop(schema: Schema, space: Space, index_id: IndexId, ctx: Context) -> None:
    if index_id == PRIMARY:
        _check_pk_drop(space, ctx)
    indexes = {number: index for number, index in space.indexes.items() if number != index_id}
    schema.alteration(space, ctx).apply(space.definition, indexes, task="space format check")


def _check_pk_drop(space: Space, ctx: Context) -> None:
    """The primary key goes last, takes all tuples with it, and never goes from a system space."""
    if ctx.source.is_checked and space.is_system:
        raise er(Er.LAST_DROP, space.name)
    if len(space.indexes) > 1:
        raise er(Er.DROP_PRIMARY_KEY, space.name)
    if space.sequence is not None:
        raise er(Er.ALTER_SPACE, space.name, "can not drop primary key while space sequence exists")


def _put(schema: Schema, space: Space, index_id: IndexId, row: Row, ctx: Context) -> None:
    if index_id != PRIMARY and space.pk is None:
        raise er(Er.ALTER_SPACE, space.name, "can not add a secondary key before primary")
    knows = schema.collations.__contains__
    index = read_index_def(row, space.definition, knows, recovering=not ctx.source.is_checked)
    if space.view is not None:
        space.view.check_index(index)
    old = space.indexes.get(index_id)
    indexes = {**space.indexes, index.id: index}
    alteration = schema.alteration(space, ctx)
    task = "index build"
    if old is not None:
        task = _check_change(schema, space, old, index, ctx)
    if task == "index build" and space.kernel is not None and len(space):
        alteration.check_alone(task)
    alteration.apply(space.definition, indexes, task=task)


def _check_change(schema: Schema, space: Space, old: IndexDef, new: IndexDef, ctx: Context) -> str:
    """What 3.x would do, a rebuild or a look at the tuples, and what it refuses in between. We can rebuild any index
    whenever we like; real replicas cannot, so a client is refused what would stop them. Rows of recovery and of
    peers pass: older releases accept them."""
    collations = schema.collations
    if new.id == PRIMARY and ctx.source.is_checked:
        for other in space.indexes.values():
            if other.id != PRIMARY and depends_on_pk(other) and requires_rebuild(other, old, other, new, collations):
                what = "non-trivial alter of primary index along with rebuild of dependent secondary indexes"
                raise er(Er.UNSUPPORTED, "Tarantool", what)
    pk = space.pk
    rebuilds = requires_rebuild(old, pk, new, new if new.id == PRIMARY else pk, collations)
    return "index build" if rebuilds else "space format check"

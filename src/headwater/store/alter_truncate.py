"""The trigger of `_truncate`: a row there empties a space (alter.cc on_replace_dd_truncate)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import Er, er
from headwater.store.context import Context, Journal, Source
from headwater.store.privileges import Priv
from headwater.store.rowview import Row
from headwater.store.space import Space

if TYPE_CHECKING:
    from headwater.store.schema import Schema


def replaced(schema: Schema, _truncate: Space, old: bytes | None, new: bytes | None, ctx: Context) -> Journal:
    """While a snapshot is loaded there is nothing to empty. When a row is deleted its space is being dropped."""
    if ctx.source is Source.SNAPSHOT:
        return Journal.GLOBAL
    row = Row(new if new is not None else old or b"")
    space = schema.space(row.u32(0))
    journal = Journal.NOWHERE if space.definition.is_fully_temporary else Journal.GLOBAL
    if new is None:
        return journal
    stays_here = space.is_temporary or space.is_local
    if not stays_here and ctx.source is Source.CLIENT and ctx.check_writable is not None:
        ctx.check_writable()
    schema.access.check_space(ctx.user, space, Priv.WRITE)
    if space.is_system:
        raise er(Er.TRUNCATE_SYSTEM_SPACE, space.name)
    _truncate_space(schema, space)
    return Journal.LOCAL if stays_here and journal is Journal.GLOBAL else journal


def _truncate_space(schema: Schema, space: Space) -> None:
    kernel = space.kernel
    if kernel is None or space.pk is None:
        return
    contents = kernel.detach_all()
    schema.undo_of(space, lambda: kernel.attach_all(contents))

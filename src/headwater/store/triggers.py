"""Which trigger belongs to which system space, and the spaces whose rows are refused by name.

Constraints, foreign keys, SQL triggers and functional indexes live in spaces of their own. A row there asks for
something that Headwater would not do, so that none is let in; one that older nodes left may be deleted.

3.x refuses a client's definitions while the dictionary is older than 2.11.1, because its own code writes rows that
older servers do not know (SCHEMA_FEATURE_DDL_BEFORE_UPGRADE). We let them pass: a set that is kept at 2.3.1 for the
sake of 2.6 peers must go on making spaces, and what is written is the client's row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headwater.store import (
    alter_cluster,
    alter_collation,
    alter_func,
    alter_index,
    alter_priv,
    alter_schema,
    alter_sequence,
    alter_space,
    alter_truncate,
    alter_user,
    system,
)
from headwater.store.context import Context, Journal
from headwater.store.space import Space
from headwater.store.spacedef import unsupported
from headwater.typing import SpaceId

if TYPE_CHECKING:
    from headwater.store.schema import Schema

Trigger = Callable[["Schema", Space, bytes | None, bytes | None, Context], Journal | None]
BeforeTrigger = Callable[["Schema", Space, bytes | None, bytes | None, Context], bytes | None]


def _refuse(what: str) -> Trigger:
    def replaced(schema: Schema, space: Space, old: bytes | None, new: bytes | None, ctx: Context) -> None:
        if new is not None:
            raise unsupported(what)

    return replaced


TRIGGERS: Mapping[SpaceId, Trigger] = {
    system.SCHEMA: alter_schema.replaced,
    system.COLLATION: alter_collation.replaced,
    system.SPACE: alter_space.replaced,
    system.SEQUENCE: alter_sequence.replaced,
    system.SEQUENCE_DATA: alter_sequence.value_replaced,
    system.INDEX: alter_index.replaced,
    system.FUNC: alter_func.replaced,
    system.USER: alter_user.replaced,
    system.PRIV: alter_priv.replaced,
    system.CLUSTER: alter_cluster.replaced,
    system.TRIGGER: _refuse("SQL triggers"),
    system.TRUNCATE: alter_truncate.replaced,
    system.SPACE_SEQUENCE: alter_sequence.space_replaced,
    system.FK_CONSTRAINT: _refuse("foreign keys"),
    system.CK_CONSTRAINT: _refuse("check constraints"),
    system.FUNC_INDEX: _refuse("functional indexes"),
}
BEFORE_TRIGGERS: Mapping[SpaceId, BeforeTrigger] = {system.SCHEMA: alter_schema.before}

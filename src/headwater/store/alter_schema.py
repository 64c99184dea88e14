"""The triggers of `_schema`: UUIDs and names of the set, the version of the dictionary (alter.cc *_replace_dd_schema).

What a row says here becomes true when the row is written, not before: nobody may hear of a replica set that a failed
journal forgets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from headwater.errors import BoxError, Er, er
from headwater.store.cluster import read_node_name
from headwater.store.context import Context
from headwater.store.events import IdentityChanged, LeaderChanged, VersionChanged
from headwater.store.rowview import Row
from headwater.store.space import Space
from headwater.typing import IteratorType
from headwater.wire.msgpack import pack

if TYPE_CHECKING:
    from headwater.store.schema import Schema

_NEWEST = (3, 8, 0)
"""The version that a dictionary without a version has (tarantool_version_id)."""
_UUID_KEYS = ("cluster", "replicaset_uuid")
"""Before 3.0.0, and since."""


def before(schema: Schema, _schema: Space, old: bytes | None, new: bytes | None, ctx: Context) -> bytes | None:
    """Of two bootstrap leaders named at once the one named last wins, wherever the rows meet. Its row ends with the
    time and the id of the member that wrote it (before_replace_dd_schema)."""
    if Row(new if new is not None else old or b"").string(0) != "bootstrap_leader_uuid" or new is None:
        return new
    row = Row(new)
    given = (row.u64(2), row.u32(3))
    known = _stamp(Row(old)) if old is not None else (0, 0)
    return old if given < known else new


def _stamp(row: Row) -> tuple[int, int]:
    """Anything may stand in the old row."""
    time = row.u64(2) if row.type(2) == "unsigned" else 0
    return time, row.u64(3) if row.type(3) == "unsigned" else 0


def replaced(schema: Schema, _schema: Space, old: bytes | None, new: bytes | None, ctx: Context) -> None:
    key = Row(new if new is not None else old or b"").string(0)
    row = Row(new) if new is not None else None
    if key in _UUID_KEYS:
        _set_uuid(schema, _schema, key, row)
    elif key == "version":
        _set_version(schema, row)
    elif key == "bootstrap_leader_uuid":
        _set_leader(schema, row)
    elif key == "cluster_name":
        _set_cluster_name(schema, row)
    elif key == "replicaset_name":
        _set_replicaset_name(schema, row)


def _on_written(schema: Schema, change: Callable[[], None]) -> None:
    schema.undo(lambda: None, change)


def _set_uuid(schema: Schema, space: Space, key: str, row: Row | None) -> None:
    """Set once. One of the two keys must stay; an upgrade or downgrade takes the other."""
    identity = schema.identity
    if row is None:
        other = _UUID_KEYS[1 - _UUID_KEYS.index(key)]
        index = space.kernel.index(0) if space.kernel is not None else None
        if index is None or not index.count(IteratorType.EQ, pack([other])):
            raise er(Er.REPLICASET_UUID_IS_RO)
        return
    uuid = row.uuid(1)
    if identity.replicaset_uuid is not None and identity.replicaset_uuid != uuid:
        raise er(Er.REPLICASET_UUID_IS_RO)

    def written() -> None:
        if identity.replicaset_uuid != uuid:
            identity.replicaset_uuid = uuid
            schema.emit(IdentityChanged())

    _on_written(schema, written)


def _set_version(schema: Schema, row: Row | None) -> None:
    version = _NEWEST
    if row is not None:
        try:
            version = (row.u32(1), row.u32(2), 0)
        except BoxError:
            raise er(Er.WRONG_DD_VERSION) from None
        if row.type(3) == "unsigned":
            version = (*version[:2], row.u64(3))

    def written() -> None:
        schema.identity.dd_version = version
        schema.emit(VersionChanged(version))

    _on_written(schema, written)


def _set_leader(schema: Schema, row: Row | None) -> None:
    uuid: UUID | None = row.uuid(1) if row is not None else None

    def written() -> None:
        schema.identity.bootstrap_leader_uuid = uuid
        schema.emit(LeaderChanged(uuid))

    _on_written(schema, written)


def _check_rename(schema: Schema, old: str, new: str, what: str) -> None:
    """A name, once given, is kept, unless the node was started to force it."""
    if schema.is_configured and old and new != old and not schema.force_recovery:
        raise er(Er.UNSUPPORTED, "Tarantool", f"{what} name change (without 'force_recovery')")


def _set_cluster_name(schema: Schema, row: Row | None) -> None:
    name = read_node_name(row, 1, "_schema['cluster_name'].value")
    identity = schema.identity
    _check_rename(schema, identity.cluster_name, name, "cluster")

    def written() -> None:
        if identity.cluster_name != name:
            identity.cluster_name = name
            schema.emit(IdentityChanged())

    _on_written(schema, written)


def _set_replicaset_name(schema: Schema, row: Row | None) -> None:
    name = read_node_name(row, 1, "_schema['replicaset_name'].value")
    identity = schema.identity
    _check_rename(schema, identity.replicaset_name, name, "replicaset")

    def written() -> None:
        if identity.replicaset_name != name:
            identity.replicaset_name = name
            schema.emit(IdentityChanged())

    _on_written(schema, written)

"""The trigger of `_cluster`: who is a member, and under which id (alter.cc on_replace_dd_cluster).

An id is taken as soon as its row is prepared, so that two who join at once get two ids, and is free again only when
the row that removes it is written; a row right behind that one may take it, for it stands behind it in the journal as
well. Our own id moves `Memtx.replica_id`, the origin of the rows we write.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.errors import Er, er
from headwater.store.cluster import Leave, Member, read_member
from headwater.store.context import Context, Source
from headwater.store.events import MemberAdded, MemberChanged, MemberRemoved, MembersWritten
from headwater.store.rowview import Row
from headwater.store.space import Space

if TYPE_CHECKING:
    from headwater.store.schema import Schema


def replaced(schema: Schema, _cluster: Space, old: bytes | None, new: bytes | None, ctx: Context) -> None:
    given = read_member(Row(new)) if new is not None else None
    known = read_member(Row(old)) if old is not None else None
    if given is not None and known is not None:
        _update(schema, known, given)
    elif given is not None:
        if ctx.source is Source.CLIENT:
            schema.check_member(given)
        _insert(schema, given)
    elif known is not None:
        _delete(schema, known, ctx)


def _is_self(schema: Schema, member: Member) -> bool:
    return schema.identity.instance_uuid == member.uuid


def _insert(schema: Schema, member: Member) -> None:
    rival = schema.cluster.by_id(member.id)
    if rival is not None and member.id in schema.cluster.leaving:
        if rival.uuid == member.uuid:
            _stay(schema, rival, member)
            return
        _make_room(schema, rival)
    elif rival is not None:
        what = f"more than 1 replica with the same ID {member.id}: new uuid - {member.uuid}, old uuid - {rival.uuid}"
        raise er(Er.UNSUPPORTED, "Tarantool", what)
    _check_name(schema, Member(member.id, member.uuid), member.name)
    _add(schema, member)
    schema.undo(lambda: _remove(schema, member, is_undone=True), lambda: schema.emit(MembersWritten()))


def _stay(schema: Schema, before: Member, now: Member) -> None:
    """It was taken back before its removal was written: rows of a peer come as fast as that."""
    _check_name(schema, before, now.name)
    leave = schema.cluster.leaving.pop(before.id)
    if now != before:
        _change(schema, before, now)

    def rollback() -> None:
        if now != before:
            _change(schema, now, before)
        if leave.is_written:
            _remove(schema, before)
        else:
            schema.cluster.leaving[before.id] = leave

    schema.undo(rollback, lambda: schema.emit(MembersWritten()))


def _make_room(schema: Schema, leaving: Member) -> None:
    """The id goes to another before the removal is written."""
    leave = schema.cluster.leaving.pop(leaving.id)
    _remove(schema, leaving)

    def rollback() -> None:
        if not leave.is_written:
            _add(schema, leaving)
            schema.cluster.leaving[leaving.id] = leave

    schema.undo(rollback)


def _add(schema: Schema, member: Member) -> None:
    schema.cluster.put(member)
    if _is_self(schema, member):
        schema.memtx.replica_id = member.id
    schema.emit(MemberAdded(member))


def _remove(schema: Schema, member: Member, *, is_undone: bool = False) -> None:
    schema.cluster.remove(member.id)
    if _is_self(schema, member):
        schema.memtx.replica_id = 0
    schema.emit(MemberRemoved(member, is_undone))


def _check_name(schema: Schema, member: Member, name: str) -> None:
    """Names are unique, and ours is what the options say (on_replace_dd_cluster_set_name)."""
    if member.name == name:
        return
    own_name = schema.identity.instance_name
    kept = _is_self(schema, member) and schema.is_configured and own_name and not schema.force_recovery
    if kept and name != own_name:
        raise er(Er.UNSUPPORTED, "Tarantool", "replica rename or name drop")
    other = schema.cluster.by_name(name)
    if other is not None:
        raise er(Er.INSTANCE_NAME_DUPLICATE, name, str(other.uuid))


def _update(schema: Schema, old: Member, new: Member) -> None:
    """Another name; or another UUID for a member that has a name and is not here any more."""
    if new.uuid != old.uuid:
        _check_uuid(schema, old, new)
    _check_name(schema, replace(old, uuid=new.uuid), new.name)
    if new == old:
        return
    _change(schema, old, new)
    schema.undo(lambda: _change(schema, new, old))


def _change(schema: Schema, old: Member, new: Member) -> None:
    schema.cluster.put(new)
    if _is_self(schema, new):
        schema.memtx.replica_id = new.id
    elif _is_self(schema, old):
        schema.memtx.replica_id = 0
    schema.emit(MemberChanged(old, new))


def _check_uuid(schema: Schema, old: Member, new: Member) -> None:
    """on_replace_dd_cluster_update, on_replace_dd_cluster_set_uuid."""
    if _is_self(schema, old):
        raise er(Er.UNSUPPORTED, "Replica", "own UUID update in _cluster")
    if schema.has_connections(old.uuid):
        raise er(Er.UNSUPPORTED, "Replica", "UUID update when the old replica is still here")
    if not old.name:
        raise er(Er.UNSUPPORTED, "Replica without a name", "UUID update")
    if schema.cluster.by_uuid(new.uuid) is not None:
        raise er(Er.UNSUPPORTED, "Replica", "UUID update when the new UUID is already registered")
    if new.name != old.name:
        raise er(Er.UNSUPPORTED, "Replica", "UUID and name update together")


def _delete(schema: Schema, member: Member, ctx: Context) -> None:
    """Nobody throws himself out; others may, and recovery repeats what they did."""
    if member.id == schema.memtx.replica_id and ctx.source in (Source.CLIENT, Source.BOOTSTRAP):
        raise er(Er.LOCAL_INSTANCE_ID_IS_READ_ONLY, member.id)

    leave = schema.cluster.leaving[member.id] = Leave()

    def rollback() -> None:
        schema.cluster.leaving.pop(member.id, None)

    def written() -> None:
        leave.is_written = True
        if schema.cluster.leaving.get(member.id) is leave:
            del schema.cluster.leaving[member.id]
            _remove(schema, member)
        schema.emit(MembersWritten())

    schema.undo(rollback, written)

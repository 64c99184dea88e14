"""Which built-in procedure a name means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from headwater.box.procedures import data, functions, indexes, instance, sequences, spaces, users
from headwater.box.procedures.context import Context
from headwater.box.procedures.names import Path, parse_path
from headwater.errors import Er, er
from headwater.store.definitions import IndexDef
from headwater.store.space import Space
from headwater.typing import IndexId

Built = Callable[..., Any]

GLOBALS = frozenset({"box"})
"""First steps of names that are built in: a privilege on all of lua_call does not reach them
(lua/init.c, tarantool_lua_is_builtin_global)."""

PROCEDURES: Mapping[str, Built] = MappingProxyType(
    {
        "box.info": instance.box_info,
        "box.info.memory": instance.memory,
        "box.info.gc": instance.gc,
        "box.info.replication_anon": instance.replication_anon,
        "box.info.vinyl": instance.vinyl,
        "box.info.sql": instance.sql,
        "box.cfg": instance.cfg,
        "box.snapshot": instance.snapshot,
        "box.backup.start": instance.backup_start,
        "box.backup.stop": instance.backup_stop,
        "box.backup.info": instance.backup_info,
        "box.stat": instance.stat,
        "box.stat.net": instance.stat_net,
        "box.stat.reset": instance.stat_reset,
        "box.slab.info": instance.slab_info,
        "box.ctl.wait_rw": instance.wait_rw,
        "box.ctl.wait_ro": instance.wait_ro,
        "box.ctl.make_bootstrap_leader": instance.make_bootstrap_leader,
        "box.ctl.replica_gc": instance.replica_gc,
        "box.ctl.is_recovery_finished": instance.is_recovery_finished,
        "box.ctl.wal_sync": instance.wal_sync,
        "box.session.id": instance.session_id,
        "box.session.type": instance.session_type,
        "box.session.uid": instance.session_uid,
        "box.session.euid": instance.session_euid,
        "box.session.user": instance.session_user,
        "box.session.effective_user": instance.session_effective_user,
        "box.session.peer": instance.session_peer,
        "box.broadcast": instance.broadcast,
        "box.schema.space.create": spaces.create,
        "box.schema.create_space": spaces.create,
        "box.schema.space.drop": spaces.drop,
        "box.schema.space.rename": spaces.rename,
        "box.schema.space.alter": spaces.alter,
        "box.schema.space.format": spaces.format_of,
        "box.schema.index.create": indexes.create,
        "box.schema.index.drop": indexes.drop,
        "box.schema.index.rename": indexes.rename,
        "box.schema.index.alter": indexes.alter,
        "box.schema.sequence.create": sequences.create,
        "box.schema.sequence.alter": sequences.alter,
        "box.schema.sequence.drop": sequences.drop,
        "box.schema.user.create": users.create_user,
        "box.schema.user.drop": users.drop_user,
        "box.schema.user.exists": users.user_exists,
        "box.schema.user.grant": users.grant_user,
        "box.schema.user.revoke": users.revoke_user,
        "box.schema.user.info": users.user_info,
        "box.schema.user.passwd": users.passwd,
        "box.schema.user.password": users.password,
        "box.schema.user.enable": users.enable,
        "box.schema.user.disable": users.disable,
        "box.schema.role.create": users.create_role,
        "box.schema.role.drop": users.drop_role,
        "box.schema.role.exists": users.role_exists,
        "box.schema.role.grant": users.grant_role,
        "box.schema.role.revoke": users.revoke_role,
        "box.schema.role.info": users.role_info,
        "box.schema.func.create": functions.create,
        "box.schema.func.drop": functions.drop,
        "box.schema.func.exists": functions.exists,
        "box.schema.func.call": functions.call,
    }
)


def _by_id(procedure: Built) -> Built:
    """A procedure of `box.schema.space` as a method."""
    return lambda ctx, space, *args: procedure(ctx, space.id, *args)


SPACE_METHODS: Mapping[str, Built] = MappingProxyType(
    {
        "create_index": _by_id(indexes.create),
        "drop": lambda ctx, space, *_: spaces.drop(ctx, space.id, space.name),
        "rename": _by_id(spaces.rename),
        "alter": _by_id(spaces.alter),
        "format": _by_id(spaces.format_of),
        "truncate": lambda ctx, space, *_: spaces.truncate(ctx, space),
        "bsize": lambda ctx, space, *_: data.space_bytes(ctx, space),
        "insert": data.insert,
        "replace": data.replace,
        "put": data.replace,
        "upsert": data.upsert,
        "auto_increment": data.auto_increment,
    }
)
"""Called with the space."""

_OF_PRIMARY: Mapping[str, Built] = MappingProxyType(
    {"select": data.select, "get": data.get, "update": data.update, "delete": data.delete}
)
"""Methods of a space that are those of its primary index."""

_OF_PRIMARY_OR_ZERO: Mapping[str, Built] = MappingProxyType({"len": data.length, "count": data.count})
"""The same, and 0 while there is none."""

INDEX_METHODS: Mapping[str, Built] = MappingProxyType(
    {
        **_OF_PRIMARY,
        **_OF_PRIMARY_OR_ZERO,
        "min": data.minimum,
        "max": data.maximum,
        "random": data.random,
        "bsize": data.index_bytes,
        "drop": lambda ctx, space, index, *_: indexes.drop(ctx, space.id, index.id),
        "rename": lambda ctx, space, index, *args: indexes.rename(ctx, space.id, index.id, *args),
        "alter": lambda ctx, space, index, *args: indexes.alter(ctx, space.id, index.id, *args),
    }
)
"""Called with the space and the index."""

SEQUENCE_METHODS: Mapping[str, Built] = MappingProxyType(
    {
        "next": sequences.next_value,
        "set": sequences.set_value,
        "reset": sequences.reset_value,
        "current": sequences.current_value,
        "alter": lambda ctx, sequence, *args: sequences.alter(ctx, sequence.name, *args),
        "drop": lambda ctx, sequence, *args: sequences.drop(ctx, sequence.name, *args),
    }
)
"""Called with the sequence."""


def is_builtin(name: str) -> bool:
    path = parse_path(name)
    return path is not None and path[0] in GLOBALS


def find(ctx: Context, name: str) -> Built | None:
    """The procedure that takes the context and the arguments of the call; None if there is none by that name."""
    path = parse_path(name)
    if path is None:
        return None
    match path:
        case ("box", "space", space, "index", index, str(method)):
            return _index_method(ctx, space, index, method)
        case ("box", "space", space, str(method)):
            return _space_method(ctx, space, method)
        case ("box", "sequence", sequence, str(method)):
            return _sequence_method(ctx, sequence, method)
    return PROCEDURES.get(dotted(path))


def dotted(path: Path) -> str:
    return ".".join(map(str, path))


def _space_method(ctx: Context, name: str | int, method: str) -> Built | None:
    space = ctx.lookup_space(name)
    if space is None:
        return None
    if method in SPACE_METHODS:
        return _bound(SPACE_METHODS[method], space)
    primary = space.pk
    if method in _OF_PRIMARY_OR_ZERO:
        return _bound(_OF_PRIMARY_OR_ZERO[method], space, primary) if primary else lambda ctx, *_: 0
    if method not in _OF_PRIMARY:
        return None
    if primary is None:
        raise er(Er.NO_SUCH_INDEX_ID, 0, space.name)
    return _bound(_OF_PRIMARY[method], space, primary)


def _index_method(ctx: Context, space_name: str | int, name: str | int, method: str) -> Built | None:
    space = ctx.lookup_space(space_name)
    index = _index(space, name) if space is not None else None
    if space is None or index is None or method not in INDEX_METHODS:
        return None
    return _bound(INDEX_METHODS[method], space, index)


def _index(space: Space, name: str | int) -> IndexDef | None:
    if isinstance(name, int):
        return space.indexes.get(IndexId(name))
    return next((index for index in space.indexes.values() if index.name == name), None)


def _sequence_method(ctx: Context, name: str | int, method: str) -> Built | None:
    if method not in SEQUENCE_METHODS:
        return None
    for sequence in ctx.host.schema.sequences.values():
        if name in (sequence.name, sequence.id):
            return _bound(SEQUENCE_METHODS[method], sequence)
    return None


def _bound(procedure: Built, *objects: Any) -> Built:
    return lambda ctx, *args: procedure(ctx, *objects, *args)

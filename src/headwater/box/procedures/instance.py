"""Procedures about the node as a whole and the session: `box.info`, `box.cfg`, `box.snapshot`, `box.session`, …"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable
from typing import Any
from uuid import UUID

from headwater.box import info
from headwater.box.procedures.arguments import illegal, is_table, lua_type, pairs
from headwater.box.procedures.context import Context
from headwater.errors import Er, SystemError_, er
from headwater.options.checks import addresses
from headwater.wire.msgpack import pack

log = logging.getLogger("headwater.cfg")

_RO_POLL = 0.05
"""Seconds between two looks at whether the node is read-only."""
UUID_LENGTH = 36
"""Of its text (tt_uuid_from_string); others write it otherwise, too."""


# ---- box.info ---------------------------------------------------------------------------------------


def box_info(ctx: Context) -> dict[str, Any]:
    return info.box_info(ctx.host)


def memory(ctx: Context) -> dict[str, int]:
    return info.memory(ctx.host)


def gc(ctx: Context) -> dict[str, Any]:
    return info.gc(ctx.host)


def replication_anon(ctx: Context) -> dict[str, Any]:
    return info.replication_anon(ctx.host)


def vinyl(ctx: Context) -> dict[str, Any]:
    raise er(Er.UNSUPPORTED, "Headwater", "the vinyl engine")


def sql(ctx: Context) -> dict[str, Any]:
    return {"cache": {"size": 0, "stmt_count": 0}}


def slab_info(ctx: Context) -> dict[str, Any]:
    return info.slab_info(ctx.host)


# ---- box.cfg ----------------------------------------------------------------------------------------


def cfg(ctx: Context, changes: Any = None) -> dict[str, Any] | Awaitable[None]:
    """Without arguments all options that have a value; with a map it sets dynamic ones, all or none."""
    options = ctx.host.options
    if changes is None:
        return {name: value for name, value in options.as_map().items() if value is not None}
    if not is_table(changes):
        raise er(Er.PROC_LUA, "Error: cfg should be a table")
    planned = options.plan({str(name): value for name, value in pairs(changes)})
    return _reconfigure(ctx, planned)


async def _reconfigure(ctx: Context, planned: dict[str, Any]) -> None:
    options = ctx.host.options
    before = {name: getattr(options, name) for name in planned}
    options.assign(planned)
    changes = {name: value for name, value in planned.items() if value != before[name]}
    try:
        await ctx.host.reconfigure(changes)
    except OSError as error:
        options.assign(before)
        raise SystemError_(f"box.cfg: {error.strerror or error}") from error
    except BaseException:
        options.assign(before)
        raise
    for name, value in changes.items():
        shown = [str(uri) for uri in addresses(value)] if name in ("listen", "replication") else value
        log.info("set '%s' configuration option to %s", name, json.dumps(shown))


# ---- files ------------------------------------------------------------------------------------------


async def snapshot(ctx: Context) -> str:
    """Returns once the snapshot is on the disk."""
    await ctx.host.checkpoint()
    return "ok"


async def backup_start(ctx: Context, given: Any = None) -> list[str]:
    """box.backup.start: the files to copy; they stay until box.backup.stop."""
    index, from_vclock, ttl = 0, None, 0.0
    if lua_type(given) == "number":
        index = int(given)
        if index < 0:
            raise illegal("invalid checkpoint index")
    elif is_table(given):
        table = dict(pairs(given))
        from_vclock = _vclock(table.get("from_vclock"))
        ttl = _ttl(table.get("ttl"))
    elif given is not None:
        raise illegal("expected number or table as 1 argument")
    return await ctx.host.backups.start(index, from_vclock, ttl)


def backup_stop(ctx: Context) -> None:
    ctx.host.backups.stop()


def backup_info(ctx: Context) -> dict[str, Any] | None:
    shown = ctx.host.backups.info()
    return None if shown is None else dict(shown)


def _vclock(value: Any) -> dict[int, int] | None:
    if value is None:
        return None
    if not is_table(value) or any(lua_type(part) != "number" for pair in pairs(value) for part in pair):
        raise illegal("invalid from_vclock")
    return {int(replica): int(lsn) for replica, lsn in pairs(value)}


def _ttl(value: Any) -> float:
    if value is None:
        return 0.0
    if lua_type(value) != "number" or value <= 0:
        raise illegal("invalid ttl")
    return float(value)


# ---- box.stat ---------------------------------------------------------------------------------------


def stat(ctx: Context) -> dict[str, Any]:
    ctx.host.stats.refresh()
    return ctx.host.stats.requests.shown()


def stat_net(ctx: Context) -> dict[str, Any]:
    return ctx.host.stats.net.shown(current=True)


def stat_reset(ctx: Context) -> None:
    ctx.host.stats.reset()


# ---- box.ctl ----------------------------------------------------------------------------------------


async def wait_rw(ctx: Context, timeout: Any = None) -> None:
    await _wait(ctx, timeout, read_only=False)


async def wait_ro(ctx: Context, timeout: Any = None) -> None:
    await _wait(ctx, timeout, read_only=True)


async def _wait(ctx: Context, timeout: Any, *, read_only: bool) -> None:
    if timeout is not None and lua_type(timeout) != "number":
        raise illegal(f"bad argument #1 (number expected, got {lua_type(timeout)})")
    tasks = ctx.host.world.tasks
    try:
        async with tasks.timeout(None if timeout is None else max(0.0, float(timeout))):
            while (ctx.host.facts().ro_reason is not None) is not read_only:
                await tasks.sleep(_RO_POLL)
    except TimeoutError:
        raise er(Er.TIMEOUT) from None


async def make_bootstrap_leader(ctx: Context, options: Any = None) -> None:
    """Create the replica set here, with `bootstrap_strategy: supervised` (box.ctl.make_bootstrap_leader)."""
    if options is not None and not is_table(options):
        raise illegal("Usage: box.ctl.make_bootstrap_leader([{graceful = boolean}])")
    graceful = options.get("graceful", False) if isinstance(options, dict) else False
    if not isinstance(graceful, bool):
        raise illegal("Usage: box.ctl.make_bootstrap_leader([{graceful = boolean}])")
    await ctx.host.make_bootstrap_leader(graceful=graceful)


async def replica_gc(ctx: Context, uuid: Any = None) -> None:
    """Keep no journal files for a replica that is away (box.ctl.replica_gc)."""
    if lua_type(uuid) != "string":
        raise illegal(f"bad argument #1 to 'replica_gc' (string expected, got {lua_type(uuid)})")
    if len(uuid) != UUID_LENGTH or not (parsed := _uuid(uuid)):
        raise illegal(f"Invalid UUID: {uuid}")
    if ctx.txn is not None:
        raise er(Er.ACTIVE_TRANSACTION)
    await ctx.host.forget_replica(parsed)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def is_recovery_finished(ctx: Context) -> bool:
    """Clients are served after recovery only."""
    return ctx.host.schema.is_configured


async def wal_sync(ctx: Context) -> None:
    """Returns once everything written so far is in the journal."""
    await ctx.host.settled()


# ---- box.session ------------------------------------------------------------------------------------


def session_id(ctx: Context) -> int:
    return ctx.session.id


def session_type(ctx: Context) -> str:
    return ctx.session.type


def session_uid(ctx: Context) -> int:
    return ctx.session.user.id


def session_euid(ctx: Context) -> int:
    return ctx.effective.id


def session_user(ctx: Context) -> str:
    return ctx.session.user.name


def session_effective_user(ctx: Context) -> str:
    return ctx.effective.name


def session_peer(ctx: Context, session: Any = None) -> str | None:
    return ctx.session.peer


def broadcast(ctx: Context, key: Any = None, *value: Any) -> None:
    """box.broadcast(key, value): what watchers of the key see from now on."""
    if not isinstance(key, str) or len(value) != 1:
        raise illegal("Usage: box.broadcast(key, value)")
    ctx.host.watchers.broadcast(key, None if value[0] is None else pack(value[0]))

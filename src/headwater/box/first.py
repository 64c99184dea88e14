"""The contents of the first member of a new replica set (box.cc, bootstrap_master)."""

from __future__ import annotations

import logging
from uuid import UUID

from headwater.box.execute import Statements
from headwater.options import Options
from headwater.store import system
from headwater.store.bootstrap import bootstrap_rows, master_rows
from headwater.store.context import Source
from headwater.store.schema import Schema
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row

log = logging.getLogger("headwater.box")

SELF_ID = 1


def version_of(options: Options) -> tuple[int, int, int]:
    """Of the system spaces that a new set gets."""
    major, minor, patch = (int(part) for part in options.schema_version.split("."))
    return major, minor, patch


def fill(
    schema: Schema, statements: Statements, options: Options, uuid: UUID, set_uuid: UUID, *, now: float = 0.0
) -> None:
    """Everything that the first snapshot has. The store must be empty; it makes no rows for a journal."""
    version = version_of(options)
    log.info("bootstrapping replica set %s, schema %s", set_uuid, options.schema_version)
    schema.begin_snapshot()
    for space_id, data in bootstrap_rows(version):
        _load(statements, space_id, data, Source.SNAPSHOT)
    schema.end_snapshot()
    for space_id, data in master_rows(
        version,
        uuid,
        set_uuid,
        instance_name=options.instance_name or "",
        replicaset_name=options.replicaset_name or "",
        cluster_name=options.cluster_name or "",
    ):
        _load(statements, space_id, data, Source.BOOTSTRAP)
    if options.bootstrap_strategy == "supervised":
        _load(statements, system.SCHEMA, pack(leader_row(uuid, now, SELF_ID)), Source.BOOTSTRAP)
    schema.memtx.confirm_to(schema.memtx.undo_end)
    schema.memtx.replica_id = SELF_ID


def leader_row(uuid: UUID, now: float, replica_id: int) -> list[object]:
    """Whom newcomers join, with the strategy `supervised` (box_set_bootstrap_leader_record)."""
    return ["bootstrap_leader_uuid", str(uuid), int(now * 1_000_000), replica_id]


def _load(statements: Statements, space_id: int, data: bytes, source: Source) -> None:
    body = pack({Key.SPACE_ID: space_id})[1:] + pack(int(Key.TUPLE)) + data
    statements.recover([Row(Type.INSERT, body=b"\x82" + body)], source)

"""Which spaces a snapshot keeps, which a join sends, and what else a snapshot tells."""

from __future__ import annotations

from headwater.journal import SystemRow
from headwater.limbo.queue import SyncQueue
from headwater.raft.state import Persistent
from headwater.store.schema import Schema
from headwater.store.space import Space
from headwater.wire.synchro import encode_raft, encode_synchro

RAFT_SINCE = (2, 6, 2)
"""Versions of the system spaces before cannot read rows of elections and of the queue."""


def kept_spaces(schema: Schema) -> list[int]:
    """All whose tuples a snapshot keeps, in ascending order. The view is to be opened in the same turn."""
    schema.store_sequences()
    return sorted(int(space.id) for space in schema.spaces.values() if _is_kept(space))


def sent_spaces(schema: Schema) -> list[int]:
    """The same for a join (memtx_engine.cc, memtx_engine_prepare_join): local spaces are each node's own."""
    schema.store_sequences()
    return sorted(int(space.id) for space in schema.spaces.values() if _is_kept(space) and not space.is_local)


def _is_kept(space: Space) -> bool:
    return space.kernel is not None and not space.is_temporary and space.pk is not None


def system_rows(schema: Schema, election: Persistent, queue: SyncQueue) -> list[SystemRow]:
    """State of election and queue."""
    if schema.identity.dd_version < RAFT_SINCE:
        return []
    rows = [encode_raft(election.checkpoint()), encode_synchro(queue.checkpoint())]
    return [SystemRow(row.type, row.group_id, row.body) for row in rows]

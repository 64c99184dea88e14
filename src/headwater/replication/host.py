"""What replication asks of the instance it belongs to. `Box` fulfils it; tests fulfil it with less."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from headwater.journal import Gc, Journal, Settings
from headwater.kernels import Memtx
from headwater.limbo.queue import SyncQueue
from headwater.options import Options
from headwater.raft.state import Persistent
from headwater.store.context import Source
from headwater.store.schema import Schema
from headwater.wire.ballot import Ballot
from headwater.wire.xrow import Row
from headwater.world import World

if TYPE_CHECKING:
    from headwater.replication.conflict import First, Judge
    from headwater.replication.consumers import Consumers
    from headwater.replication.ids import ReplicaIds
    from headwater.replication.replicaset import Replicaset
    from headwater.replication.ship import Ship


class Statements(Protocol):
    """`box.execute.Statements`, as far as rows of peers go through it."""

    def apply(self, rows: Sequence[Row], judge: Judge | None = None) -> None:
        """A whole transaction of a peer: all of it is prepared, in the peer's numbering, or nothing (BoxError). `judge`
        has a say about each row, and may want something done first (`First`)."""

    def recover(self, rows: Sequence[Row], source: Source) -> None:
        """Rows of a join (SNAPSHOT, later XLOG) that the compiled path left. They write no row. Their undo stays until
        the caller confirms it (`memtx.confirm_to(memtx.undo_end)`)."""


class Conflicts(Protocol):
    """What is done about rows of peers that do not fit."""

    @property
    def judge(self) -> Judge:
        """By the options as they are now."""

    async def do_first(self, first: First) -> None:
        """What a transaction waits for. BoxError if it cannot be done."""


class Host(Protocol):
    """One node."""

    world: World
    options: Options
    settings: Settings
    memtx: Memtx
    schema: Schema
    journal: Journal
    gc: Gc
    election: Persistent
    """Term and vote as they are in the files."""
    queue: SyncQueue
    """Of synchronous transactions."""

    @property
    def statements(self) -> Statements: ...

    @property
    def replicaset(self) -> Replicaset: ...

    @property
    def ship(self) -> Ship: ...

    @property
    def ids(self) -> ReplicaIds | None:
        """Numberings of this node and its peers; None where the set shares one (`replica_ids`)."""

    @property
    def consumers(self) -> Consumers: ...

    @property
    def conflicts(self) -> Conflicts: ...

    @property
    def uuid(self) -> UUID:
        """Of the instance; known before the first connection is made."""

    @property
    def replicaset_uuid(self) -> UUID:
        """Nil before it is known."""

    @property
    def is_ready(self) -> bool:
        """Recovered or bootstrapped: peers may be served. Before that they are told LOADING."""

    @property
    def is_read_only(self) -> bool: ...

    @property
    def needs_own_rows(self) -> bool:
        """It waits for rows that it wrote and lost, or is an orphan: then a SUBSCRIBE has an empty id filter."""

    def check_writable(self) -> None:
        """READONLY if the node cannot take a row of a client now."""

    def ballot(self) -> Ballot: ...

    def register(self, uuid: UUID, name: str) -> Awaitable[None]:
        """Give this instance an id: a row in `_cluster`, or the name in the row that it has. Returns when it is
        written; BoxError as a client would get it (READONLY, REPLICA_MAX, WAL_IO, INSTANCE_NAME_DUPLICATE)."""

    def apply_synchro(self, row: Row) -> Awaitable[None]:
        """CONFIRM, ROLLBACK, PROMOTE or DEMOTE of a peer: the queue knows, and the row is prepared. What it takes back
        is waited for."""

    def take_raft(self, row: Row) -> None:
        """A RAFT message of the peer with the id `row.replica_id`."""

    def picture(self) -> Sequence[int]:
        """Ids of the spaces that a JOIN sends, ascending, sequences stored: neither local nor temporary ones. The view
        is opened right after, in the same turn."""

    def collect_garbage(self) -> Awaitable[None]:
        """Remove the files that nobody needs any more (`Checkpointer.collect`)."""

    def followed(self, error: Exception | None) -> None:
        """A batch of an applier was written, or could not be: told once for each failed batch, so that every applier
        starts anew with the shared error."""

    def vclock_moved(self) -> None:
        """Rows of peers were written: waits for vclocks look again."""

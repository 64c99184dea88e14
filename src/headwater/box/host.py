"""What a called procedure asks of the instance that runs it.

`Box` and the session of a connection fulfil these Protocols; tests of procedures fulfil them with less. A procedure
sees the instance through `headwater.box.procedures.Context`, which stands on this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from headwater.box.execute import Statements
from headwater.box.stat import Stats
from headwater.box.watchers import Watchers
from headwater.kernels import Memtx
from headwater.options import Options
from headwater.store.schema import Schema
from headwater.store.users import User
from headwater.world import World

if TYPE_CHECKING:
    from headwater.box.info import Facts


class Session(Protocol):
    """Who calls: one connection, or the node itself."""

    @property
    def id(self) -> int: ...

    @property
    def user(self) -> User:
        """The user that logged in."""

    @property
    def type(self) -> str:
        """'binary' for a connection, 'background' for the node itself (session.h, session_type_strs)."""

    @property
    def peer(self) -> str | None:
        """host:port or unix/:path of the other side; None for the node itself."""


class Backups(Protocol):
    """Files that may not be removed while somebody copies them (box.cc, box_backup_start)."""

    def start(self, checkpoint: int, from_vclock: Mapping[int, int] | None, ttl: float) -> Awaitable[list[str]]:
        """Paths of the files of a backup: of the newest snapshot but `checkpoint`, or of the journal since a vclock.
        BACKUP_IN_PROGRESS if there is one, MISSING_SNAPSHOT if there are not so many."""

    def stop(self) -> None: ...

    def info(self) -> Mapping[str, Any] | None:
        """files, vclock, type; None if no backup was started."""


class Host(Protocol):
    """The instance, as far as procedures look into it or act on it as a whole."""

    world: World
    options: Options
    memtx: Memtx
    schema: Schema
    statements: Statements
    stats: Stats
    watchers: Watchers

    @property
    def backups(self) -> Backups: ...

    def settled(self) -> Awaitable[None]:
        """Returns once everything that is prepared now is in the journal; BoxError if it could not be written."""

    def facts(self) -> Facts:
        """What `box.info` shows."""

    def checkpoint(self) -> Awaitable[None]:
        """Make a snapshot of what is written now; BoxError CHECKPOINT_IN_PROGRESS while one is made."""

    def make_bootstrap_leader(self, *, graceful: bool = False) -> Awaitable[None]:
        """Make the replica set, or be the member that newcomers join; UNSUPPORTED unless the strategy is
        `supervised`. `graceful`: only if no peer is that already."""

    def forget_replica(self, uuid: UUID) -> Awaitable[None]:
        """Keep no files more for it; returns when that is written. REPLICA_GC while it is connected."""

    def reconfigure(self, changes: Mapping[str, Any]) -> Awaitable[None]:
        """These dynamic options have just got these values: act on it. A BoxError takes all of them back."""

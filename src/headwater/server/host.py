"""What the server asks of the instance that it serves. `Box` fulfils it; tests of sessions fulfil it with less."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol
from uuid import UUID

from headwater.box.execute import Statements
from headwater.box.readonly import ReadOnly
from headwater.box.stat import Stats
from headwater.box.watchers import Watchers
from headwater.errors import BoxError
from headwater.kernels import Memtx
from headwater.options import Options
from headwater.replication.channel import Channel
from headwater.store.schema import Schema
from headwater.store.users import User
from headwater.txn import Transaction
from headwater.wire.ballot import Ballot
from headwater.wire.request import Request
from headwater.world import World


class Journal(Protocol):
    """`journal.Journal`, as far as replies wait for it."""

    def settle(self, waiter: Callable[[BoxError | None], object]) -> None: ...

    @property
    def full(self) -> bool: ...

    def when_room(self, call: Callable[[], object]) -> None: ...


class Procedures(Protocol):
    """`box.call.Calls`."""

    def call(
        self, request: Request, session: Any, txn: Transaction | None = None
    ) -> list[bytes] | Coroutine[Any, Any, list[bytes]]: ...


class Instance(Protocol):
    """One node, seen from its connections."""

    world: World
    options: Options
    memtx: Memtx
    schema: Schema
    statements: Statements
    watchers: Watchers
    read_only: ReadOnly
    stats: Stats

    @property
    def journal(self) -> Journal: ...

    @property
    def procedures(self) -> Procedures: ...

    @property
    def uuid(self) -> UUID:
        """Of the instance; nil before it is known."""

    @property
    def is_ready(self) -> bool:
        """Everything is recovered: requests may look at data."""

    def ballot(self) -> Ballot:
        """The answer to VOTE."""

    def make_bootstrap_leader(self, *, graceful: bool = False) -> Awaitable[None]:
        """Of a node without data: it is to make the replica set."""

    def serve_peer(self, request: Request, user: User, channel: Channel) -> Coroutine[Any, Any, None]:
        """A request of replication (`replication.serve.serve`): it has the connection until it returns."""

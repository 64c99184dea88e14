"""A node without journal and connections whose procedures can be called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from tests.txn.node import Node

from headwater.box.call import Calls
from headwater.box.info import Checkpoint, Facts
from headwater.box.stat import Stats
from headwater.box.watchers import Watchers
from headwater.env import run
from headwater.errors import BoxError, Er, er
from headwater.store.users import User
from headwater.txn import Transaction
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.request import Request
from headwater.wire.xrow import Row
from headwater.world import World


class Client:
    """A session."""

    def __init__(self, user: User) -> None:
        self.id = 7
        self.user = user
        self.type = "binary"
        self.peer = "127.0.0.1:40000"


class HandBackups:
    def __init__(self) -> None:
        self.asked: tuple[Any, ...] | None = None

    async def start(self, checkpoint: int, from_vclock: Mapping[int, int] | None, ttl: float) -> list[str]:
        if self.asked is not None:
            raise er(Er.BACKUP_IN_PROGRESS)
        self.asked = (checkpoint, from_vclock, ttl)
        return ["a.snap", "b.xlog"]

    def stop(self) -> None:
        self.asked = None

    def info(self) -> Mapping[str, Any] | None:
        return None if self.asked is None else {"files": ["a.snap", "b.xlog"], "type": "full"}


class CallNode(Node):
    """`call` as a client does it; `world` is real while a call runs."""

    def __init__(self, procedures: Mapping[str, Callable[..., Any]] | None = None) -> None:
        super().__init__()
        self.stats = Stats()
        self.backups = HandBackups()
        self.calls = Calls(self, procedures)  # type: ignore[arg-type]
        self.client = Client(self.user)
        self.world: World
        self.watchers: Watchers
        self.settles = 0
        self.checkpoints = 0
        self.reconfigured: list[dict[str, Any]] = []
        self.forgotten: list[UUID] = []
        self.refuse: BoxError | OSError | None = None
        """What `reconfigure` raises."""
        self.schema.identity.instance_uuid = UUID("5ee27f1a-6eee-4d8c-8a31-0a4f0e0e2d6d")
        self.schema.identity.replicaset_uuid = UUID("6ee27f1a-6eee-4d8c-8a31-0a4f0e0e2d6d")

    # ---- what procedures ask of the instance -----------------------------------------------------------

    async def settled(self) -> None:
        self.settles += 1
        await asyncio.sleep(0)
        self.rows()

    async def checkpoint(self) -> None:
        self.checkpoints += 1
        await asyncio.sleep(0)

    async def forget_replica(self, uuid: UUID) -> None:
        self.forgotten.append(uuid)

    async def reconfigure(self, changes: Mapping[str, Any]) -> None:
        self.reconfigured.append(dict(changes))
        await asyncio.sleep(0)
        if self.refuse is not None:
            raise self.refuse

    def facts(self) -> Facts:
        lsns = {number: lsn for number, lsn in enumerate(self.memtx.vclock) if lsn}
        return Facts(
            status="running",
            id=1,
            vclock=lsns,
            ro_reason=self.read_only.reason,
            uptime=10.5,
            listening=["127.0.0.1:3301"],
            gc_vclock={1: 5},
            checkpoints=[Checkpoint({1: 5}, ["backup"])],
            pid=42,
            hostname="here",
        )

    # ---- calling ---------------------------------------------------------------------------------------

    def call(
        self,
        name: str,
        *args: Any,
        user: User | None = None,
        type: Type = Type.CALL,
        txn: Transaction | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> list[Any]:
        """The values of the reply. `meanwhile` runs while the procedure waits for the first time."""
        request = Request(Row(type), function=name, args=pack(list(args)))
        client = Client(user) if user is not None else self.client

        async def main(world: World) -> list[bytes]:
            self.world = world
            self.watchers = Watchers(world.tasks)
            if meanwhile is not None:
                world.tasks.soon(meanwhile)
            result = self.calls.call(request, client, txn)
            return result if isinstance(result, list) else await result

        return [unpack(value) for value in run(main)]

    def value(self, name: str, *args: Any, **more: Any) -> Any:
        """The only value."""
        values = self.call(name, *args, **more)
        assert len(values) == 1, values
        return values[0]

    def fails(self, name: str, *args: Any, **more: Any) -> BoxError:
        """Its error; nothing must be left behind in an open transaction."""
        try:
            self.call(name, *args, **more)
        except BoxError as error:
            return error
        raise AssertionError(f"{name} did not fail")

"""Peers that are made of a test: a replica that asks what it wants and a master that answers what it wants.

Bytes only, nothing of Headwater's own code. They are how one side of the protocol is shown what no real peer would do
on demand.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from tests.support import iproto
from tests.support.cluster import Node
from tests.support.iproto import Connection, Reply

OK, NOP, RAFT, PROMOTE = 0, 12, 30, 31
REPLICA_ID, LSN, TIMESTAMP, TSN, FLAGS, GROUP_ID = 2, 3, 4, 8, 9, 7
SERVER_VERSION, INSTANCE_UUID, REPLICASET_UUID, VCLOCK, BALLOT = 0x06, 0x24, 0x25, 0x26, 0x29
REPLICA_ANON, ID_FILTER = 0x50, 0x51
COMMIT = 1
VERSION_2_6_0 = 2 << 16 | 6 << 8


class Replica:
    """One connection to a node, as a replica has it."""

    def __init__(self, node: Node, uuid: str | None = None, login: tuple[str, str] | None = None) -> None:
        self.node = node
        self.uuid = uuid or str(uuid4())
        self.conn = node.connect()
        if login is not None:
            assert not self.conn.auth(*login).failed
        self.vclock: dict[int, int] = {}
        """What it has, by the rows that came."""

    # ---- requests

    def _send(self, type: int, body: Mapping[int, object]) -> None:
        self.conn.send(iproto.request(type, body, self.conn.next_sync()))

    def vote(self) -> dict[int, Any]:
        self._send(iproto.VOTE, {})
        ballot: dict[int, Any] = self._ok().body[BALLOT]
        return ballot

    def join(self, version: int | None = None) -> tuple[list[Reply], list[Reply]]:
        """Rows of the snapshot (with what stands among them), and rows of the final join."""
        body: dict[int, object] = {INSTANCE_UUID: self.uuid}
        if version is not None:
            body[SERVER_VERSION] = version
        self._send(iproto.JOIN, body)
        self._ok()
        snapshot, _ = self._until_ok()
        final, last = self._until_ok()
        self.vclock = dict(last.body[VCLOCK])
        return snapshot, final

    def fetch_snapshot(self) -> list[Reply]:
        self._send(iproto.FETCH_SNAPSHOT, {})
        self._ok()
        rows, last = self._until_ok()
        self.vclock = dict(last.body[VCLOCK])
        return rows

    def register(self) -> list[Reply]:
        self._send(iproto.REGISTER, {INSTANCE_UUID: self.uuid, VCLOCK: self.vclock})
        rows, last = self._until_ok()
        self.vclock = dict(last.body[VCLOCK])
        return rows

    def subscribe(
        self,
        vclock: Mapping[int, int] | None = None,
        *,
        replicaset: str | None = None,
        anon: bool = False,
        id_filter: list[int] | None = None,
        version: int = VERSION_2_6_0,
        without: tuple[int, ...] = (),
    ) -> Reply:
        """The answer: the master's own vclock and UUID. Rows are read with `row`."""
        self.ask_subscribe(
            vclock, replicaset=replicaset, anon=anon, id_filter=id_filter, version=version, without=without
        )
        return self._ok()

    def ask_subscribe(
        self,
        vclock: Mapping[int, int] | None = None,
        *,
        replicaset: str | None = None,
        anon: bool = False,
        id_filter: list[int] | None = None,
        version: int = VERSION_2_6_0,
        without: tuple[int, ...] = (),
    ) -> None:
        if vclock is not None:
            self.vclock = dict(vclock)
        body: dict[int, object] = {
            REPLICASET_UUID: replicaset or replicaset_uuid(self.node),
            INSTANCE_UUID: self.uuid,
            VCLOCK: self.vclock,
            SERVER_VERSION: version,
            REPLICA_ANON: anon,
        }
        if id_filter is not None:
            body[ID_FILTER] = id_filter
        self._send(iproto.SUBSCRIBE, {key: value for key, value in body.items() if key not in without})

    # ---- answers

    def _ok(self) -> Reply:
        reply = self.conn.read_reply()
        if reply.failed:
            raise iproto.ServerError(reply)
        return reply

    def _until_ok(self) -> tuple[list[Reply], Reply]:
        rows = []
        while True:
            reply = self._ok()
            if reply.type == OK:
                return rows, reply
            rows.append(reply)

    def packet(self, timeout: float = 20.0) -> Reply:
        """The next thing on a subscription, a heartbeat too; it is answered with an acknowledgement."""
        self.conn.socket.settimeout(timeout)
        reply = self._ok()
        if reply.header.get(LSN):
            self.vclock[reply.header[REPLICA_ID]] = reply.header[LSN]
        self.acknowledge()
        return reply

    def row(self, timeout: float = 20.0) -> Reply:
        """The next row, heartbeats passed over."""
        deadline = time.monotonic() + timeout
        while True:
            packet = self.packet(max(0.01, deadline - time.monotonic()))
            if packet.header.get(LSN):
                return packet

    def rows_to(self, vclock: Mapping[int, int], timeout: float = 20.0) -> list[Reply]:
        """All rows until that vclock is reached."""
        rows = []
        while any(self.vclock.get(id, 0) < lsn for id, lsn in vclock.items() if id):
            rows.append(self.row(timeout))
        return rows

    def acknowledge(self, vclock: Mapping[int, int] | None = None) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.conn.send(iproto.frame({0: OK}, {VCLOCK: self.vclock if vclock is None else dict(vclock)}))

    def close(self) -> None:
        self.conn.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def replicaset_uuid(node: Node) -> str:
    """Of the set that the node belongs to."""
    return next(str(row[1]) for row in node.rows(272) if row[0] in ("cluster", "replicaset_uuid"))


class Asker:
    """One connection of a node to a `Master`."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._link.settimeout(30)
        self._buffer = bytearray()

    def _read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            chunk = self._link.recv(1 << 16)
            if not chunk:
                raise iproto.ClosedError("the node closed the connection")
            self._buffer += chunk
        out = bytes(self._buffer[:size])
        del self._buffer[:size]
        return out

    def read(self) -> Reply:
        """The next request or acknowledgement."""
        head = self._read(5)
        assert head[0] == 0xCE, head.hex()
        payload = self._read(int.from_bytes(head[1:], "big"))
        parts = iproto.unpack_all(payload)
        return Reply(parts[0], parts[1] if len(parts) == 2 else {}, head + payload)

    def send(self, header: Mapping[int, object], body: Mapping[int, object] | bytes | None = None) -> None:
        self.send_bytes(iproto.frame(header, body))

    def send_bytes(self, data: bytes) -> None:
        self._link.sendall(data)

    def refuse(self, request: Reply, code: int, message: str) -> None:
        stack = {0: [{0: "ClientError", 1: "test", 2: 1, 3: message, 4: 0, 5: code}]}
        self.send({0: iproto.ERROR | code, 1: request.sync}, {iproto.ERROR_24: message, iproto.ERROR_STACK: stack})

    def heartbeat(self, id: int) -> None:
        self.send({0: OK, REPLICA_ID: id, TIMESTAMP: time.time()})

    def insert(
        self, id: int, lsn: int, space: int, row: list[object], *, tsn: int | None = None, is_last: bool = True
    ) -> None:
        """A row; `tsn` is the first LSN of its transaction where that has several rows."""
        header: dict[int, object] = {0: iproto.INSERT, REPLICA_ID: id, LSN: lsn, TIMESTAMP: time.time()}
        if tsn is not None:
            header[TSN] = lsn - tsn
            if is_last:
                header[FLAGS] = COMMIT
        self.send(header, {iproto.SPACE_ID: space, iproto.TUPLE: row})


class Master:
    """Listens; every connection is served by `serve` in a thread of its own until that returns."""

    def __init__(
        self,
        replicaset: str,
        feed: Callable[[Asker, Reply], None],
        *,
        uuid: str | None = None,
        id: int = 2,
        version: str = "2.6.0",
        greeting: bytes | None = None,
    ) -> None:
        """`feed` is called with the SUBSCRIBE once that is answered."""
        self.replicaset = replicaset
        self.uuid = uuid or str(uuid4())
        self.id = id
        self.vclock: dict[int, int] = {}
        self.requests: list[Reply] = []
        """All that came, of all connections."""
        self.accepted = 0
        self.errors: list[BaseException] = []
        line = f"Tarantool {version} (Binary) {self.uuid}"
        self.greeting = (f"{line:<63}\n" + f"{'A' * 43}=".ljust(63) + "\n").encode() if greeting is None else greeting
        self._feed = feed
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._links: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def uri(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                link, _ = self._listener.accept()
                self._links.append(link)
                self.accepted += 1
                thread = threading.Thread(target=self._serve, args=(link,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, link: socket.socket) -> None:
        try:
            asker = Asker(link)
            if self.greeting:
                asker.send_bytes(self.greeting)
            while self._answer(asker, asker.read()):
                pass
        except OSError:
            pass  # the node has gone, or the test has ended
        except BaseException as error:
            self.errors.append(error)
        finally:
            link.close()

    def _answer(self, asker: Asker, request: Reply) -> bool:
        self.requests.append(request)
        match request.type:
            case iproto.VOTE:
                ballot = {1: False, 2: self.vclock, 3: {}, 4: False}
                asker.send({0: OK, 1: request.sync}, {BALLOT: ballot})
            case iproto.AUTH | iproto.PING:
                asker.send({0: OK, 1: request.sync}, {})
            case iproto.SUBSCRIBE:
                answer = {REPLICASET_UUID: self.replicaset, VCLOCK: self.vclock}
                asker.send({0: OK, 1: request.sync, REPLICA_ID: self.id}, answer)
                asker.heartbeat(self.id)
                self._feed(asker, request)
                return False
            case other:
                asker.refuse(request, 48, f"Unknown request type {other}")
        return True

    def asked(self, type: int) -> list[Reply]:
        return [request for request in self.requests if request.type == type]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in self._links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None and self.errors:
            raise self.errors[0]


def idle(asker: Asker, request: Reply) -> None:
    """Feed nothing; take acknowledgements and answer with heartbeats until the node goes."""
    while True:
        asker.read()
        asker.heartbeat(2)


__all__ = ["Asker", "Connection", "Master", "Replica", "idle", "replicaset_uuid"]

"""What real 3.9 replicas asked of a real 3.9 master, asked of our node on that master's files: the same rows and fields
come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.replication.feeding import ADDRESS, Master
from tests.replication.test_applier_recordings import NODES, Recording, packets
from tests.wire.golden import GOLDEN, needs_golden

from headwater.kernels import frame_end
from headwater.replication.channel import GREETING_SIZE, Channel
from headwater.sim import Simulation
from headwater.wire import auth, greeting
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.xrow import Row, encode_row
from headwater.xlog import MAGIC_EOF, XLOG, BlockEncoder, Reader, file_name, rows

pytestmark = needs_golden

FILES = GOLDEN / "files"
SPEAKS = frozenset((Type.JOIN, Type.FETCH_SNAPSHOT, Type.REGISTER, Type.SUBSCRIBE))
"""Requests of replication."""


class RealFile:
    """A golden file, as a reader wants it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._data = path.read_bytes()

    def read_at(self, offset: int, size: int) -> bytes:
        return self._data[offset : offset + size]

    def size(self) -> int:
        return len(self._data)

    def close(self) -> None: ...


def head_of(path: Path) -> bytes:
    return path.read_bytes().split(b"\n\n", 1)[0] + b"\n\n"


def rows_of(path: Path) -> list[Row]:
    return [row for block in Reader(RealFile(path)) for row in rows(block, str(path))]


def log_of(path: Path, is_there: Callable[[Row], bool]) -> bytes:
    """The log with some of its rows, each row a transaction."""
    kept = [encode_row(row) for row in rows_of(path) if is_there(row)]
    blocks = b"".join(BlockEncoder().encode(data, [len(data)]) for data in kept)
    return head_of(path) + blocks + MAGIC_EOF


def serve(number: int, files: dict[str, bytes], test: Callable[[Master], Any]) -> None:
    """A node with these files, under the name that it had."""
    simulation = Simulation(1)
    master = Master(simulation, instance_uuid=str(NODES[number]), replication_timeout=1000.0)
    master.credentials = {}

    async def life() -> None:
        world = master.machine.boot()
        world.disk.makedirs("/data")
        for name, data in files.items():
            file = world.disk.create(f"/data/{name}")
            file.append(data)
            file.sync()
            file.close()
        master.machine.kill()
        await master.start()
        async with asyncio.timeout(3600):
            await test(master)

    try:
        simulation.run(life())
        assert not simulation.errors, simulation.errors
    finally:
        simulation.close()


class Client:
    """Says what a recorded client said. Its login is our own: the recorded one was made of another greeting's salt."""

    def __init__(self, master: Master, recording: Recording) -> None:
        self._master = master
        self._asked = recording.said("client")
        self.channel = Channel(master.peers_world.tasks)

    async def log_in(self) -> None:
        await self._master.peers_world.net.connect(ADDRESS, self.channel)
        said = greeting.decode(await self.channel.exactly(GREETING_SIZE))
        proof = auth.scramble("secret", said.salt)
        body = pack({int(Key.USER_NAME): "replicator", int(Key.TUPLE): ["chap-sha1", proof]})
        self.channel.send(Row(Type.AUTH, body=body))
        answer = await self.channel.packet()
        assert answer.type == Type.OK, unpack(answer.body)

    def ask(self, type: Type) -> None:
        """The first request of this kind, as it was recorded."""
        self.channel.send(next(row for row in self._asked if row.type == type))

    async def until_ok(self, count: int) -> list[Row]:
        """Packets up to that many OKs."""
        found: list[Row] = []
        while count:
            found.append(await self.channel.packet())
            assert not found[-1].is_error, unpack(found[-1].body)
            count -= found[-1].type == Type.OK
        return found

    async def log(self, *last: tuple[int, int]) -> list[Row]:
        """Rows of the log, up to those."""
        found: list[Row] = []
        missing = set(last)
        while missing:
            row = await self.channel.packet()
            assert not row.is_error, unpack(row.body)
            if row.lsn:
                found.append(row)
                missing.discard((row.replica_id, row.lsn))
        return found


def exchange(recording: Recording, request: Type) -> list[Row]:
    """What the server said to the first request of this kind, up to the next one."""
    said: list[Row] = []
    data, at, asked = b"", 0, None
    for _, who, chunk in recording.chunks:
        if who == "client":
            for row in packets(chunk):
                if row.type in SPEAKS:
                    asked = row.type
            continue
        if not data:
            at = GREETING_SIZE
        data += chunk
        end = at
        while after := frame_end(data, end, len(data)):
            end = after
        if asked == request:
            said += packets(data[at:end])
        at = end
    return said


def bare(row: Row) -> tuple[Any, ...]:
    """A row but for the time of a row that was written now."""
    return (row.type, row.replica_id, row.group_id, row.lsn, row.tsn, row.flags, row.body)


def timed(row: Row) -> tuple[Any, ...]:
    return (*bare(row), row.timestamp)


def by_origin(found: Iterable[Row], seen: Callable[[Row], tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    out: dict[int, list[tuple[Any, ...]]] = {}
    for row in found:
        out.setdefault(row.replica_id, []).append(seen(row))
    return out


def body_of(row: Row) -> Any:
    return unpack(row.body) if row.body else {}


def test_a_join_has_the_same_packets() -> None:
    """Of node 3 at node 1, which led then. Of the RAFT row place and term are compared: no election is held here."""
    recording = Recording("join-subscribe-bulk")
    node = FILES / "node-1"
    log = f"{6:020}.xlog"
    first = {
        f"{0:020}.snap": (node / f"{0:020}.snap").read_bytes(),
        f"{0:020}.xlog": (node / f"{0:020}.xlog").read_bytes(),
    }
    files = {**first, log: log_of(node / log, lambda row: row.lsn <= (7 if row.replica_id else 1))}

    async def test(master: Master) -> None:
        assert master.box.vclock.as_dict() == {0: 1, 1: 7}
        client = Client(master, recording)
        await client.log_in()
        client.ask(Type.JOIN)
        got, wanted = await client.until_ok(3), exchange(recording, Type.JOIN)
        assert [row.type for row in got] == [row.type for row in wanted]
        for one, other in zip(got, wanted, strict=True):
            if one.type == Type.RAFT:
                assert body_of(one)[0] == body_of(other)[0]
            else:
                assert bare(one) == bare(other)
        assert got[0].body == pack({int(Key.VCLOCK): {0: 2, 1: 7}})
        assert sum(row.type == Type.INSERT for row in got) == 399
        client.ask(Type.SUBSCRIBE)
        answer, *_ = await client.until_ok(1)
        recorded = exchange(recording, Type.SUBSCRIBE)
        assert bare(answer) == bare(recorded[0])
        raft, beat = await client.channel.packet(), await client.channel.packet()
        assert (raft.type, body_of(raft)[0]) == (Type.RAFT, body_of(recorded[1])[0])
        assert bare(beat) == bare(next(row for row in recorded[1:] if row.type == Type.OK))

    serve(1, files, test)


def test_a_subscription_has_the_same_rows() -> None:
    """Thousands of them, with every field: transactions of many rows, of synchronous and local spaces, CONFIRMs."""
    recording = Recording("join-subscribe-bulk")
    files = {path.name: path.read_bytes() for path in (FILES / "node-1").glob("*[pg]") if path.suffix != ".json"}

    async def test(master: Master) -> None:
        wanted = [row for row in exchange(recording, Type.SUBSCRIBE) if row.lsn]
        client = Client(master, recording)
        await client.log_in()
        client.ask(Type.SUBSCRIBE)
        await client.until_ok(1)
        got = await client.log((wanted[-1].replica_id, wanted[-1].lsn))
        assert len(wanted) > 3300
        assert by_origin(got, timed) == by_origin(wanted, timed)

    serve(1, files, test)


def test_a_subscription_over_which_a_leader_dies_has_the_same_rows() -> None:
    """The rows of two leaders, the PROMOTE between them, and the CONFIRMs of both. Of the server's own files there are
    none; those of its follower say the same, but for whose they are."""
    recording = Recording("subscribe-failover")
    node = FILES / "node-2"
    files = {}
    for path in [*node.glob("*.snap"), *node.glob("*.xlog")]:
        head = head_of(path)
        files[path.name] = head.replace(str(NODES[2]).encode(), str(NODES[3]).encode()) + path.read_bytes()[len(head) :]

    async def test(master: Master) -> None:
        wanted = [row for row in exchange(recording, Type.SUBSCRIBE) if row.lsn]
        lasts = {row.replica_id: row.lsn for row in wanted}
        client = Client(master, recording)
        await client.log_in()
        client.ask(Type.SUBSCRIBE)
        await client.until_ok(1)
        got = await client.log(*lasts.items())
        behind = [row for row in got if row.lsn > lasts.get(row.replica_id, 0)]
        assert len(wanted) > 3300
        assert set(lasts) == {1, 2}
        # A Tarantool puts its own time on every row it writes, those of others too (wal.c, xlog_write_entry).
        assert by_origin((row for row in got if row not in behind), bare) == by_origin(wanted, bare)

    serve(3, files, test)


def test_the_files_are_the_ones_that_were_followed() -> None:
    """What these tests stand on: a log that is written anew holds the rows of the one it was made of."""
    path = FILES / "node-1" / f"{6:020}.xlog"
    assert file_name(6, XLOG) == path.name
    assert len(rows_of(path)) == 3383

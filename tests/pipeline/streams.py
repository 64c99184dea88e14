"""Drives the stream's reader as Spark does, without Spark: offsets are journaled, batches planned, read, committed, and
everything may be killed between two of these steps and begun again from the journal.

Order and quirks are those that were seen of Spark 4.3: an uncommitted batch is planned again by its offsets on a new
reader; `commit` of a batch comes after the offset of the next one; readers go through a pickle.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from tests.support.iproto import REPLACE, SPACE_ID, TUPLE, Connection, create_space
from tests.support.process import Server

from headwater.pipeline.streamsource import StreamReader, reader, schema
from headwater.wire.msgpack import unpack

SPACE = 600
FORMAT = [{"name": "id", "type": "unsigned"}, {"name": "text", "type": "string"}]


class Killed(Exception):  # noqa: N818
    """The driver, at some point of a batch's life."""


POINTS = ("journaled", "planned", "read", "written", "committed", "told")
"""Of a batch: its offset is journaled, it is planned, read, in the sink, done for Spark, and the source knows it."""


@dataclass
class Checkpoint:
    """What Spark has on disk, and the sink."""

    initial: str = ""
    offsets: list[str] = field(default_factory=list)
    commits: int = 0
    """So many batches are done."""
    sink: dict[int, pa.Table] = field(default_factory=dict)
    """By batch: written again, it is the same."""

    @property
    def table(self) -> pa.Table:
        return pa.concat_tables([self.sink[number] for number in sorted(self.sink)])

    def rows(self, space: str | None = "t") -> list[dict[str, Any]]:
        """Without the columns of variants."""
        plain = [field.name for field in self.table.schema if not pa.types.is_struct(field.type)]
        return [row for row in self.table.select(plain).to_pylist() if space is None or row.get("space") == space]

    def tuples(self, space: str | None = "t") -> list[Any]:
        """Of INSERT and REPLACE; of a DELETE the key, negative."""
        return [request_of(row) for row in self.rows(space)]

    @property
    def position(self) -> dict[str, Any]:
        """Of the only set, as it was journaled last."""
        ((_, found),) = json.loads((self.offsets or [self.initial])[-1])["sets"].items()
        return dict(found)


def request_of(row: Mapping[str, Any]) -> Any:
    body = unpack(row["request"])
    return body[0x21] if row["op"] in ("INSERT", "REPLACE") else [-body[0x20][0]]


class Pump:
    """One driver. `with Pump(...) as pump: pump.run_until(...)`."""

    def __init__(self, options: Mapping[str, str], checkpoint: Checkpoint | None = None) -> None:
        self.options = {"request": "true", "pollTimeout": "50ms", "leaseTimeout": "1s", **options}
        if "space" in options:
            del self.options["request"]
        self.checkpoint = checkpoint or Checkpoint()
        self.kill_at: str | None = None
        self.schema = schema(self.options)
        self.reader = self._new()
        self._started = False

    def _new(self) -> StreamReader:
        made: StreamReader = pickle.loads(pickle.dumps(reader(self.options, self.schema)))
        return made

    def step(self) -> int | None:
        """A trigger; the rows of its batch, None without one."""
        mark = self.checkpoint
        if not self._started:
            self._started = True
            if not mark.initial:
                mark.initial = json.dumps(self.reader.initialOffset())
            if len(mark.offsets) > mark.commits:
                return self._batch(mark.commits)
        start = json.loads(mark.offsets[-1] if mark.offsets else mark.initial)
        limit = self.reader.getDefaultReadLimit()
        end = json.dumps(self.reader.latestOffset(start, limit))
        if end == json.dumps(start):
            return None
        mark.offsets.append(end)
        self._at("journaled")
        if len(mark.offsets) > 1:
            self.reader.commit(json.loads(mark.offsets[-2]))
            self._at("told")
        return self._batch(len(mark.offsets) - 1)

    def _batch(self, number: int) -> int:
        mark = self.checkpoint
        begin = json.loads(mark.offsets[number - 1] if number else mark.initial)
        parts = self.reader.partitions(begin, json.loads(mark.offsets[number]))
        self._at("planned")
        worker: StreamReader = pickle.loads(pickle.dumps(self._new()))
        batches = [batch for part in parts for batch in worker.read(pickle.loads(pickle.dumps(part)))]
        self._at("read")
        table = pa.Table.from_batches(batches) if batches else None
        if table is not None:
            before = mark.sink.get(number)
            if before is not None and "lsn" in table.column_names:
                was, now = (sorted(one["lsn"].to_pylist()) for one in (before, table))
                assert was == now, f"batch {number} had {was[:1]}..{was[-1:]}, now it has {now[:1]}..{now[-1:]}"
            mark.sink[number] = table
        self._at("written")
        mark.commits = number + 1
        self._at("committed")
        return table.num_rows if table is not None else 0

    def _at(self, point: str) -> None:
        if point == self.kill_at:
            raise Killed(point)

    def run(self, batches: int = 1000) -> int:
        """Triggers until one has nothing; rows in all."""
        rows = 0
        for _ in range(batches):
            found = self.step()
            if found is None:
                return rows
            rows += found
        return rows

    def run_on(self, triggers: int = 600) -> None:
        """Until something is raised."""
        for _ in range(triggers):
            self.step()
        raise AssertionError(f"{triggers} triggers, and nothing happened")

    def run_to(self, vclock: Mapping[int, int], triggers: int = 600) -> None:
        """Until the position has all of this."""
        for _ in range(triggers):
            found = self.checkpoint.position if self.checkpoint.initial else {}
            have = found.get("vclock", {})
            is_there = found.get("phase") == "stream" and all(
                have.get(str(id), 0) >= lsn for id, lsn in vclock.items() if id
            )
            if is_there and self.checkpoint.commits == len(self.checkpoint.offsets):
                return
            self.step()
        raise AssertionError(f"not at {vclock} after {triggers} triggers, but at {self.checkpoint.position}")

    def run_on_to(self, rows: int, space: str = "t") -> None:
        """Until the sink has so many rows of a space."""
        for _ in range(600):
            if self.checkpoint.sink and len(self.checkpoint.rows(space)) >= rows:
                return
            self.step()
        raise AssertionError(f"{len(self.checkpoint.rows(space))} rows of {rows}")

    def available_now(self) -> int:
        """As Trigger.AvailableNow does; rows in all."""
        self.reader.prepareForTriggerAvailableNow()
        return self.run()

    def stop(self) -> None:
        self.reader.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


# ---- between ----------------------------------------------------------------------------------------


class Valve:
    """A port before a server: so many bytes of each connection come through, and then nothing until it is opened."""

    def __init__(self, server: Server, limit: int) -> None:
        self._server = server
        self._limit = limit
        self._open = threading.Event()
        self._links: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._server.address)
                self._links += [near, far]
                threading.Thread(target=self._carry, args=(near, far, 1 << 60), daemon=True).start()
                threading.Thread(target=self._carry, args=(far, near, self._limit), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, limit: int) -> None:
        carried = 0
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                carried += len(data)
                if carried > limit:
                    self._open.wait()
                target.sendall(data)
        for link in (source, target):
            link.close()

    def cut(self) -> None:
        """The connections that there are; later ones are not held up."""
        for link in self._links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
        self._open.set()

    def close(self) -> None:
        self._listener.close()
        self.cut()


# ---- servers --------------------------------------------------------------------------------------


def hosts(*servers: Server) -> str:
    return ",".join(f"127.0.0.1:{server.port}" for server in servers)


def make_space(server: Server, space: int = SPACE, name: str = "t", **more: Any) -> None:
    with Connection(*server.address) as connection:
        create_space(connection, space, name, format=FORMAT, **more)


def write(server: Server, first: int, last: int, text: str = "x" * 20, space: int = SPACE) -> None:
    """Rows by keys."""
    with Connection(*server.address) as connection:
        for begin in range(first, last, 1000):
            keys = range(begin, min(begin + 1000, last))
            rows = [(REPLACE, {SPACE_ID: space, TUPLE: [key, f"{text}{key}"]}) for key in keys]
            assert all(reply.data for reply in connection.pipeline(rows))


def content(server: Server, space: int = SPACE) -> list[Any]:
    with Connection(*server.address) as connection:
        return connection.select(space)


def set_of(server: Server) -> str:
    """UUID of its replica set."""
    with Connection(*server.address) as connection:
        (name,) = connection.select(272, ["cluster"], iterator=0) or connection.select(
            272, ["replicaset_uuid"], iterator=0
        )
        return str(name[1])


def vclock_of(server: Server) -> dict[int, int]:
    """Without component 0."""
    with Connection(*server.address) as connection:
        ballot = connection.ask(0x44).body[0x29]
        return {id: lsn for id, lsn in ballot[2].items() if id}


def state(checkpoint: Checkpoint, space: str = "t") -> list[Any]:
    """What the changes come to, from the last TRUNCATE on."""
    rows = checkpoint.rows(None)
    begin = max((at for at, row in enumerate(rows) if row["op"] == "TRUNCATE"), default=-1)
    found: dict[Any, Any] = {}
    for row in rows[begin + 1 :]:
        if row["space"] != space:
            continue
        if row["op"] == "DELETE":
            found.pop(unpack(row["request"])[0x20][0], None)
        else:
            made = request_of(row)
            found[made[0]] = made
    return [found[key] for key in sorted(found)]


def changes(checkpoint: Checkpoint) -> Iterator[tuple[int, int]]:
    """(replica id, LSN) of the rows of the log."""
    return ((row["replica_id"], row["lsn"]) for row in checkpoint.rows(None) if row["replica_id"])


def assert_no_gap(checkpoint: Checkpoint) -> None:
    """Each row of the log once, and in order."""
    last: dict[int, int] = {}
    for id, lsn in changes(checkpoint):
        assert lsn == last.get(id, lsn - 1) + 1, f"replica {id}: {lsn} comes after {last.get(id)}"
        last[id] = lsn


def spool(path: Path) -> str:
    return str(path / "spool")

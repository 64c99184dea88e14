"""What tests of the lake share: change logs out of a node's files, random writes with changes of the schema among them,
and the judgement that silver holds what the node holds."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import msgpack
import pyarrow as pa
from deltalake import DeltaTable
from tests.support.iproto import (
    DELETE,
    INDEX_ID,
    INSERT,
    KEY,
    OPS,
    REPLACE,
    SELECT,
    SPACE_ID,
    TUPLE,
    UPDATE,
    UPSERT,
    Connection,
    ServerError,
    create_space,
)

from headwater.env.disk import RealDisk
from headwater.pipeline.lake.bronze import BRONZE, Bronze, PartWriter
from headwater.pipeline.lake.layout import Charter, Lake
from headwater.pipeline.lake.silver import Silver
from headwater.pipeline.lake.state import State
from headwater.wire.constants import Type
from headwater.wire.xrow import Row, decode_row
from headwater.xlog import Reader

SPACE, INDEX, TRUNCATE = 280, 288, 330
ROW_LIMIT = 0xFFFFFFFF


# ---- a change log out of files --------------------------------------------------------------------


def rows_of(paths: Sequence[Path]) -> Iterator[Row]:
    disk = RealDisk()
    for path in paths:
        reader = Reader(disk.open(str(path)))
        while (block := reader.next()) is not None:
            at = 0
            while at < len(block.rows):
                row, at = decode_row(block.rows, at)
                yield row


def log_of(directory: Path) -> list[Row]:
    """What a stream from this node would have brought: the oldest snapshot, and all rows since."""
    snapshots = sorted(directory.glob("*.snap"))
    return list(rows_of([snapshots[0], *sorted(directory.glob("*.xlog"))]))


def as_bronze(rows: Sequence[Row], replicaset: str = "a" * 36) -> pa.RecordBatch:
    """The columns that silver is made of."""
    names = {int(kind): kind.name for kind in Type}
    bodies = [msgpack.unpackb(row.body, strict_map_key=False, raw=True) if row.body else {} for row in rows]
    given = {
        "op": [names.get(row.type, str(row.type)) for row in rows],
        "space_id": [body.get(SPACE_ID) for body in bodies],
        "index_id": [body.get(INDEX_ID) for body in bodies],
        "replica_id": [row.replica_id for row in rows],
        "lsn": [row.lsn for row in rows],
        "ts": [int(row.timestamp * 1e6) for row in rows],
        "request": [row.body or None for row in rows],
        "replicaset": [replicaset] * len(rows),
    }
    wanted = [each for each in BRONZE if not each.name.startswith("_")]
    arrays = [pa.array(given.get(each.name, [None] * len(rows)), each.type) for each in wanted]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(wanted))


def append(lake: Lake, charter: Charter, batch_id: int, *parts: pa.RecordBatch) -> None:
    """A batch of several tasks, without Spark."""
    bronze = Bronze(lake, charter)
    writer = PartWriter(str(lake.bronze), charter.base + batch_id)
    files = [writer.write([part], task) for task, part in enumerate(parts)]
    bronze.commit([file for file in files if file is not None], batch_id, {})


def fill(lake: Lake, charter: Charter, rows: Sequence[Row], cuts: Sequence[int], first: int = 0) -> int:
    """Rows in batches that end at `cuts`; the number of the next one."""
    ends = [*sorted(set(cuts)), len(rows)]
    begin = 0
    for number, end in enumerate(ends):
        half = (begin + end) // 2
        append(lake, charter, first + number, as_bronze(rows[begin:half]), as_bronze(rows[half:end]))
        begin = end
    return first + len(ends)


def catch_up(lake: Lake, charter: Charter, rows_max: int = 1_000_000) -> Silver:
    silver = Silver(lake, charter, rows_max=rows_max)
    for _ in silver.catch_up():
        pass
    return silver


# ---- random writes --------------------------------------------------------------------------------


class Workload:
    """Writes of all kinds into a few spaces, by requests that both servers know."""

    FIRST = 600

    def __init__(self, connection: Connection, seed: int, *, spaces: int = 3) -> None:
        self.connection = connection
        self.random = random.Random(seed)
        self._next = self.FIRST
        self.spaces: dict[int, str] = {}
        for _ in range(spaces):
            self.create()

    def write(self, count: int, ddl: float = 0.0) -> None:
        """So many requests; `ddl` of them change the schema."""
        for _ in range(count):
            if self.random.random() < ddl:
                self.random.choice([self.truncate, self.rename, self.reformat, self.drop, self.create, self.rekey])()
            else:
                self.pipeline(1)

    def pipeline(self, count: int) -> None:
        self.connection.pipeline([self.request() for _ in range(count)])

    def request(self) -> tuple[int, Mapping[int, object]]:
        space = self.random.choice(list(self.spaces))
        key = self.random.randrange(60)
        kind = self.random.choice([INSERT, REPLACE, REPLACE, UPDATE, UPDATE, UPSERT, UPSERT, DELETE])
        if kind in (INSERT, REPLACE):
            return kind, {SPACE_ID: space, TUPLE: self.row(key)}
        if kind == DELETE:
            if self.random.random() < 0.3:
                return kind, {SPACE_ID: space, INDEX_ID: 1, KEY: [f"n{key}"]}
            return kind, {SPACE_ID: space, INDEX_ID: 0, KEY: [key]}
        operations = self.operations()
        if kind == UPSERT:
            return kind, {SPACE_ID: space, TUPLE: self.row(key), OPS: operations}
        if self.random.random() < 0.3:
            return kind, {SPACE_ID: space, INDEX_ID: 1, KEY: [f"n{key}"], TUPLE: operations}
        return kind, {SPACE_ID: space, INDEX_ID: 0, KEY: [key], TUPLE: operations}

    def row(self, key: int) -> list[object]:
        chance = self.random
        row: list[object] = [key, f"n{key}", chance.randrange(1000), chance.choice([None, 1.5, -7, 2**63 + 1])]
        return row + [{"a": [1, chance.random()], "é": None}, "tail"][: chance.randrange(3)]

    def operations(self) -> list[list[object]]:
        chance = self.random
        found: list[list[object]] = [["+", 2, chance.randrange(5)]]
        if chance.random() < 0.4:
            found.append(["=", 3, chance.choice([None, 0.25, 2**64 - 1])])
        if chance.random() < 0.2:
            found.append([":", 1, 1, 0, ""])
        return found

    # ---- the schema

    def create(self) -> None:
        space, self._next = self._next, self._next + 1
        name = self.random.choice([f"s{space}", "again", f"ö {space}"])
        if name in self.spaces.values():
            name = f"s{space}"
        indexes = [
            ["pk", "tree", {"unique": True}, [[0, "unsigned"]]],
            ["name", "tree", {"unique": True}, [[1, "string"]]],
        ]
        create_space(self.connection, space, name, indexes=indexes, format=self.format())
        self.spaces[space] = name

    def format(self) -> list[dict[str, object]]:
        names = [("id", "unsigned"), ("name", "string"), ("count", "integer"), ("any", "scalar"), ("more", "map")]
        return [
            {"name": name, "type": type, "is_nullable": number > 1}
            for number, (name, type) in enumerate(names[: self.random.randrange(6)])
        ]

    def _one(self) -> int:
        return self.random.choice(list(self.spaces))

    def _update_space(self, space: int, *operations: Sequence[object]) -> None:
        self.connection.ask(UPDATE, {SPACE_ID: SPACE, KEY: [space], TUPLE: list(operations)}).data

    def reformat(self) -> None:
        self._update_space(self._one(), ["=", 6, self.format()])

    def rename(self) -> None:
        space = self._one()
        name = f"r{self.random.randrange(10**6)}"
        self._update_space(space, ["=", 2, name])
        self.spaces[space] = name

    def truncate(self) -> None:
        truncate(self.connection, self._one())

    def drop(self) -> None:
        if len(self.spaces) > 1:
            space = self._one()
            drop(self.connection, space)
            del self.spaces[space]

    def rekey(self) -> None:
        """Another primary key: the name, and back."""
        space = self._one()
        parts = self.random.choice([[[0, "unsigned"]], [[0, "integer"]], [[0, "scalar"]]])
        request = {SPACE_ID: INDEX, KEY: [space, 0], TUPLE: [["=", 5, parts]]}
        self.connection.ask(UPDATE, request)


def truncate(connection: Connection, space: int) -> None:
    connection.ask(UPSERT, {SPACE_ID: TRUNCATE, TUPLE: [space, 1], OPS: [["+", 1, 1]]}).data


def drop(connection: Connection, space: int) -> None:
    for row in reversed(connection.select(INDEX, [space], iterator=0)):
        connection.ask(DELETE, {SPACE_ID: INDEX, KEY: row[:2]}).data
    connection.ask(DELETE, {SPACE_ID: TRUNCATE, KEY: [space]}).data
    connection.ask(DELETE, {SPACE_ID: SPACE, KEY: [space]}).data


# ---- the judgement --------------------------------------------------------------------------------


def tuples_of(connection: Connection) -> dict[str, set[bytes]]:
    """The tuples of all user spaces, as they stand, by the space's name."""
    out: dict[str, set[bytes]] = {}
    for id, _, name, engine, *_ in connection.select(SPACE):
        if id >= 512 and engine in ("memtx", "vinyl"):
            try:
                body = {SPACE_ID: id, INDEX_ID: 0, 0x12: ROW_LIMIT, 0x13: 0, 0x14: 2, KEY: []}
                reply = connection.ask(SELECT, body)
                reply.data
            except ServerError:
                continue  # without a primary key there is nothing to read
            out[name] = set(_raw_tuples(reply.raw[5:]))
    return out


def _raw_tuples(packet: bytes) -> Iterator[bytes]:
    unpacker = msgpack.Unpacker(strict_map_key=False, raw=True)
    unpacker.feed(packet)
    unpacker.skip()
    for _ in range(unpacker.read_map_header()):
        if unpacker.unpack() != 0x30:
            unpacker.skip()
            continue
        for _ in range(unpacker.read_array_header()):
            begin = unpacker.tell()
            unpacker.skip()
            yield packet[begin : unpacker.tell()]


def silver_tuples(lake: Lake, replicaset: str = "") -> dict[str, set[bytes]]:
    """What silver holds of a set, read by DuckDB from the files that the Delta log names."""
    places = tables(lake, replicaset)
    return {
        space: {bytes(row[0]) for row in query(lake, place, "select _tuple from t")} for space, place in places.items()
    }


def tables(lake: Lake, replicaset: str = "") -> dict[str, str]:
    """Place of each space of a set; of all sets without one."""
    live = [(name, table) for name, _, table in State.load(lake.state).live if not replicaset or name == replicaset]
    return {table.space: table.place for _, table in live if (lake.silver / table.place).exists()}


def query(lake: Lake, place: str, sql: str) -> list[tuple[Any, ...]]:
    files = DeltaTable(str(lake.silver / place)).file_uris()
    if not files:
        return []
    with duckdb.connect() as connection:
        connection.execute(f"create view t as select * from read_parquet({files!r}, union_by_name = true)")
        return connection.execute(sql).fetchall()


def assert_equal(lake: Lake, connection: Connection, replicaset: str = "") -> None:
    """Silver holds what the node holds, row by row, and no key twice."""
    wanted, found = tuples_of(connection), silver_tuples(lake, replicaset)
    assert set(found) == set(wanted)
    for space, rows in wanted.items():
        extra, missing = found[space] - rows, rows - found[space]
        assert not extra, f"{space}: silver has {len(extra)} more: {_shown(extra)}"
        assert not missing, f"{space}: silver lacks {len(missing)}: {_shown(missing)}"
    for place in tables(lake, replicaset).values():
        assert not query(lake, place, "select _key from t group by _key having count(*) > 1")


def is_equal(lake: Lake, connection: Connection, replicaset: str = "") -> bool:
    return silver_tuples(lake, replicaset) == tuples_of(connection)


def assert_bronze_whole(lake: Lake, sources: Mapping[str, Connection]) -> None:
    """Every row of each source's log since the snapshot exactly once, in order, and nothing else."""
    files = DeltaTable(str(lake.bronze)).file_uris()
    with duckdb.connect() as db:
        db.execute(f"create view b as select * from read_parquet({files!r}, union_by_name = true)")
        found = db.execute(
            "select replicaset, replica_id, count(*), count(distinct lsn), min(lsn), max(lsn) from b "
            "where replica_id > 0 group by all"
        ).fetchall()
        disorder = db.execute(
            "select count(*) from (select lsn, lag(lsn) over (partition by replicaset, replica_id"
            " order by _batch, _seq) as before from b where replica_id > 0) where before >= lsn"
        ).fetchall()
    for name, replica, rows, lsns, least, most in found:
        assert rows == lsns == most - least + 1, f"{name}: {rows} rows with {lsns} LSNs {least}..{most} of {replica}"
        assert most == vclock_of(sources[name])[replica]
    assert disorder == [(0,)]


def vclock_of(connection: Connection) -> dict[int, int]:
    ballot = connection.ask(0x44).body[0x29]
    return dict(ballot[2])


def replicaset_of(connection: Connection) -> str:
    found = connection.select(272, ["cluster"], iterator=0) or connection.select(272, ["replicaset_uuid"], iterator=0)
    return str(found[0][1])


def _shown(rows: set[bytes]) -> list[Any]:
    return [msgpack.unpackb(row, strict_map_key=False, unicode_errors="replace") for row in sorted(rows)[:5]]

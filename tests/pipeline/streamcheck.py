"""What a stream has left in Parquet files, judged by DuckDB against the server's own rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa


def committed_files(sink: Path) -> list[str]:
    """Of Spark's file sink: those that its log names, which are not all that lie there."""
    names: list[str] = []
    logs = sorted(
        (path for path in (sink / "_spark_metadata").iterdir() if path.name.split(".")[0].isdigit()),
        key=lambda path: (int(path.name.split(".")[0]), path.suffix),
    )
    compact = [number for number, path in enumerate(logs) if path.suffix == ".compact"]
    for path in logs[compact[-1] if compact else 0 :]:
        lines = path.read_text().splitlines()[1:]
        names.extend(json.loads(line)["path"].removeprefix("file://") for line in lines)
    return sorted(set(names))


class Judge:
    """`rows` are [id, text] of the space, as the server of each replica set has it."""

    def __init__(self, sink: Path, rows: Mapping[str, list[list[Any]]]) -> None:
        self._db = duckdb.connect()
        files = committed_files(sink)
        self._db.execute("create table change as select * from read_parquet(?)", [files])
        all_rows = [(name, *row[:2]) for name, found in rows.items() for row in found]
        names = ("replicaset", "id", "text")
        source = pa.table({name: [row[at] for row in all_rows] for at, name in enumerate(names)})
        self._db.register("source_rows", source)
        self._db.execute("create table source as select * from source_rows")

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        return self._db.execute(query).fetchall()

    def assert_exact(self, space: str = "t") -> None:
        """Each row of the log once, none missing between them, and what they come to is what the server has."""
        of_logs = "select replicaset, replica_id, count(*), count(distinct lsn), min(lsn), max(lsn) from change "
        for name, id, rows, distinct, low, high in self.ask(of_logs + "where replica_id > 0 group by all"):
            assert (rows, distinct) == (high - low + 1, rows), f"set {name}, replica {id}: {rows} rows of {low}..{high}"
        of_snapshots = "select replicaset, count(*) - count(distinct lsn) from change where replica_id = 0 group by all"
        assert all(twins == 0 for _, twins in self.ask(of_snapshots))
        self._db.execute(f"""
            create or replace view state as
            select replicaset, id, text from (
                select
                    replicaset, id,
                    arg_max(op, (replica_id > 0, lsn)) as op, arg_max(text, (replica_id > 0, lsn)) as text
                from change where space = '{space}' group by replicaset, id
            ) where op <> 'DELETE'
        """)
        assert self.ask("select * from state except select * from source limit 5") == []
        assert self.ask("select * from source except select * from state limit 5") == []
        assert self.ask("select count(*) from state") == self.ask("select count(*) from source")

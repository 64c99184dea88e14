"""Reading files with Spark: rows of one space out of `.xlog` files, beside its own scan of the same rows in Parquet."""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import DataFrame
from tests.support import iproto
from tests.support.tarantool import EXECUTABLE, GUEST_IS_SUPER, TarantoolServer

from bench.spark import Figures, Goal, SparkBench, quickest, to_noop

SPACE = "readings"
COLUMNS = ("id", "device", "label", "value", "valid")
FORMAT = "{{'id', 'unsigned'}, {'device', 'integer'}, {'label', 'string'}, {'value', 'double'}, {'valid', 'boolean'}}"
BATCH = 500
"""Rows of a transaction."""

GOALS = [
    Goal("xlog → noop, typed rows of one space", "rows/s", 0.35, "Parquet → noop"),
    Goal("xlog → Parquet", "rows/s", 0.25, "Parquet → Parquet"),
    Goal("xlog → noop, first query on new files", "rows/s", 0.25, "Parquet → noop"),
    Goal("snap → noop, typed rows of one space", "rows/s", 0.35, "Parquet → noop"),
]


def prepare(bench: SparkBench) -> Path:
    """Logs that a server wrote, in files of 64 MiB, and the same rows in a snapshot and in Parquet."""
    done = bench.data(f"spark-files-{bench.rows}")
    if not done.exists():
        making = bench.data("spark-making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        _write(making, bench.rows)
        rows = typed(bench, str(making / "data" / "*.xlog"))
        rows.write.mode("overwrite").parquet(str(making / "parquet"))
        making.rename(done)
    return done


def _write(making: Path, rows: int) -> None:
    if EXECUTABLE is None:
        raise SystemExit("these files are written by a tarantool, and none is installed (apt install tarantool)")
    options = {"wal_max_size": 64 << 20, "memtx_memory": 4 << 30, "wal_mode": "write"}
    server = TarantoolServer(making / "data", options=options, setup=GUEST_IS_SUPER)
    with server.start(), iproto.Connection(*server.address, timeout=1200) as connection:
        connection.eval(_LUA, rows, BATCH)
        server.stop()


_LUA = f"""
    local rows, batch = ...
    local ffi = require('ffi')
    local s = box.schema.space.create('{SPACE}', {{format = {FORMAT}}})
    s:create_index('pk')
    for first = 1, rows, batch do
        box.begin()
        for id = first, math.min(first + batch - 1, rows) do
            s:replace{{id, id * 7919 % 100003, string.format('label-%07d', id * 31 % 9999991),
                ffi.cast('double', id / 3), id % 2 == 0}}
        end
        box.commit()
    end
    box.snapshot()
"""


# ---- scenes


def typed(bench: SparkBench, path: str, **options: str) -> DataFrame:
    reader = bench.spark.read.format("tarantool").option("space", SPACE).option("columns", ",".join(COLUMNS))
    return reader.options(**options).load(path)


def files(bench: SparkBench) -> Figures:
    done = prepare(bench)
    logs, parquet, out = str(done / "data" / "*.xlog"), str(done / "parquet"), str(bench.data("spark-out"))
    spark = bench.spark
    took = quickest(
        {
            "scan": lambda: to_noop(spark.read.parquet(parquet)),
            "noop": lambda: to_noop(typed(bench, logs)),
            "first": lambda: to_noop(typed(bench, logs, schemaCacheDir="")),
            "snap": lambda: to_noop(typed(bench, str(done / "data" / "*.snap"))),
            "copy": lambda: spark.read.parquet(parquet).write.mode("overwrite").parquet(out),
            "write": lambda: typed(bench, logs).write.mode("overwrite").parquet(out),
        }
    )
    shutil.rmtree(out, ignore_errors=True)
    speed = {name: bench.rows / taken for name, taken in took.items()}
    return {
        GOALS[0].name: (speed["noop"], speed["scan"]),
        GOALS[1].name: (speed["write"], speed["copy"]),
        GOALS[2].name: (speed["first"], speed["scan"]),
        GOALS[3].name: (speed["snap"], speed["scan"]),
    }


SCENES = {"files": files}

"""A data directory out of logs, and out of a snapshot, beside Spark reading and writing the same rows as Parquet."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.spark import Figures, Goal, SparkBench, best
from bench.sparkfiles import prepare
from headwater.pipeline.restore.build import Wish
from headwater.pipeline.restore.build import restore as build
from headwater.pipeline.restore.plan import Target
from headwater.pipeline.restore.runner import SparkRunner

GOALS = [
    Goal("restore from logs", "rows/s", 0.333, "Parquet → Parquet"),
    Goal("restore from a snapshot", "rows/s", 0.333, "Parquet → Parquet"),
]


def restore(bench: SparkBench) -> Figures:
    done = prepare(bench)
    first, *_, last = sorted((done / "data").glob("*.snap"))
    logs = [str(path) for path in sorted((done / "data").glob("*.xlog"))]
    parquet, out = str(done / "parquet"), bench.data("spark-out")
    spark, rows, to = bench.spark, bench.rows, bench.data("spark-restored")
    runner = SparkRunner(spark)

    def make(sources: list[str]) -> None:
        shutil.rmtree(to, ignore_errors=True)
        build(runner, Wish(tuple(sources), Target(), str(to)))

    from_logs = rows / best(lambda: make([str(first), *logs]))
    from_snapshot = rows / best(lambda: make([str(last)]))
    copy = rows / best(lambda: spark.read.parquet(parquet).write.mode("overwrite").parquet(str(out)))
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(Path(to), ignore_errors=True)
    return {GOALS[0].name: (from_logs, copy), GOALS[1].name: (from_snapshot, copy)}


SCENES = {"restore": restore}

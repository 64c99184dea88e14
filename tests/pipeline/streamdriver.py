"""A driver of its own, to be killed: `python -m tests.pipeline.streamdriver '{"options": …, "sink": …}'`. It prints a
line for each batch that is done."""

from __future__ import annotations

import json
import sys
import time

from headwater.pipeline.session import session

COLUMNS = (
    "replicaset",
    "op",
    "space",
    "replica_id",
    "lsn",
    "tsn",
    "is_commit",
    "try_variant_get(key, '$[0]', 'bigint') as id",
    "try_variant_get(after, '$[1]', 'string') as text",
)
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"


def main(told: dict[str, str]) -> None:
    spark = session(
        "streamdriver",
        master="local[2,8]",
        config={
            "spark.driver.extraJavaOptions": QUICK,
            "spark.sql.warehouse.dir": told["work"],
            "spark.local.dir": told["work"],
            "spark.log.level": "ERROR",
        },
    )
    reader = spark.readStream.format("tarantool")
    for name, value in json.loads(told["options"]).items():
        reader = reader.option(name, value)
    query = (
        reader.load()
        .selectExpr(*COLUMNS)
        .writeStream.format("parquet")
        .option("path", told["sink"])
        .option("checkpointLocation", told["checkpoint"])
        .start()
    )
    print("started", flush=True)
    last = -1
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] != last:
            last, source = progress["batchId"], progress["sources"][0]
            print(f"batch {last} {progress['numInputRows']} {json.dumps(source['endOffset'])}", flush=True)
        time.sleep(0.05)
    print(f"ended: {query.exception()}", flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

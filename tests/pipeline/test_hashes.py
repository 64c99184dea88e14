"""Hashes of tuples are those that Spark's own function gives for the same bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from headwater.kernels.columns import hash_tuples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_hash_of_a_tuple_is_the_xxhash64_of_spark(spark: SparkSession) -> None:
    tuples = [bytes(number * 7 & 0xFF for number in range(size)) for size in (0, 1, 3, 4, 8, 31, 32, 33, 64, 1000)]
    ends = [0]
    for one in tuples:
        ends.append(ends[-1] + len(one))
    ours = hash_tuples(struct.pack(f"<{len(ends)}i", *ends), b"".join(tuples), 0, len(tuples))
    calls = ", ".join(f"xxhash64(X'{one.hex()}')" for one in tuples)
    assert list(spark.sql(f"SELECT {calls}").first()) == list(struct.unpack(f"<{len(tuples)}q", ours))

"""How fast the kernels between rows and Arrow are, each beside its plain twin. `python -m bench.columns [rows]`.

Each line is the best of three runs in processor time, one core: millions of rows a second, nanoseconds a row, megabytes
of rows a second, and how many times faster than the twin. The twin runs over a part of the rows.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import msgpack

from headwater.kernels.columnplan import Kind, Source
from headwater.typing import FieldType as T

SPACE = 512
BATCH = 20_000
"""Rows of a RecordBatch, as the pipeline makes them."""
PART = 20
"""The twin runs over one row in so many."""
F = Source.FIELD
ENVELOPE = [
    (Source.OP, Kind.STRING), (Source.SPACE_ID, Kind.INT32), (Source.SPACE, Kind.STRING), (Source.KEY, Kind.VARIANT),
    (Source.BEFORE, Kind.VARIANT), (Source.AFTER, Kind.VARIANT), (Source.REPLICA_ID, Kind.INT32),
    (Source.LSN, Kind.INT64), (Source.TSN, Kind.INT64), (Source.IS_COMMIT, Kind.BOOL),
    (Source.TIMESTAMP, Kind.TIMESTAMP), (Source.OPS, Kind.VARIANT), (Source.INDEX_ID, Kind.INT32),
    (Source.GROUP_ID, Kind.INT32), (Source.FLAGS, Kind.INT32), (Source.BODY, Kind.VARIANT),
    (Source.REQUEST, Kind.BINARY),
]  # fmt: skip
SMALL = [(F, Kind.INT64), (F, Kind.STRING), (F, Kind.DOUBLE), (F, Kind.INT64)]
WIDE = [(F, Kind.INT64), *[(F, Kind.STRING)] * 10, *[(F, Kind.INT64)] * 10]
MAPS = [(F, Kind.INT64), (F, Kind.VARIANT)]


def small(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield msgpack.packb([number, f"name-{number % 1000:04}", number * 0.5, number % 7])


def wide(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield msgpack.packb([number, *(f"name-{number % 1000:04}-{at}" for at in range(10)), *range(10)])


def maps(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield msgpack.packb([number, {"a": number, "b": [1, 2, 3], "c": "text"}])


class Rows:
    """Rows of a log, and where each of them ends."""

    def __init__(self, tuples: Iterator[bytes]) -> None:
        out, self.ends = bytearray(), [0]
        for lsn, data in enumerate(tuples, 1):
            out += msgpack.packb({0: 3, 2: 1, 3: lsn, 4: 1.7e9 + lsn / 1000}) + b"\x82\x10\xcd\x02\x00\x21" + data
            self.ends.append(len(out))
        self.data = bytes(out)

    def first(self, count: int) -> bytes:
        return self.data[: self.ends[count]]

    def framed(self, count: int) -> bytes:
        out = bytearray()
        for begin, end in zip(self.ends[:count], self.ends[1 : count + 1], strict=True):
            out += b"\xce" + (end - begin).to_bytes(4, "big") + self.data[begin:end]
        return bytes(out)


def decoding(data: bytes, columns: list[tuple[Source, Kind]], framed: bool = False) -> Callable[[ModuleType], object]:
    def run(k: ModuleType) -> None:
        plan = [(*column, 0, 0) for column in columns]
        batch = k.Columns(plan, {2: "INSERT", 3: "REPLACE"}, lambda *_: "", BATCH, 1 << 26)
        batch.set_spaces({SPACE: "test"}, {SPACE: [0]}, None)
        if columns[0][0] is F:
            batch.set_fields(list(range(len(columns))), [f"f{at}" for at in range(len(columns))])
        at = 0
        while at < len(data):
            at = batch.decode(data, at, framed=framed)
            batch.take()

    return run


def best(run: Callable[[], object]) -> float:
    """Seconds of processor time of the fastest of three runs."""
    spent = []
    for _ in range(3):
        begin = time.process_time()
        run()
        spent.append(time.process_time() - begin)
    return min(spent)


def twins() -> tuple[ModuleType | None, ModuleType]:
    try:
        native: ModuleType | None = importlib.import_module("headwater.kernels._columns")
    except ImportError:
        native = None
    return native, importlib.import_module("headwater.kernels.pure.columns")


def line(what: str, count: int, size: int, make: Callable[[int], Callable[[ModuleType], object]]) -> None:
    """`make` prepares a run over so many rows; `size` is bytes of all of them."""
    native, pure = twins()
    part = max(count // PART, 1)
    plain_run = make(part)
    plain = best(lambda: plain_run(pure)) / part
    if native is None:
        print(f"{what:<36}{'':24}{1e-6 / plain:8.2f} M/s plain")
        return
    run = make(count)
    compiled = best(lambda: run(native)) / count
    print(
        f"{what:<36}{1e-6 / compiled:8.2f} M/s {compiled * 1e9:7.0f} ns {size / count / compiled / 1e6:7.0f} MB/s"
        f"{plain / compiled:8.0f} x its twin"
    )


def reading(count: int) -> None:
    rows, wide_rows, map_rows = Rows(small(count)), Rows(wide(count // 4)), Rows(maps(count))
    size, map_size, wide_size = len(rows.data), len(map_rows.data), len(wide_rows.data)
    print(f"rows to Arrow: {size // count} bytes a row; with a map {map_size // count}; wide {wide_size * 4 // count}")
    line("fields of small rows", count, size, lambda n: decoding(rows.first(n), SMALL))
    line("one field of them", count, size, lambda n: decoding(rows.first(n), SMALL[:1]))
    line("fields of packets", count, size, lambda n: decoding(rows.framed(n), SMALL, framed=True))
    line("21 fields", count // 4, wide_size, lambda n: decoding(wide_rows.first(n), WIDE))
    line("a map as VARIANT", count, map_size, lambda n: decoding(map_rows.first(n), MAPS))
    line("the envelope", count, size, lambda n: decoding(rows.first(n), ENVELOPE))
    line("the envelope, with a map", count, map_size, lambda n: decoding(map_rows.first(n), ENVELOPE))

    def picking(n: int) -> Callable[[ModuleType], object]:
        data = rows.first(n)
        return lambda k: k.pick(data, 0, [280, 288])

    def unframing(n: int) -> Callable[[ModuleType], object]:
        data = rows.framed(n)
        return lambda k: k.unframe(data, 0, len(data))

    line("pick", count, size, picking)
    line("unframe", count, size, unframing)


def writing(count: int) -> None:
    import pyarrow as pa

    from headwater.pipeline.encode import pack_column

    batch = {
        "id": (T.UNSIGNED, pa.array(range(count))),
        "name": (T.STRING, pa.array([f"name-{number % 1000:04}" for number in range(count)])),
        "value": (T.DOUBLE, pa.array([number * 0.5 for number in range(count)])),
        "kind": (T.UNSIGNED, pa.array([number % 7 for number in range(count)])),
    }
    columns = [pack_column(name, kind, array) for name, (kind, array) in batch.items()]
    native, pure = twins()
    offsets, data = (native or pure).pack_tuples(columns, 0, count)
    print(f"Arrow to rows: {len(data) // count} bytes a tuple")
    works: dict[str, Callable[[Any, int], object]] = {
        "pack_tuples": lambda k, n: k.pack_tuples(columns, 0, n),
        "pack_requests, REPLACE": lambda k, n: k.pack_requests(offsets, data, 0, n, 3, SPACE, 1),
        "pack_requests, DELETE": lambda k, n: k.pack_requests(offsets, data, 0, n, 5, SPACE, 1, key_fields=[0]),
        "pack_rows": lambda k, n: k.pack_rows(offsets, data, 0, n, SPACE, 0, 1, 1.5, 1 << 40),
        "hash_tuples": lambda k, n: k.hash_tuples(offsets, data, 0, n),
        "sum_tuples by a key": lambda k, n: k.sum_tuples(offsets, data, 0, n, [0], 10),
    }
    for name, work in works.items():
        line(name, count, len(data), lambda n, work=work: lambda k: work(k, n))  # type: ignore[misc]


def main(count: int) -> None:
    reading(count)
    writing(count)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)

"""Rows cut into chunks, their digest, and packets joined by Arrow: by values."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.iproto import INDEX_BASE, OPS, SPACE_ID, TUPLE, UPSERT, pack, request

from headwater.pipeline.chunks import Chunk, Digest, chunked
from headwater.pipeline.tuples import Requests, Tuples
from headwater.pipeline.upserts import binary_of, upsert_packets

MADE = Requests(512, 3, (0,))


def tuples_of(rows: list[bytes], first: int, types: bytes | None = None) -> Tuples:
    borders = [0, *accumulate(map(len, rows))]
    offsets = b"".join(border.to_bytes(4, "little") for border in borders)
    return Tuples(
        offsets, b"".join(rows), len(rows), first, None if types is None else types[first : first + len(rows)]
    )


def cut(rows: list[bytes], borders: list[int], types: bytes | None = None) -> list[Tuples]:
    """The same rows in batches that end at these numbers."""
    ends = sorted({0, len(rows), *(border % (len(rows) + 1) for border in borders)})
    return [tuples_of(rows[begin:end], begin, types) for begin, end in pairwise(ends)]


rows_of_any_size = st.lists(st.integers(0, 60), max_size=60).map(lambda sizes: [pack([b"x" * size]) for size in sizes])


@settings(max_examples=200, deadline=None)
@given(
    rows=rows_of_any_size,
    first=st.lists(st.integers(0, 99)),
    second=st.lists(st.integers(0, 99)),
    rows_max=st.integers(1, 9),
    size=st.integers(1, 200),
)
def test_chunks_end_at_the_same_rows_whatever_the_batches(
    rows: list[bytes], first: list[int], second: list[int], rows_max: int, size: int
) -> None:
    made = [list(chunked(cut(rows, borders), rows_max, size)) for borders in (first, second)]
    shown = [[(chunk.first, chunk.rows, chunk.size, chunk.is_last) for chunk in chunks] for chunks in made]
    assert shown[0] == shown[1]
    for chunks in made:
        assert [chunk.tuple(number) for chunk in chunks for number in range(chunk.rows)] == rows
        assert all(chunk.rows <= rows_max and (chunk.size <= size or chunk.rows == 1) for chunk in chunks)
        assert [chunk.is_last for chunk in chunks] == [False] * (len(chunks) - 1) + [True] * bool(chunks)


@settings(max_examples=100, deadline=None)
@given(
    rows=rows_of_any_size.filter(lambda rows: len(rows) > 1),
    borders=st.lists(st.integers(0, 99)),
    at=st.integers(1, 99),
    types=st.binary(min_size=60, max_size=60),
)
def test_a_digest_is_of_the_rows_and_not_of_their_chunks(
    rows: list[bytes], borders: list[int], at: int, types: bytes
) -> None:
    whole = digest_of(list(chunked(cut(rows, [], types), 1000, 1 << 20)))
    chunks = list(chunked(cut(rows, borders, types), 7, 100))
    assert digest_of(chunks) == whole
    (single,) = chunked(cut(rows, borders, types), 1000, 1 << 20)
    head, tail = single.split(1 + at % (len(rows) - 1))
    assert digest_of([head, tail]) == whole
    assert (head.is_last, tail.is_last, head.end, tail.end) == (False, True, tail.first, len(rows))
    assert digest_of(list(chunked(cut(rows[:-1], borders, types), 7, 100))) != whole
    other = bytes((types[0] ^ 1,)) + types[1:]
    assert digest_of(list(chunked(cut(rows, borders, other), 7, 100))) != whole


def digest_of(chunks: list[Chunk]) -> str:
    digest = Digest()
    for chunk in chunks:
        digest.add(chunk)
    return digest.text()


def test_requests_of_a_chunk_are_numbered_through_its_batches() -> None:
    rows = [pack([number, "text"]) for number in range(10)]
    (chunk,) = chunked(cut(rows, [3, 4, 8]), 100, 1 << 20)
    made = b"".join(chunk.requests(MADE, 100, 7))
    assert made == b"".join(chunk_of_one(row, 100 + number) for number, row in enumerate(rows))


def chunk_of_one(row: bytes, sync: int) -> bytes:
    (chunk,) = chunked([tuples_of([row], 0)], 1, 1 << 20)
    return b"".join(chunk.requests(MADE, sync, 7))


@pytest.mark.parametrize("stream", [0, 1, 200])
def test_upserts_joined_by_arrow_are_those_of_a_client(stream: int) -> None:
    rows = [[number, "x" * number] for number in range(300)]
    ops = [[["+", 1, number], ["=", "name", None]][: number % 3] for number in range(300)]
    packed = [pack(row) for row in rows]
    sync = (1 << 33) + 5
    offsets = b"".join(border.to_bytes(4, "little") for border in [0, *accumulate(map(len, packed))])
    tuples = binary_of(offsets, b"".join(packed), len(packed))
    made = upsert_packets(
        tuples.slice(10), pa.array([pack(each) for each in ops], pa.binary()).slice(10), 512, sync, stream
    )
    wanted = b"".join(
        request(
            UPSERT, {SPACE_ID: 512, INDEX_BASE: 0, TUPLE: rows[number], OPS: ops[number]}, sync + number - 10, stream
        )
        for number in range(10, 300)
    )
    assert made == wanted
    assert upsert_packets(tuples.slice(300), pa.array([], pa.binary()), 512, 1, 0) == b""

"""Both kernels between rows and Arrow do the same: any bytes, any columns, every answer compared."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fuzz.mutate import INTERESTING
from tests.kernels.batches import SPACE, body_of, frame, pack_column, packed, plan, row, texts
from tests.kernels.packing import Raw, array_header

from headwater.errors import MsgPackError
from headwater.kernels.columnplan import KINDS, Kind, RowError, Source
from headwater.kernels.packplan import Form, PackColumn, PackError
from headwater.typing import FieldType

Twins = tuple[ModuleType, ModuleType]
quick = settings(max_examples=100, deadline=None, derandomize=True, database=None)
few = settings(quick, max_examples=50)
"""Where an example is large; tests/fuzz goes on where these end."""


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or how it refuses."""
    try:
        return call()
    except RowError as error:
        return "row", error.reason, error.offset, error.lsn, error.column, error.end
    except PackError as error:
        return "pack", error.reason, error.row, error.column
    except UnicodeError as error:
        return "unicode", str(error)
    except MsgPackError:
        return "msgpack"
    except (ValueError, TypeError, OverflowError) as error:
        return type(error).__name__


def same(twins: Twins, call: Callable[[ModuleType], Any]) -> Any:
    native, pure = (outcome(lambda c=c: call(c)) for c in twins)  # type: ignore[misc]
    assert native == pure
    return native


# ---- rows -----------------------------------------------------------------------------------------

tuples = st.lists(packed, max_size=5).map(lambda items: Raw(array_header(len(items)) + b"".join(items)))
bodies = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("tuple", "key", "ops", "old", "new"), tuples) | {"index": st.integers(0, 3)}
)
heads = st.fixed_dictionaries(
    {"lsn": st.integers(0, 2**64 - 1)},
    optional={
        "replica": st.integers(0, 40),
        "group": st.integers(0, 2**33),
        "time": st.floats(),
        "tsn_distance": st.integers(0, 2**64 - 1),
        "flags": st.integers(0, 300),
    },
)
rows = st.builds(
    lambda kind, space, body, head: row(kind, body_of(space, **body), **head),
    st.sampled_from([2, 3, 4, 5, 9, 12, 17, 30]),
    st.sampled_from([SPACE, SPACE + 1, 280]),
    bodies,
    heads,
)
columns = st.lists(
    st.sampled_from(list(Source)).flatmap(
        lambda source: st.tuples(
            st.just(source), st.sampled_from(sorted(KINDS[source])), st.integers(0, 8), st.integers(0, 3)
        )
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda column: column[0] if column[0] == Source.RESCUED else object(),
)


def batch_of(c: ModuleType, wanted: Any, utf8: int, tagged: bool, strict: bool) -> Any:
    batch = c.Columns(wanted, {2: "INSERT", 3: "REPLACE"}, texts, 3, 4000, utf8, tagged, strict)
    batch.set_spaces({SPACE: "é"}, {SPACE: [1, 0], 280: [0]}, None)
    fields = [at for at, column in enumerate(wanted) if column[0] == Source.FIELD]
    batch.set_fields([*fields, -1], [f"f{at}" for at in range(len(fields) + 1)])
    return batch


def history(c: ModuleType, data: bytes, framed: bool, make: Callable[[ModuleType], Any]) -> list[Any]:
    """All that a batch says while it is read to the end; a row that is refused is passed over."""
    batch, said, at = make(c), [], 0
    while at < len(data):
        try:
            after = batch.decode(data, at, framed=framed)
        except RowError as error:
            said.append((error.reason, error.offset, error.lsn, error.column, error.end))
            after = error.end
        said.append((after, batch.rows, batch.size, batch.read, batch.misfits, batch.open, batch.watched, batch.take()))
        if after <= at:
            break
        at = after
    return said


@few
@given(st.data())
def test_any_rows_in_any_columns(both_columns: Twins, data: st.DataObject) -> None:
    wanted = data.draw(columns)
    chosen = data.draw(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()))
    try:
        batch_of(both_columns[0], wanted, *chosen)
    except ValueError:
        assert same(both_columns, lambda c: batch_of(c, wanted, *chosen)) == "ValueError"
        return
    raw = data.draw(st.lists(rows, max_size=6))
    framed = data.draw(st.booleans())
    stream = b"".join(map(frame, raw)) if framed else b"".join(raw)
    same(both_columns, lambda c: history(c, stream, framed, lambda c: batch_of(c, wanted, *chosen)))


EVERYTHING = plan(
    *((source, min(KINDS[source])) for source in Source if source != Source.FIELD), (Source.FIELD, Kind.DOUBLE)
)


@few
@given(st.lists(rows, min_size=1, max_size=3), st.data())
def test_rows_with_bytes_changed(both_columns: Twins, raw: list[bytes], data: st.DataObject) -> None:
    stream = bytearray(b"".join(raw))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(stream) - 1))
        size = data.draw(st.integers(0, 4))
        stream[at : at + size] = data.draw(st.sampled_from(INTERESTING) | st.binary(max_size=4))
    spoilt = bytes(stream)
    for framed in (False, True):
        same(
            both_columns, lambda c, f=framed: history(c, spoilt, f, lambda c: batch_of(c, EVERYTHING, 1, False, False))
        )
        same(both_columns, lambda c, f=framed: c.pick(spoilt, 0, [SPACE], f))
    same(both_columns, lambda c: c.unframe(spoilt, 0, len(spoilt)))
    same(both_columns, lambda c: c.unframe(frame(spoilt) + frame(raw[0]), 0, len(spoilt)))


@quick
@given(st.binary(max_size=60) | st.sampled_from(INTERESTING), st.booleans())
def test_any_bytes_as_rows(both_columns: Twins, data: bytes, framed: bool) -> None:
    same(both_columns, lambda c: history(c, data, framed, lambda c: batch_of(c, EVERYTHING, 1, False, False)))
    same(both_columns, lambda c: c.pick(data, 0, [SPACE], framed))
    same(both_columns, lambda c: c.unframe(data, 0, len(data)))


HEAD = b"\xd5\xba\x0b\xab"


@quick
@given(
    st.lists(
        st.sampled_from([HEAD, b"\xd5\xba\x0b\xba", b"\xce", b"\x05", b"\0" * 4, b"\xa9" + bytes(9)])
        | st.binary(max_size=9)
    )
)
@example([HEAD, b"\x05\0\xce", bytes(4), b"\xa7" + bytes(7), b"abcde" * 3])
def test_any_bytes_as_blocks(both_columns: Twins, parts: list[bytes]) -> None:
    data = b"".join(parts)
    same(both_columns, lambda c: c.plain_rows(data, 0, len(data), 100))
    same(both_columns, lambda c: c.borders(data, 0, len(data), 7))


# ---- variants -------------------------------------------------------------------------------------


@quick
@given(packed, st.integers(0, 2), st.booleans())
def test_any_value_there_and_back(both_columns: Twins, value: bytes, utf8: int, tagged: bool) -> None:
    there = same(both_columns, lambda c: c.to_variant(bytes(value), texts, utf8, tagged))
    if isinstance(there[0], bytes):
        for again in (False, True):
            same(both_columns, lambda c, again=again: c.from_variant(*there, again))


@quick
@given(packed, st.data())
def test_variants_with_bytes_changed(both_columns: Twins, value: bytes, data: st.DataObject) -> None:
    parts = [bytearray(part) for part in both_columns[0].to_variant(bytes(value), texts, 2, True)]
    part = parts[data.draw(st.integers(0, 1))]
    at = data.draw(st.integers(0, max(len(part) - 1, 0)))
    part[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    same(both_columns, lambda c: c.from_variant(bytes(parts[0]), bytes(parts[1]), True))


@quick
@given(
    st.binary(max_size=40),
    st.sampled_from([b"\x01\0\0", b"\x01\x01\x00\x01a", b"\xc1" + bytes(12)]) | st.binary(max_size=12),
)
def test_any_bytes_as_a_variant(both_columns: Twins, value: bytes, metadata: bytes) -> None:
    same(both_columns, lambda c: c.from_variant(value, metadata))


@quick
@given(st.binary(max_size=12) | st.text("0123456789.eE+-", max_size=14).map(str.encode))
def test_any_text_as_a_decimal_or_a_uuid(both_columns: Twins, text: bytes) -> None:
    column = PackColumn(
        "f", FieldType.DECIMAL, Form.BINARY, 0, 1, 0, None, (struct.pack("<2i", 0, len(text)), text), ()
    )
    for kind, form in (
        (FieldType.DECIMAL, Form.STRING),
        (FieldType.UUID, Form.STRING),
        (FieldType.STRING, Form.STRING),
    ):
        same(both_columns, lambda c, k=kind, f=form: c.pack_tuples([column._replace(kind=k, form=f)], 0, 1))


# ---- columns --------------------------------------------------------------------------------------

plain_arrays = st.one_of(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=8).map(lambda values: pa.array(values, pa.int64())),
    st.lists(st.none() | st.integers(0, 2**64 - 1), max_size=8).map(lambda values: pa.array(values, pa.uint64())),
    st.lists(st.none() | st.integers(-128, 127), max_size=8).map(lambda values: pa.array(values, pa.int8())),
    st.lists(st.none() | st.floats(), max_size=8).map(lambda values: pa.array(values, pa.float64())),
    st.lists(st.none() | st.floats(width=32), max_size=8).map(lambda values: pa.array(values, pa.float32())),
    st.lists(st.none() | st.booleans(), max_size=8).map(lambda values: pa.array(values, pa.bool_())),
    st.lists(st.none() | st.text(max_size=40), max_size=8).map(lambda values: pa.array(values, pa.string())),
    st.lists(st.none() | st.binary(max_size=40), max_size=8).map(lambda values: pa.array(values, pa.large_binary())),
    st.lists(st.none() | st.decimals(-(10**15), 10**15, places=4), max_size=8).map(
        lambda values: pa.array(values, pa.decimal128(38, 4))
    ),
    st.lists(st.none() | st.integers(-(2**60), 2**60), max_size=8).map(
        lambda values: pa.array(values, pa.timestamp("us"))
    ),
    st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=8).map(
        lambda values: pa.array(values, pa.date32())
    ),
)


def nested(inner: st.SearchStrategy[pa.Array]) -> st.SearchStrategy[pa.Array]:
    """Lists and structs around the values of an array."""
    lists = st.tuples(inner, st.integers(0, 3)).map(
        lambda made: pa.ListArray.from_arrays(
            pa.array([0, min(made[1], len(made[0])), len(made[0])], pa.int32()), made[0]
        )
    )
    structs = st.tuples(inner, st.integers(0, 3)).map(
        lambda made: pa.StructArray.from_arrays([made[0], made[0]], ["a", "ключ"]).slice(min(made[1], len(made[0])))
    )
    return lists | structs


@quick
@given(st.recursive(plain_arrays, nested, max_leaves=3), st.sampled_from(list(FieldType)), st.integers(0, 3))
def test_any_array_in_any_field(both_columns: Twins, array: pa.Array, kind: FieldType, skip: int) -> None:
    part = array.slice(min(skip, len(array)))
    column = pack_column("f", kind, part)
    found = same(both_columns, lambda c: c.pack_tuples([column, column], 0, len(part)))
    if isinstance(found[0], bytes):
        same(both_columns, lambda c: c.pack_requests(*found, 0, len(part), 5, 512, 1, key_fields=[1, 0]))
        same(both_columns, lambda c: c.pack_rows(*found, 0, len(part), 512, 1, 0, 1.5, 40))
        same(both_columns, lambda c: c.hash_tuples(*found, 0, len(part), [1, 7]))
        same(both_columns, lambda c: c.sum_tuples(*found, 0, len(part), [0], 2))


@quick
@given(st.lists(packed, max_size=4), st.sampled_from(list(FieldType)))
def test_any_messagepack_in_any_field(both_columns: Twins, values: list[bytes], kind: FieldType) -> None:
    column = pack_column("f", kind, pa.array([bytes(value) for value in values], pa.binary()), raw=True)
    for at in range(len(values)):
        same(both_columns, lambda c, at=at: c.pack_tuples([column], at, 1))


@quick
@given(st.binary(max_size=200), st.lists(st.integers(-5, 210), min_size=1, max_size=6))
def test_any_bytes_as_tuples(both_columns: Twins, data: bytes, ends: list[int]) -> None:
    offsets = struct.pack(f"<{len(ends)}i", *ends)
    count = len(ends) - 1
    same(both_columns, lambda c: c.hash_tuples(offsets, data, 0, count))
    same(both_columns, lambda c: c.hash_tuples(offsets, data, 0, count, [0]))
    same(
        both_columns, lambda c: c.pack_requests(offsets, data, 0, count, 4, 512, 1, key_fields=[0], changes=[("=", 1)])
    )
    same(both_columns, lambda c: c.pack_rows(offsets, data, 0, count, 512, 0, 5, 1.5, 1000))


@pytest.mark.parametrize("size", [0, 1, 3, 4, 7, 8, 31, 32, 33, 63, 64, 65, 1000])
def test_hashes_of_every_length(both_columns: Twins, size: int) -> None:
    data = bytes(number * 7 & 0xFF for number in range(size))
    same(both_columns, lambda c: c.hash_tuples(struct.pack("<2i", 0, size), data, 0, 1))

"""Update operations against plain Python lists and dicts, and against foreign bytes."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.updating import NAMES

from headwater.errors import BoxError, MsgPackError
from headwater.kernels import mp_next
from headwater.store.update import apply_update, apply_upsert, check_ops
from headwater.wire.msgpack import Float32, pack, unpack

U64 = 2**64 - 1

values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), U64), st.integers(-5, 5), st.floats(allow_nan=False),
        st.floats(width=32, allow_nan=False).map(Float32), st.text(max_size=4), st.binary(max_size=4),
        st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-1000, max_value=1000),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip
numbers = st.one_of(st.integers(-(2**63), U64), st.integers(-5, 5))
field_numbers = st.integers(-6, 8)
flat_ops = st.one_of(
    st.tuples(st.sampled_from("=!"), field_numbers, values),
    st.tuples(st.just("#"), field_numbers, st.integers(1, 4)),
    st.tuples(st.sampled_from("+-"), field_numbers, numbers),
    st.tuples(st.sampled_from("&|^"), field_numbers, st.integers(0, U64)),
    st.tuples(st.just(":"), field_numbers, st.integers(-6, 6), st.integers(-6, 6), st.text(max_size=3)),
).map(list)


class RefusedError(Exception):
    """The model expects an error."""


def do(row: list[Any], op: list[Any]) -> None:
    """One operation on a plain list; numbers count from 0."""
    code, number, *arguments = op
    if code in "=!" and number > len(row):
        row += [None] * (number - len(row))
    if code == "#" and number >= len(row):
        return
    room = len(row) + (code == "!" or (code == "=" and number == len(row)))
    number = number if number >= 0 else number + room
    if not 0 <= number < room:
        raise RefusedError
    if code == "!" or number == len(row):
        row.insert(number, arguments[0])
    elif code == "=":
        row[number] = arguments[0]
    elif code == "#":
        del row[number : number + arguments[0]]
    elif code == ":":
        row[number] = spliced(row[number], *arguments)
    else:
        row[number] = computed(row[number], code, arguments[0])


def computed(old: Any, code: str, operand: int) -> int:
    if not isinstance(old, int) or isinstance(old, bool) or (code in "&|^" and old < 0):
        raise RefusedError
    out = {"+": old + operand, "-": old - operand, "&": old & operand, "|": old | operand, "^": old ^ operand}[code]
    if not -(2**63) <= out <= U64:
        raise RefusedError
    return out


def spliced(old: Any, offset: int, cut: int, paste: str) -> str:
    if not isinstance(old, str):
        raise RefusedError
    place = offset if offset >= 0 else len(old) + 1 + offset
    if place < 0:
        raise RefusedError
    head, tail = old[:place], old[place:]
    left = tail[cut:] if cut >= 0 else tail[cut:] if -cut <= len(tail) else tail
    return head + paste + left


ascii_values = st.one_of(st.text("abc", max_size=4), st.integers(-5, 5), st.none(), st.booleans(), numbers)
ascii_ops = st.one_of(
    st.tuples(st.sampled_from("=!"), field_numbers, ascii_values),
    st.tuples(st.just("#"), field_numbers, st.integers(1, 4)),
    st.tuples(st.sampled_from("+-"), field_numbers, numbers),
    st.tuples(st.sampled_from("&|^"), field_numbers, st.integers(0, U64)),
    st.tuples(st.just(":"), field_numbers, st.integers(-6, 6), st.integers(-6, 6), st.text("xyz", max_size=3)),
).map(list)
rows = st.lists(ascii_values, max_size=6)


@settings(max_examples=500)
@given(row=rows, ops=st.lists(ascii_ops, max_size=6))
def test_operations_on_fields_equal_operations_on_a_list(row: list[Any], ops: list[list[Any]]) -> None:
    expected: list[Any] | None = list(row)
    try:
        for op in ops:
            do(expected, op)  # type: ignore[arg-type]
    except RefusedError:
        expected = None
    try:
        result = unpack(apply_update(pack(ops), pack(row), {}, 0))
    except BoxError:
        result = None
    assert result == expected


@settings(max_examples=500)
@given(row=rows, ops=st.lists(ascii_ops, max_size=6))
def test_upsert_equals_a_list_on_which_what_fails_is_skipped(row: list[Any], ops: list[list[Any]]) -> None:
    expected, failed = list(row), 0
    for op in ops:
        before = list(expected)
        try:
            do(expected, op)
        except RefusedError:
            expected, failed = before, failed + 1
    result = apply_upsert(pack(ops), pack(row), {}, 0)
    assert (unpack(result.tuple), len(result.skipped)) == (expected, failed)


# ---- inside fields -----------------------------------------------------------------------------------------

documents = st.recursive(
    st.one_of(st.integers(-5, 5), st.text("abc", max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(["k", "l", "m"]), inner, max_size=3)
    ),
    max_leaves=12,
)


def places(value: Any, path: str = "[2]") -> list[str]:
    """Paths of everything inside, and of the field itself."""
    out = [path]
    if isinstance(value, list):
        for number, item in enumerate(value):
            out += places(item, f"{path}[{number + 1}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            out += places(item, f"{path}.{key}")
    return out


def reach(root: list[Any], path: str) -> tuple[Any, Any]:
    """(container, step) of a path like [2].k[1]."""
    pieces = path.replace("[", ".[").lstrip(".").split(".")
    steps: list[Any] = [int(piece[1:-1]) - 1 if piece.startswith("[") else piece for piece in pieces]
    container: Any = root
    for step in steps[:-1]:
        container = container[step]
    return container, steps[-1]


def model(row: list[Any], code: str, path: str, value: Any) -> None:
    container, step = reach(row, path)
    if code == "#":
        del container[step]
    elif code == "+":
        if not isinstance(container[step], int):
            raise RefusedError
        container[step] += 1
    else:
        container[step] = value


@settings(max_examples=500)
@given(document=documents, data=st.data())
def test_one_operation_inside_a_field_equals_one_on_the_document(document: Any, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(places(document)))
    code, value = data.draw(st.sampled_from("=#+")), data.draw(documents)
    operand = {"=": value, "#": 1, "+": 1}[code]
    expected: Any = unpack(pack([0, document, "end"]))
    try:
        model(expected, code, path, value)
    except RefusedError:
        expected = None
    try:
        result = unpack(apply_update(pack([[code, path, operand]]), pack([0, document, "end"]), {}, 0))
    except BoxError:
        result = None
    assert result == expected


def overlap(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


@settings(max_examples=500)
@given(document=documents, data=st.data())
def test_operations_on_parts_that_do_not_overlap_may_come_together(document: Any, data: st.DataObject) -> None:
    """No path is the beginning of another, so each acts as if it were alone; maps keep all their other keys."""
    found = places(document)[1:]
    chosen: list[str] = []
    for path in data.draw(st.lists(st.sampled_from(found), max_size=5)) if found else []:
        if not any(overlap(path, other) for other in chosen):
            chosen.append(path)
    ops, expected = [], unpack(pack([0, document]))
    for path in chosen:
        container, step = reach(expected, path)
        code = data.draw(st.sampled_from("=+")) if isinstance(container[step], int) else "="
        value = 1 if code == "+" else data.draw(documents)
        model(expected, code, path, value)
        ops.append([code, path, value])
    assert unpack(apply_update(pack(ops), pack([0, document]), {}, 0)) == expected


# ---- anything at all ----------------------------------------------------------------------------------------

paths = st.one_of(
    st.sampled_from(["id", "name", "data", "[3]", "data.a", "data.a.b", "data[1]", "data[1].a", "[3][2]", "data.c[1]"]),
    st.text(".[]'\"abd12*data", max_size=10),
)
any_ops = st.one_of(
    flat_ops,
    st.tuples(st.sampled_from("=!+-&|^#"), st.one_of(paths, field_numbers), values).map(list),
    st.tuples(st.just(":"), paths, st.integers(-5, 5), st.integers(-5, 5), st.one_of(st.text(max_size=3), values)).map(
        list
    ),
    st.lists(values, max_size=4),
    values,
)


@settings(max_examples=1000)
@given(row=st.lists(values, max_size=5), ops=st.lists(any_ops, max_size=8), base=st.integers(0, 1))
def test_any_operations_give_a_whole_tuple_or_an_error(row: list[Any], ops: list[Any], base: int) -> None:
    for call in (apply_update, apply_upsert):
        try:
            result = call(pack(ops), pack(row), NAMES, base)
        except BoxError:
            continue
        new = result if isinstance(result, bytes) else result.tuple
        assert isinstance(unpack(new), list)
        assert mp_next(new) == len(new)


@settings(max_examples=500)
@given(ops=st.binary(max_size=60), row=st.lists(values, max_size=4))
def test_foreign_bytes_are_refused_by_name(ops: bytes, row: list[Any]) -> None:
    for data in (ops, b"\x91" + ops, b"\x91\x93\xa1=\x00" + ops, b"\x91\x95\xa1:\xa4data" + ops):
        for call in (apply_update, apply_upsert):
            try:
                result = call(data, pack(row), NAMES, 0)
            except (BoxError, MsgPackError):
                continue
            new = result if isinstance(result, bytes) else result.tuple
            assert mp_next(new) == len(new)
        try:
            check_ops(data, NAMES, 0)
        except (BoxError, MsgPackError):
            continue


@given(old=st.floats(allow_nan=False), operand=st.floats(allow_nan=False))
def test_doubles_add_as_doubles_and_are_kept_exactly(old: float, operand: float) -> None:
    result = unpack(apply_update(pack([["+", 0, operand]]), pack([old]), {}, 0))[0]
    expected = old + operand
    assert float(result) == expected or (math.isnan(float(result)) and math.isnan(expected))


@given(
    old=st.builds(
        lambda digits, scale: Decimal(f"{digits}E{-scale}"), st.integers(-(10**38), 10**38), st.integers(0, 30)
    ),
    operand=st.one_of(numbers, st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-9, max_value=9)),
)
def test_decimals_add_exactly(old: Decimal, operand: Any) -> None:
    result = unpack(apply_update(pack([["-", 0, operand]]), pack([old]), {}, 0))[0]
    assert Fraction(result) == Fraction(old) - Fraction(operand)

"""Both kernels do the same: one random history, every answer compared."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from random import Random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.numbers import packed_numbers, scalars
from tests.kernels.packing import Raw, delete, insert, pack, packet, replace, select
from tests.kernels.stores import SPACE

from headwater.errors import MsgPackError
from headwater.typing import FieldType as T
from headwater.typing import IteratorType as It

Twins = tuple[ModuleType, ModuleType]


class Node:
    """A space of [id, scalar, scalar] with three indexes, on one kernel."""

    def __init__(self, k: ModuleType) -> None:
        self.k = k
        self.memtx = k.Memtx()
        self.memtx.replica_id = 1
        self.memtx.timestamp = 1.5
        self.space = self.memtx.add_space(SPACE)
        self.space.set_format(k.TupleFormat([(T.UNSIGNED, False), (T.SCALAR, True), (T.SCALAR, True)]))
        self.space.add_index(0, k.KeyDef([k.KeyPart(0, T.UNSIGNED)]), True)
        self.add_secondary()
        self.space.set_access(0, 3)
        self.space.fast = True
        self.views: list[Any] = []
        self.confirmed = 0

    def add_secondary(self) -> None:
        k, tail = self.k, [self.k.KeyPart(0, T.UNSIGNED)]
        self.space.add_index(1, k.KeyDef([k.KeyPart(1, T.SCALAR, True)], tail), True)
        parts = [k.KeyPart(2, T.SCALAR, True, True), k.KeyPart(1, T.SCALAR, True, True)]
        self.space.add_index(2, k.KeyDef(parts, tail), False)

    def step(self, what: str, row: list[Any], iterator: It, numbers: tuple[int, int]) -> Any:
        try:
            return getattr(self, f"do_{what}")(row, iterator, numbers)
        except self.k.DuplicateKey as error:
            return "duplicate", error.index_id, error.old, error.new
        except self.k.KeyViolation as error:
            return "key", error.kind, error.part, error.expected, error.given
        except self.k.FormatViolation as error:
            return "format", error.kind, error.field, error.expected, error.got
        except (MsgPackError, ValueError) as error:
            return type(error).__name__

    def do_insert(self, row: list[Any], iterator: It, numbers: tuple[int, int]) -> Any:
        return self.space.insert(pack(row))

    def do_replace(self, row: list[Any], iterator: It, numbers: tuple[int, int]) -> Any:
        return self.space.replace(pack(row))

    def do_update(self, row: list[Any], iterator: It, numbers: tuple[int, int]) -> Any:
        old = self.space.index(0).get(pack(row[:1]))
        return None if old is None else self.space.update(old, pack(row))

    def do_delete(self, row: list[Any], iterator: It, numbers: tuple[int, int]) -> Any:
        return self.space.delete(0, pack(row[:1]))

    def do_delete_secondary(self, row: list[Any], iterator: It, numbers: tuple[int, int]) -> Any:
        return self.space.delete(1, pack(row[1:2])) if row[1] is not None else None

    def do_select(self, row: list[Any], iterator: It, numbers: tuple[int, int]) -> Any:
        out = []
        for index, key in ((0, row[:1]), (1, row[1:2]), (2, row[2:0:-1]), (2, row[2:]), (2, [])):
            found = self.space.index(index)
            out.append(found.select(iterator, pack(key), numbers[0] % 3, numbers[1] % 9))
            out.append(found.select(iterator, pack(key), after=pack(row)))
            out.append(found.count(iterator, pack(key)))
        return out

    def do_run(self, row: list[Any], iterator: It, numbers: tuple[int, int]) -> Any:
        requests = [
            replace(SPACE, row), insert(SPACE, row), delete(SPACE, row[:1]), delete(SPACE, row[1:2], 1),
            select(SPACE, row[:1], iterator), select(SPACE, row[1:2], iterator, 1), packet({0: 0x40, 1: 3}),
            select(SPACE, row[2:], iterator, 2, limit=5, offset=1),
        ]  # fmt: skip
        first, count = numbers[0] % len(requests), numbers[1] % 4
        data = b"".join((requests * 2)[first : first + count])
        return self.memtx.run(data, 0, len(data), 0, numbers[1] % 7 == 0)

    def do_apply(self, row: list[Any], iterator: It, numbers: tuple[int, int]) -> Any:
        other = self.k.Memtx()
        other.add_row(2 + numbers[0] % 2, 0, b"\x82\x10\xcd\x02\x00\x21" + pack(row), lsn=numbers[1] + 1, replica_id=2)
        data = other.take_rows()[0]
        if self.memtx.undo_end != self.confirmed:
            return None
        try:
            return self.memtx.apply(data, 0, len(data), False)
        except self.k.DuplicateKey as error:
            return error.offset, error.rows

    def do_truncate(self, row: list[Any], iterator: It, numbers: tuple[int, int]) -> Any:
        contents = self.space.detach_all()
        self.memtx.push_undo(lambda: self.space.attach_all(contents))

    def do_reindex(self, row: list[Any], iterator: It, numbers: tuple[int, int]) -> Any:
        old = [self.space.detach_index(number) for number in (1, 2)]

        def back() -> None:
            for index in old:
                self.space.detach_index(index.id)
                self.space.attach_index(index)

        self.add_secondary()
        self.memtx.push_undo(back)

    def do_confirm(self, row: list[Any], iterator: It, numbers: tuple[int, int]) -> Any:
        self.confirmed = max(self.confirmed, self.memtx.undo_end - numbers[0] % 5)
        self.memtx.confirm_to(self.confirmed)

    def do_rollback(self, row: list[Any], iterator: It, numbers: tuple[int, int]) -> Any:
        self.memtx.rollback_to(max(self.confirmed, self.memtx.undo_end - numbers[0] % 8))

    def do_view(self, row: list[Any], iterator: It, numbers: tuple[int, int]) -> Any:
        self.views.append(self.memtx.open_view([SPACE]))

    def do_close(self, row: list[Any], iterator: It, numbers: tuple[int, int]) -> Any:
        if self.views:
            self.views.pop(numbers[0] % len(self.views)).close()

    def state(self) -> Any:
        indexes = [self.space.index(number).select(It.ALL, b"\x90") for number in range(3)]
        views = [list(view.tuples(SPACE)) for view in self.views]
        return indexes, views, len(self.space), self.space.bsize, self.memtx.undo_end, self.memtx.vclock


STEPS = [name.removeprefix("do_") for name in dir(Node) if name.startswith("do_")]

small = st.one_of(st.none(), st.integers(0, 5), st.sampled_from(["", "a", "ab", b"a", True]))
fields = st.one_of(small, small, scalars, packed_numbers.map(lambda pair: pair[1]))
rows = st.tuples(st.integers(0, 15), fields, fields).map(list)
histories = st.lists(
    st.tuples(
        st.sampled_from(STEPS + ["insert", "replace"] * 5 + ["run"] * 4),
        rows,
        st.sampled_from((It.EQ, It.REQ, It.ALL, It.LT, It.LE, It.GE, It.GT, It.NP, It.PP)),
        st.tuples(st.integers(0, 50), st.integers(0, 50)),
    ),
    max_size=60,
)


def show(value: Any) -> Any:
    """A reply of `run` without `dirty`, which one twin may know more exactly than the other."""
    return value[:3] if isinstance(value, tuple) and len(value) == 4 and isinstance(value[3], bool) else value


@settings(max_examples=300)
@given(history=histories)
def test_one_history_gives_one_state(both: Twins, history: list[tuple[str, list[Any], It, tuple[int, int]]]) -> None:
    native, pure = (Node(k) for k in both)
    for what, row, iterator, numbers in history:
        assert show(native.step(what, row, iterator, numbers)) == show(pure.step(what, row, iterator, numbers)), what
        assert native.state() == pure.state(), what
    assert native.memtx.take_rows() == pure.memtx.take_rows()
    fill = [node.memtx.open_view([SPACE]).fill(1 << 20, 0, 1.5) for node in (native, pure)]
    assert fill[0] == fill[1]


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except MsgPackError:
        return "MsgPackError"


foreign = st.one_of(
    st.binary(max_size=60),
    st.lists(
        st.one_of(st.binary(max_size=8).map(Raw), scalars, packed_numbers.map(lambda pair: pair[1])), max_size=8
    ).map(pack),
)
extensions = st.builds(
    lambda kind, body: b"\xc7" + bytes([len(body), kind]) + body,
    st.integers(0, 9),
    st.one_of(
        st.binary(max_size=40),
        st.lists(st.sampled_from([0, 1, 0x0C, 0x1D, 0x81, 0x91, 0xD0, 0xFF]), max_size=20).map(bytes),
    ),
)


@settings(max_examples=500)
@given(data=st.one_of(foreign, extensions), offset=st.integers(0, 3))
def test_foreign_bytes_are_read_alike(both: Twins, data: bytes, offset: int) -> None:
    native, pure = both
    for name in ("mp_next", "mp_array_fields"):
        one, other = (outcome(getattr(k, name), data, offset) for k in (native, pure))
        assert one == other, name
    for name in ("mp_check_all", "frame_end"):
        place = min(offset, len(data))
        one, other = (outcome(getattr(k, name), data, place, len(data)) for k in (native, pure))
        assert one == other, name


@settings(max_examples=500)
@given(
    a=st.one_of(packed_numbers, scalars.map(lambda v: (v, pack(v)))),
    b=st.one_of(packed_numbers, scalars.map(lambda v: (v, pack(v)))),
)
def test_values_compare_alike(both: Twins, a: tuple[Any, bytes], b: tuple[Any, bytes]) -> None:
    native, pure = both
    assert native.mp_compare(a[1], b[1]) == pure.mp_compare(a[1], b[1])


@settings(max_examples=300)
@given(
    data=st.binary(max_size=80),
    requests=st.lists(rows, max_size=3),
    flips=st.lists(st.tuples(st.integers(0, 999), st.integers(0, 255)), max_size=3),
)
def test_broken_requests_are_served_alike(
    both: Twins, data: bytes, requests: list[list[Any]], flips: list[tuple[int, int]]
) -> None:
    stream = bytearray(b"".join(replace(SPACE, row) + select(SPACE, row[:1]) for row in requests) + data)
    for place, value in flips:
        if stream:
            stream[place % len(stream)] = value
    native, pure = (Node(k) for k in both)
    one, other = (node.memtx.run(bytes(stream), 0, len(stream), 0, False) for node in (native, pure))
    assert show(one) == show(other)
    assert native.state() == pure.state()
    one, other = (node.memtx.take_rows() for node in (native, pure))
    assert one == other


def random_row(dice: Random, keys: int) -> list[Any]:
    kinds = [
        lambda: dice.randrange(keys), lambda: dice.randrange(keys) / 4, lambda: f"s{dice.randrange(keys)}",
        lambda: None, lambda: Decimal(dice.randrange(keys)).scaleb(-1), lambda: -dice.randrange(keys),
    ]  # fmt: skip
    return [dice.randrange(keys), dice.choice(kinds)(), dice.choice(kinds)()]


@pytest.mark.parametrize("seed", range(6))
def test_long_histories_split_and_merge_pages_alike(both: Twins, seed: int) -> None:
    """Enough tuples for several levels of pages, growing and shrinking, with views held over all of it."""
    dice = Random(seed)
    native, pure = (Node(k) for k in both)
    keys = 20_000
    order = sorted(range(keys)) if seed % 2 else dice.sample(range(keys), keys)
    growing = True
    iterators = (It.EQ, It.REQ, It.ALL, It.LT, It.LE, It.GE, It.GT, It.NP, It.PP)
    for number in range(8000):
        growing ^= dice.random() < 0.0008
        row = random_row(dice, keys)
        if growing and dice.random() < 0.7:
            row[0] = order[number]
        what = dice.choice(
            ["replace"] * 8 + ["insert"] * 2 + ["delete"] * 3 if growing else ["delete"] * 8 + ["replace"]
        )
        if what == "delete" and not growing:
            row[0] = order[dice.randrange(number + 1)]
        if dice.random() < 0.02:
            what = dice.choice(["select", "run", "confirm", "view", "close", "rollback", "delete_secondary", "update"])
        step = row, dice.choice(iterators), (dice.randrange(500), dice.randrange(500))
        assert show(native.step(what, *step)) == show(pure.step(what, *step)), (number, what)
        if number % 1000 == 999:
            assert native.state() == pure.state(), number
    while native.views:
        native.views.pop().close()
        pure.views.pop().close()
        assert native.state() == pure.state()
    assert native.memtx.take_rows() == pure.memtx.take_rows()

"""A space with three indexes against sorted lists: random writes, undo, views, detaching, enough for many pages."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from tests.kernels.packing import pack

from headwater.typing import FieldType as T
from headwater.typing import IteratorType as It

Row = list[Any]
SPACE = 600


def _nil_first(value: Any) -> tuple[int, Any]:
    return (0, 0) if value is None else (1, value)


class Model:
    """What the space must hold. Fields: key (a number and a string), an optional unique word, a group, a filler."""

    def __init__(self, k: ModuleType, rng: random.Random) -> None:
        self.k = k
        self.rng = rng
        self.node = k.Memtx()
        self.space = self.node.add_space(SPACE)
        self.space.set_format(
            k.TupleFormat([(T.UNSIGNED, False), (T.STRING, False), (T.STRING, True), (T.INTEGER, True)])
        )
        self.pk = [k.KeyPart(0, T.UNSIGNED), k.KeyPart(1, T.STRING)]
        self.space.add_index(0, k.KeyDef(self.pk), True)
        self.space.add_index(1, k.KeyDef([k.KeyPart(2, T.STRING, True)], self.pk), True)
        self.space.add_index(2, k.KeyDef([k.KeyPart(3, T.INTEGER, True, True)], self.pk), False)
        self.rows: dict[tuple[int, str], bytes] = {}
        self.plain: dict[bytes, Row] = {}
        self.words: dict[str, tuple[int, str]] = {}
        self.undo: list[Callable[[], None]] = []
        self.confirmed = 0
        self.views: list[tuple[Any, list[bytes]]] = []

    # ---- orders

    def _row(self, data: bytes) -> Row:
        return self.plain[data]

    def sort_key(self, index_id: int, data: bytes) -> tuple[Any, ...]:
        row = self._row(data)
        own: tuple[Any, ...] = ()
        if index_id == 1:
            own = (_nil_first(row[2]),)
        elif index_id == 2:
            own = (_nil_first(row[3]),)
        return (*own, row[0], row[1].encode())

    def ordered(self, index_id: int) -> list[bytes]:
        rows = [data for data in self.rows.values() if index_id != 2 or self._row(data)[3] is not None]
        return sorted(rows, key=lambda data: self.sort_key(index_id, data))

    # ---- writes, each with its way back

    def make(self, number: int, text: str) -> tuple[bytes, Row]:
        rng = self.rng
        word = None if rng.random() < 0.5 else f"w{rng.randrange(5000)}"
        group = None if rng.random() < 0.3 else rng.randrange(-40, 40)
        row: Row = [number, text, word, group, "x" * rng.choice((0, 5, 100, 1500 if rng.random() < 0.02 else 7))]
        data = pack(row)
        self.plain[data] = row
        return data, row

    def _set(self, key: tuple[int, str], data: bytes | None) -> None:
        old = self.rows.pop(key, None)
        if old is not None and self._row(old)[2] is not None:
            del self.words[self._row(old)[2]]
        if data is not None:
            self.rows[key] = data
            if self._row(data)[2] is not None:
                self.words[self._row(data)[2]] = key

    def _record(self, key: tuple[int, str], old: bytes | None, new: bytes | None) -> None:
        self.undo.append(lambda: self._set(key, old))
        self._set(key, new)

    def put(self, key: tuple[int, str], mode: str) -> None:
        data, row = self.make(*key)
        old = self.rows.get(key)
        owner = self.words.get(row[2])
        if mode == "insert" and old is not None:
            with pytest.raises(self.k.DuplicateKey) as caught:
                self.space.insert(data)
            assert (caught.value.index_id, caught.value.old, caught.value.new) == (0, old, data)
            return
        write = {
            "insert": lambda: self.space.insert(data),
            "replace": lambda: self.space.replace(data),
            "update": lambda: self.space.update(old, data),
        }[mode]
        if mode == "update" and old is None:
            old = data
            with pytest.raises(ValueError):
                write()
            return
        if owner is not None and owner != key:
            with pytest.raises(self.k.DuplicateKey) as caught:
                write()
            assert (caught.value.index_id, caught.value.old) == (1, self.rows[owner])
            return
        assert write() == (old if mode == "replace" else None)
        self._record(key, old, data)

    def delete(self, key: tuple[int, str]) -> None:
        old = self.rows.get(key)
        word = self._row(old)[2] if old is not None else None
        if word is not None and self.rng.random() < 0.3:
            assert self.space.delete(1, pack([word])) == old
        else:
            assert self.space.delete(0, pack(list(key))) == old
        if old is not None:
            self._record(key, old, None)

    def burst(self) -> None:
        """Many writes of one shape: this is what splits, fills and empties pages."""
        rng = self.rng
        shape = rng.choice(("up", "down", "random", "random", "clear", "clear a range"))
        start = rng.randrange(4000)
        count = rng.choice((1, 3, 50, 400, 900))
        if shape == "up":
            keys = [(start + i, "") for i in range(count)]
        elif shape == "down":
            keys = [(start - i, "") for i in range(min(count, start))]
        elif shape == "random":
            keys = [(rng.randrange(4000), rng.choice(("", "a", "b"))) for _ in range(count)]
        elif shape == "clear":
            for key in rng.sample(sorted(self.rows), min(count, len(self.rows))):
                self.delete(key)
            return
        else:
            for key in [key for key in sorted(self.rows) if start <= key[0] < start + count]:
                self.delete(key)
            return
        mode = rng.choice(("insert", "replace", "replace", "update"))
        for key in keys:
            self.put(key, mode)

    # ---- undo

    def roll_back(self) -> None:
        left = self.rng.randrange(self.confirmed, len(self.undo) + 1)
        self.node.rollback_to(left)
        while len(self.undo) > left:
            self.undo.pop()()

    def confirm(self) -> None:
        self.confirmed = self.rng.randrange(self.confirmed, len(self.undo) + 1)
        self.node.confirm_to(self.confirmed)

    # ---- the rest

    def open_view(self) -> None:
        self.views.append((self.node.open_view([SPACE]), self.ordered(0)))

    def close_view(self) -> None:
        if self.views:
            view, expected = self.views.pop(self.rng.randrange(len(self.views)))
            assert list(view.tuples(SPACE)) == expected
            view.close()

    def detach_and_attach(self) -> None:
        index_id = self.rng.choice((1, 2))
        index = self.space.detach_index(index_id)
        position = self.node.undo_end
        for key in self.rng.sample(sorted(self.rows), min(20, len(self.rows))):
            self.space.delete(0, pack(list(key)))
        self.node.rollback_to(position)
        self.space.attach_index(index)

    def rebuild(self) -> None:
        index_id = self.rng.choice((1, 2))
        old = self.space.detach_index(index_id)
        index = self.space.add_index(index_id, old.key_def, old.unique)
        assert len(index) == len(old)

    def truncate_and_back(self) -> None:
        position = self.node.undo_end
        contents = self.space.detach_all()
        assert len(self.space) == 0
        assert self.space.bsize == 0
        for number in range(100):
            self.space.replace(pack([number, "t"]))
        self.node.rollback_to(position)
        self.space.attach_all(contents)

    def check(self) -> None:
        rng = self.rng
        assert len(self.space) == len(self.rows)
        assert self.space.bsize == sum(map(len, self.rows.values()))
        for index_id in range(3):
            index = self.space.index(index_id)
            rows = self.ordered(index_id)
            assert index.select(It.ALL, b"\x90") == rows
            assert index.select(It.LE, b"\x90") == rows[::-1]
            assert len(index) == len(rows)
            skip, most = rng.randrange(len(rows) + 2), rng.randrange(5)
            assert index.select(It.GE, b"\x90", skip, most) == rows[skip : skip + most]
            assert index.select(It.LT, b"\x90", skip, most) == rows[::-1][skip : skip + most]
            self.check_keys(index_id, index, rows)

    def check_keys(self, index_id: int, index: Any, rows: list[bytes]) -> None:
        rng = self.rng
        for _ in range(6):
            parts = self.some_key(index_id, rows)
            size = len(parts)
            own = [self.parts(index_id, data)[:size] for data in rows]
            cut = [_comparable(part) for part in own]
            wanted = _comparable(parts)
            matching = {
                It.EQ: [i for i in range(len(rows)) if cut[i] == wanted],
                It.GE: [i for i in range(len(rows)) if cut[i] >= wanted],
                It.GT: [i for i in range(len(rows)) if cut[i] > wanted],
                It.LE: [i for i in range(len(rows)) if cut[i] <= wanted][::-1],
                It.LT: [i for i in range(len(rows)) if cut[i] < wanted][::-1],
            }
            matching[It.REQ] = matching[It.EQ][::-1]
            key = pack(parts)
            for iterator, positions in matching.items():
                skip = rng.choice((0, 0, 1, 70))
                expected = [rows[i] for i in positions]
                assert index.select(iterator, key, skip, 80) == expected[skip : skip + 80], (iterator, parts)
                assert index.count(iterator, key) == len(positions), (iterator, parts)
                if expected:
                    at = rng.randrange(len(expected))
                    assert index.select(iterator, key, 0, 9, after=expected[at]) == expected[at + 1 : at + 10]

    def parts(self, index_id: int, data: bytes) -> list[Any]:
        row = self._row(data)
        return [row[0], row[1]] if index_id == 0 else [row[1 + index_id]]

    def some_key(self, index_id: int, rows: list[bytes]) -> list[Any]:
        rng = self.rng
        if rows and rng.random() < 0.6:
            key = self.parts(index_id, rng.choice(rows))
        elif index_id == 0:
            key = [rng.randrange(4100), rng.choice(("", "a", "zz"))]
        else:
            key = [rng.choice((None, f"w{rng.randrange(5000)}" if index_id == 1 else rng.randrange(-50, 50)))]
        return key[: rng.randrange(1, len(key) + 1)]


def _comparable(parts: list[Any]) -> list[tuple[int, Any]]:
    return [_nil_first(part.encode() if isinstance(part, str) else part) for part in parts]


@pytest.mark.parametrize("seed", range(6))
def test_space_equals_its_model_after_any_writes(k: ModuleType, seed: int) -> None:
    run_model(k, seed, 60 if k.__name__.endswith("_native") else 8)


def run_model(k: ModuleType, seed: int, steps: int) -> None:
    model = Model(k, random.Random(seed))
    actions = [
        (model.burst, 12), (model.roll_back, 2), (model.confirm, 2), (model.open_view, 2), (model.close_view, 2),
        (model.detach_and_attach, 1), (model.rebuild, 1), (model.truncate_and_back, 1),
    ]  # fmt: skip
    for _ in range(steps):
        action = model.rng.choices([action for action, _ in actions], [weight for _, weight in actions])[0]
        action()
        if model.rng.random() < 0.3:
            model.check()
    model.check()
    while model.views:
        model.close_view()
    model.node.rollback_to(model.confirmed)
    while len(model.undo) > model.confirmed:
        model.undo.pop()()
    model.check()


def test_writes_without_undo_are_refused_while_changes_wait(k: ModuleType) -> None:
    """Found by fuzzing: what such a write took out, a later roll back would have taken out again."""
    node = k.Memtx()
    space = node.add_space(SPACE)
    space.add_index(0, k.KeyDef([k.KeyPart(0, T.UNSIGNED)]), True)
    space.fast = True
    space.insert(pack([1, "a"]))
    node.undo_enabled = False
    for write in (
        lambda: space.insert(pack([2])), lambda: space.replace(pack([1, "b"])), lambda: space.delete(0, pack([1])),
        lambda: space.update(pack([1, "a"]), pack([1, "b"])),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="without undo"):
            write()
    row = b"\x82\x00\x03\x03\x01" + b"\x82\x10\xcd\x02\x58\x21" + pack([1, "c"])
    assert node.apply(row, 0, len(row), False) == (0, 0)
    node.confirm_to(node.undo_end)
    assert node.apply(row, 0, len(row), False) == (len(row), 1)
    assert space.replace(pack([1, "d"])) == pack([1, "c"])


def test_changes_are_not_undone_in_tuples_that_are_not_there(k: ModuleType) -> None:
    if k.__name__.endswith("pure"):
        pytest.skip("the plain twin trusts its caller here: it has no memory to lose")
    node = k.Memtx()
    space = node.add_space(SPACE)
    space.add_index(0, k.KeyDef([k.KeyPart(0, T.UNSIGNED)]), True)
    space.insert(pack([1, "a"]))
    space.detach_all()
    with pytest.raises(ValueError, match="cannot be undone"):
        node.rollback_to(0)
    assert len(space) == 0
    assert node.undo_end == 0

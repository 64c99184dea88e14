"""Random transactions against a serial model: whatever commits must have seen one state between two commits."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.txn.store import Client, Store, client

from headwater.errors import BoxError
from headwater.kernels import DuplicateKey
from headwater.txn import Isolation, Status
from headwater.txn.base import kernel_of
from headwater.typing import IteratorType

Row = tuple[Any, ...]
State = dict[int, Row]
Scan = tuple[int, int, tuple[Any, ...], int, int]
"""(index, iterator, key, offset, limit)"""

NAMES = [None, "a", "b", "c"]
ITERATORS = list(IteratorType)[:7]
LEVELS = [Isolation.READ_COMMITTED, Isolation.READ_CONFIRMED, Isolation.BEST_EFFORT]
_SORT: dict[int, Callable[[Row], Any]] = {
    0: lambda row: (row[0],),
    1: lambda row: (row[1] is not None, row[1] or "", row[0]),
    2: lambda row: (row[2], row[0]),
}
_KEY: dict[int, Callable[[Row], Any]] = {
    0: lambda row: (row[0],),
    1: lambda row: (row[1] is not None, row[1] or ""),
    2: lambda row: (row[2],),
}


def evaluate(state: State, scan: Scan) -> list[Row]:
    """SELECT in plain words."""
    index, iterator, key, offset, limit = scan
    rows = sorted(state.values(), key=_SORT[index])
    if key:
        sought = _KEY[index]((key[0], key[0], key[0]))
        keep = {
            IteratorType.EQ: lambda at: at == sought,
            IteratorType.REQ: lambda at: at == sought,
            IteratorType.GE: lambda at: at >= sought,
            IteratorType.GT: lambda at: at > sought,
            IteratorType.LE: lambda at: at <= sought,
            IteratorType.LT: lambda at: at < sought,
            IteratorType.ALL: lambda at: at >= sought,
        }[IteratorType(iterator)]
        rows = [row for row in rows if keep(_KEY[index](row))]
    if iterator in (IteratorType.REQ, IteratorType.LE, IteratorType.LT):
        rows.reverse()
    return rows[offset : offset + limit]


@dataclass
class Log:
    """What one transaction did and what it was told."""

    client: Client
    steps: list[tuple[str, Any, Any]] = field(default_factory=list)
    wrote: bool = False


def replay(log: Log, state: State) -> State | None:
    """The state after the same steps; None if a step would have been answered otherwise."""
    state = dict(state)
    for kind, what, told in log.steps:
        if kind == "select":
            if evaluate(state, what) != told:
                return None
        elif kind == "delete":
            if (state.pop(what, None) is not None) != told:
                return None
        else:
            clash = any(row[1] is not None and row[1] == what[1] and row[0] != what[0] for row in state.values())
            clash |= kind == "insert" and what[0] in state
            if clash == told:
                return None
            if told:
                state[what[0]] = what
    return state


KINDS = ["select"] * 6 + ["replace"] * 3 + ["insert", "insert", "delete", "delete", "commit", "commit", "rollback"]
KINDS += ["auto"] * 3 + ["confirm", "confirm", "lose"]


def script(chance: random.Random) -> Iterator[tuple[str, int, Any]]:
    """Sixty things to do, most of them in three transactions at a time."""
    for _ in range(60):
        kind = chance.choice(KINDS)
        what: Any = None
        if kind == "select":
            index = chance.randrange(3)
            value = chance.choice(NAMES) if index == 1 else chance.randrange(4)
            key = (value,) if chance.random() < 0.7 else ()
            what = (index, chance.choice(ITERATORS), key, chance.randrange(3), chance.choice([1, 2, 100]))
        elif kind in ("replace", "insert", "auto"):
            what = (chance.randrange(5), chance.choice(NAMES), chance.randrange(4))
        elif kind in ("delete", "confirm", "lose"):
            what = chance.randrange(4)
        yield kind, chance.randrange(3), what


class Machine:
    def __init__(self, levels: list[Isolation]) -> None:
        self.levels = levels
        self.begun = 0
        self.store = Store()
        self.states: list[State] = [{}]
        """After each prepared transaction that still stands."""
        self.positions = [self.store.memtx.undo_end]
        self.confirmed = 0
        self.logs: dict[int, Log] = {}

    def step(self, kind: str, slot: int, what: Any) -> None:
        if kind == "auto":
            self.auto(what)
        elif kind == "confirm":
            self.confirm(min(self.confirmed + what, len(self.states) - 1))
        elif kind == "lose":
            self.lose(min(self.confirmed + what, len(self.states) - 1))
        else:
            self.statement(self.log(slot), kind, slot, what)

    def log(self, slot: int) -> Log:
        """The transaction in a slot; a new one, of the level that is due, if there is none."""
        if slot not in self.logs:
            level = self.levels[self.begun % len(self.levels)]
            self.begun += 1
            self.logs[slot] = Log(client(self.store, level))
            if level is Isolation.READ_CONFIRMED:
                self.confirm(len(self.states) - 1)
        return self.logs[slot]

    def auto(self, row: Row) -> None:
        try:
            self.store.put(row)
        except DuplicateKey:
            return
        self.prepared({**self.states[-1], row[0]: row})

    def prepared(self, state: State) -> None:
        self.states.append(state)
        self.positions.append(self.store.memtx.undo_end)

    def confirm(self, to: int) -> None:
        self.store.memtx.confirm_to(self.positions[to])
        self.confirmed = to

    def lose(self, keep: int) -> None:
        self.store.lost_from(self.positions[keep])
        del self.states[keep + 1 :]
        del self.positions[keep + 1 :]

    def statement(self, log: Log, kind: str, slot: int, what: Any) -> None:
        try:
            getattr(self, f"do_{kind}")(log, what)
        except BoxError as error:
            event(error.message)
            if kind == "commit":
                del self.logs[slot]
        else:
            if kind in ("commit", "rollback"):
                del self.logs[slot]

    def do_select(self, log: Log, scan: Scan) -> None:
        index, iterator, key, offset, limit = scan
        log.client.txn.must_settle = False
        found = log.client.select(list(key), iterator, index, limit, offset)
        told = [tuple(row) for row in found]
        log.steps.append(("select", scan, told))
        level = log.client.txn.isolation
        if not log.wrote and not log.client.txn.must_settle and level is not Isolation.READ_COMMITTED:
            seen = any(evaluate(state, scan) == told for state in self.states[: self.confirmed + 1])
            assert seen, f"{level} showed something that may be lost"

    def do_replace(self, log: Log, row: Row) -> None:
        self.write(log, "replace", row, lambda: log.client.replace(*row))

    def do_insert(self, log: Log, row: Row) -> None:
        self.write(log, "insert", row, lambda: log.client.insert(*row))

    def write(self, log: Log, kind: str, row: Row, call: Callable[[], None]) -> None:
        try:
            call()
        except DuplicateKey:
            log.steps.append((kind, row, False))
        else:
            log.steps.append((kind, row, True))
            log.wrote = True

    def do_delete(self, log: Log, id: int) -> None:
        before = len(log.client.txn.changes)
        log.client.delete(id)
        found = len(log.client.txn.changes) > before
        log.steps.append(("delete", id, found))
        log.wrote |= found

    def do_rollback(self, log: Log, _: None) -> None:
        log.client.rollback()

    def do_commit(self, log: Log, _: None) -> None:
        in_view = log.client.txn.status is Status.IN_READ_VIEW
        log.client.commit()
        if log.wrote:
            after = replay(log, self.states[-1])
            event("writer")
            assert after is not None, "a writer saw something else than what its commit comes after"
            self.prepared(after)
        else:
            event("read view" if in_view else "reader")
            assert any(replay(log, state) is not None for state in self.states), "a reader saw no single state"

    def check(self) -> None:
        there = {row[0]: tuple(row) for row in self.store.rows()}
        assert there == self.states[-1]
        for index in range(3):
            kernel = kernel_of(self.store.space).index(index)
            assert kernel is not None
            assert len(kernel) == len(there)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_commits_saw_one_state(seed: int) -> None:
    chance = random.Random(seed)
    machine = Machine(chance.choices(LEVELS, k=3))
    for slot in range(3):
        machine.auto((slot, NAMES[slot], slot))
    for kind, slot, what in script(chance):
        machine.step(kind, slot, what)
        machine.check()
    for slot in list(machine.logs):
        machine.step("rollback", slot, None)
    assert not machine.store.txns.open
    assert all(kernel_of(space).fast for space in machine.store.spaces.values())

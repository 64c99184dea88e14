"""What clients were told, and what must follow from it. No node is asked here: rows go in, violations come out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from headwater.sim.check import Violation


class Fate(Enum):
    ASKED = "asked"
    """No answer: it may be there or not."""
    DONE = "done"
    REFUSED = "refused"
    LOST = "lost"
    """It was done, and a power cut took it before anybody else had it."""


@dataclass
class Log:
    """Rows that one client inserted on one node, numbered from 1, each after the answer to the one before."""

    writer: int
    node: str
    fates: dict[int, Fate] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    """By node: the last number that was read there."""

    def ask(self) -> int:
        number = len(self.fates) + 1
        self.fates[number] = Fate.ASKED
        return number

    def _of(self, fate: Fate) -> list[int]:
        return [number for number, each in self.fates.items() if each is fate]

    @property
    def done(self) -> list[int]:
        return self._of(Fate.DONE)

    def look(self, node: str, found: Sequence[int]) -> None:
        """What a node shows of it: everything done before the last row there, and no less than it once showed."""
        self._no_strangers(node, found)
        last = max(found, default=0)
        self._nothing_missing(node, found, last, "order")
        if last < self.seen.get(node, 0):
            raise Violation(f"order: {self._name} goes back on {node}, from {self.seen[node]} to {last}")
        self.seen[node] = last

    def forget(self, node: str) -> None:
        """A power cut may have taken the last rows there."""
        self.seen.pop(node, None)

    def judge(self, node: str, found: Sequence[int]) -> None:
        """After everything was healed."""
        self._no_strangers(node, found)
        self._nothing_missing(node, found, len(self.fates), "durability")

    def cut_tail(self, found: Sequence[int]) -> int:
        """Its node has come back without its last rows, and nobody has them. How many of those were done."""
        last = max(found, default=0)
        gone = [number for number in self.fates if number > last and self.fates[number] in (Fate.DONE, Fate.ASKED)]
        done = sum(self.fates[number] is Fate.DONE for number in gone)
        for number in gone:
            self.fates[number] = Fate.LOST
        return done

    @property
    def _name(self) -> str:
        return f"log {self.writer} of {self.node}"

    def _no_strangers(self, node: str, found: Sequence[int]) -> None:
        for number in found:
            fate = self.fates.get(number)
            if fate is None or fate in (Fate.REFUSED, Fate.LOST):
                told = "was never asked for" if fate is None else f"is {fate.value}"
                raise Violation(f"durability: {node} has row {number} of {self._name}, which {told}")
        if len(set(found)) != len(found):
            raise Violation(f"order: {node} has a row of {self._name} twice")

    def _nothing_missing(self, node: str, found: Sequence[int], last: int, kind: str) -> None:
        there = set(found)
        missing = [number for number in self.done if number <= last and number not in there]
        if missing:
            words = f"{len(missing)} rows of {self._name}, the first is {missing[0]}; the last one there is"
            raise Violation(f"{kind}: {node} lacks {words} {max(found, default=0)} of {len(self.fates)}")


@dataclass
class Counter:
    """A number that everybody adds to, on every node at once."""

    asked: int = 0
    done: int = 0
    refused: int = 0

    def judge(self, node: str, key: int, value: int) -> None:
        least, most = self.done, self.asked - self.refused
        if not least <= value <= most:
            words = f"durability: counter {key} is {value} on {node}"
            raise Violation(f"{words}; {self.done} additions were acknowledged, {most} may have been made")


TOTAL = 100
"""What all accounts hold together."""


def check_bank(node: str, rows: Iterable[Sequence[int]]) -> None:
    """Accounts are made in one transaction, and every transfer is one."""
    total = sum(row[1] for row in rows)
    if total not in (0, TOTAL):
        raise Violation(f"order: the accounts hold {total} on {node}, not {TOTAL}: a part of a transaction")


def check_same_data(contents: Mapping[str, Mapping[str, list[bytes]]]) -> None:
    """By node, by space: every tuple, in order. All must be the same."""
    first, *others = contents
    for other in others:
        for space in sorted(contents[first].keys() | contents[other].keys()):
            one, two = contents[first].get(space), contents[other].get(space)
            if one != two:
                raise Violation(f"convergence: space {space} differs: {_difference(first, one, other, two)}")


def _difference(one: str, rows: list[bytes] | None, other: str, others: list[bytes] | None) -> str:
    if rows is None or others is None:
        return f"{one if rows is None else other} has none"
    mine, theirs = set(rows), set(others)
    only = [
        f"{name} alone has {min(each).hex()}" for name, each in ((one, mine - theirs), (other, theirs - mine)) if each
    ]
    return f"{len(rows)} tuples on {one}, {len(others)} on {other}; {', '.join(only) or 'in another order'}"

"""The judgement over a whole node, seen by its clients only.

Each writer has keys of its own, so that what it did to them is one sequence. After a crash its keys must be as they
were after some first part of that sequence; an act that was never answered may be missing in it, for the disk may have
refused it. And what is there must agree between writers: if one's change is there, so is everything that anybody had
been told was done before that change was even asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.sim.check import Violation

Rows = dict[int, tuple[Any, ...]]
"""One writer's tuples by key, without the key."""


@dataclass(slots=True, eq=False)
class Act:
    """One transaction of a writer."""

    what: str
    apply: Callable[[Rows], None]
    asked_at: float
    done_at: float | None = None
    """When the node said that it is done; None while or if it did not say."""


@dataclass(slots=True)
class Part:
    """How much of a sequence is there: between these counts, for some acts leave no trace."""

    least: int
    most: int


@dataclass
class Sequence:
    """What one writer did to its keys."""

    name: str
    base: Rows = field(default_factory=dict)
    """Before the first act in the list."""
    acts: list[Act] = field(default_factory=list)
    is_unclear: bool = False
    """Too much was never answered: until the next snapshot nobody can tell what must be there."""

    def add(self, what: str, apply: Callable[[Rows], None], now: float) -> Act:
        act = Act(what, apply, now)
        self.acts.append(act)
        return act

    def drop(self, act: Act) -> None:
        """The node said that it is not done."""
        self.acts.remove(act)

    def rows(self) -> Rows:
        """After every act."""
        rows = dict(self.base)
        for act in self.acts:
            act.apply(rows)
        return rows

    def check_live(self, found: Rows) -> None:
        expected = self.rows()
        if self.is_unclear or any(act.done_at is None for act in self.acts):
            return
        if found != expected:
            raise Violation(f"{self.name}: {difference(expected, found)}, though no act is open")

    def part(self, found: Rows) -> Part:
        """After how many acts the rows are as they are. Violation if after none."""
        wanted = frozen(found)
        states = {frozen(self.base): self.base}
        matches = [0] if wanted in states else []
        for number, act in enumerate(self.acts):
            states = _after(states, act)
            self.is_unclear = self.is_unclear or len(states) > STATES_MAX
            if self.is_unclear:
                return Part(0, len(self.acts))
            if wanted in states:
                matches.append(number + 1)
        if not matches:
            raise Violation(
                f"{self.name}: the keys are as after no first part of its {len(self.acts)} acts; "
                f"after all of them: {difference(self.rows(), found)}"
            )
        return Part(matches[0], matches[-1])

    def keep(self, part: Part) -> None:
        """What is not there never was."""
        del self.acts[part.most :]

    def settle(self, found: Rows) -> None:
        """What is there is on the disk for good."""
        self.base = found
        self.acts = []
        self.is_unclear = False


State = frozenset[tuple[int, tuple[Any, ...]]]
STATES_MAX = 4096
"""More possible pasts than this are not told apart."""


def frozen(rows: Rows) -> State:
    return frozenset(rows.items())


def _after(states: dict[State, Rows], act: Act) -> dict[State, Rows]:
    """All states that may be after an act, by those before it."""
    out = dict(states) if act.done_at is None else {}
    for rows in states.values():
        changed = dict(rows)
        act.apply(changed)
        out[frozen(changed)] = changed
    return out


def difference(expected: Rows, found: Rows) -> str:
    wrong = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
    if not wrong:
        return "no difference"
    key = wrong[0]
    return f"{len(wrong)} keys are wrong, the first is {key}: expected {expected.get(key)}, found {found.get(key)}"


def check_recovered(sequences: Mapping[str, Sequence], found: Mapping[str, Rows], *, keeps_done: bool) -> None:
    """A node has come back."""
    parts = {name: sequence.part(found[name]) for name, sequence in sequences.items()}
    for name, sequence in sequences.items():
        lost = [act for act in sequence.acts[parts[name].most :] if act.done_at is not None]
        if lost and keeps_done:
            raise Violation(f"{name}: {len(lost)} acts that were done are lost, the first is {lost[0].what}")
    _check_order(sequences, parts)
    for name, sequence in sequences.items():
        sequence.keep(parts[name])


def _check_order(sequences: Mapping[str, Sequence], parts: Mapping[str, Part]) -> None:
    """Is there an act whose cause is not?"""
    # Without the last one of the least part the keys would be otherwise: these are there for certain.
    present = [sequence.acts[parts[name].least - 1] for name, sequence in sequences.items() if parts[name].least]
    if not present:
        return
    latest = max(present, key=lambda act: act.asked_at)
    for name, sequence in sequences.items():
        for act in sequence.acts[parts[name].most :]:
            if act.done_at is not None and act.done_at < latest.asked_at:
                raise Violation(f"{name}: {act.what} is lost, but {latest.what}, asked for after it was done, is there")

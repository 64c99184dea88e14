"""The vector clock: for each replica id the LSN of the last row seen of it (vclock.h, vclock.c).

Component 0 counts rows that stay on their instance (local spaces, raft), so two replicas are compared without it.
A component of 0 counts as absent: it is neither printed nor sent, which is what a Tarantool does after `vclock_reset`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum

from headwater.errors import HeadwaterError
from headwater.typing import VCLOCK_MAX, Lsn, ReplicaId

_LSN_MAX = (1 << 63) - 1


class VClockError(HeadwaterError, ValueError):
    """A component that is no id below 32 or no LSN, one that goes back, or text that is no vclock."""


class Order(Enum):
    """How two vclocks stand to each other."""

    LESS = -1
    EQUAL = 0
    GREATER = 1
    CONCURRENT = None
    """Each has rows that the other has not (VCLOCK_ORDER_UNDEFINED)."""


class VClock:
    """Mutable; copy before keeping one that others change. Equal when all components are."""

    __slots__ = ("_lsns",)

    def __init__(self, components: Mapping[int, int] | None = None) -> None:
        self._lsns: dict[int, int] = {}
        for replica_id, lsn in sorted((components or {}).items()):
            self.reset(replica_id, lsn)

    # ---- reading

    def get(self, replica_id: int) -> Lsn:
        """LSN of the last row of that replica, 0 if there was none."""
        return Lsn(self._lsns.get(replica_id, 0))

    def items(self) -> Iterator[tuple[ReplicaId, Lsn]]:
        """Components above 0 by id."""
        for replica_id in sorted(self._lsns):
            yield ReplicaId(replica_id), Lsn(self._lsns[replica_id])

    def as_dict(self, *, ignore0: bool = False) -> dict[int, int]:
        return {replica_id: lsn for replica_id, lsn in self.items() if not (ignore0 and replica_id == 0)}

    @property
    def signature(self) -> int:
        """Sum of all components, 0 included: it names files, and orders those of one directory."""
        return sum(self._lsns.values())

    def copy(self, *, ignore0: bool = False) -> VClock:
        twin = VClock()
        twin._lsns = dict(self._lsns)
        if ignore0:
            twin._lsns.pop(0, None)
        return twin

    # ---- moving

    def follow(self, replica_id: int, lsn: int) -> Lsn:
        """The next row of a replica was seen. It must be newer; VClockError if not. Returns the LSN before."""
        previous = self.get(replica_id)
        if lsn <= previous:
            raise VClockError(f"LSN {lsn} of replica {replica_id} is not newer than {previous}")
        self.reset(replica_id, lsn)
        return previous

    def reset(self, replica_id: int, lsn: int) -> None:
        """Set a component, back too; 0 removes it."""
        if not 0 <= replica_id < VCLOCK_MAX:
            raise VClockError(f"replica id {replica_id} is not between 0 and {VCLOCK_MAX - 1}")
        if not 0 <= lsn <= _LSN_MAX:
            raise VClockError(f"LSN {lsn} of replica {replica_id} is not between 0 and 2^63-1")
        if lsn:
            self._lsns[replica_id] = lsn
        else:
            self._lsns.pop(replica_id, None)

    def merge(self, other: VClock, *, ignore0: bool = False) -> None:
        """Take the greater of each component (vclock_max)."""
        for replica_id, lsn in other._lsns.items():
            if not (ignore0 and replica_id == 0) and lsn > self.get(replica_id):
                self._lsns[replica_id] = lsn

    def minimum(self, other: VClock, *, ignore0: bool = False) -> None:
        """Take the smaller of each component (vclock_min)."""
        for replica_id in list(self._lsns):
            if not (ignore0 and replica_id == 0):
                self.reset(replica_id, min(self._lsns[replica_id], other.get(replica_id)))

    # ---- comparing

    def compare(self, other: VClock, *, ignore0: bool = False) -> Order:
        """The partial order (vclock_compare_generic)."""
        less = greater = False
        for replica_id in self._lsns.keys() | other._lsns.keys():
            if ignore0 and replica_id == 0:
                continue
            mine, theirs = self.get(replica_id), other.get(replica_id)
            less = less or mine < theirs
            greater = greater or mine > theirs
        if less and greater:
            return Order.CONCURRENT
        return Order.LESS if less else Order.GREATER if greater else Order.EQUAL

    def covers(self, other: VClock, *, ignore0: bool = False) -> bool:
        """Has it every row that the other has?"""
        return self.compare(other, ignore0=ignore0) in (Order.GREATER, Order.EQUAL)

    def lex_compare(self, other: VClock) -> int:
        """-1, 0, 1 by the first component that differs: a total order that agrees with `compare`."""
        for replica_id in sorted(self._lsns.keys() | other._lsns.keys()):
            mine, theirs = self.get(replica_id), other.get(replica_id)
            if mine != theirs:
                return -1 if mine < theirs else 1
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VClock) and self._lsns == other._lsns

    __hash__ = None  # type: ignore[assignment]

    # ---- quorums

    def nth_element(self, n: int) -> int:
        """The n-th smallest component, from 0; -1 if there are not that many (vclock_nth_element)."""
        return sorted(self._lsns.values())[n] if 0 <= n < len(self._lsns) else -1

    def count_ge(self, lsn: int) -> int:
        """How many components have come to `lsn` (vclock_count_ge)."""
        return sum(1 for component in self._lsns.values() if component >= lsn)

    def __len__(self) -> int:
        return len(self._lsns)

    def __bool__(self) -> bool:
        """Always true: a vclock is a value even while it is empty."""
        return True

    # ---- text

    def __str__(self) -> str:
        """`{0: 1, 1: 21}`, as in the headers of files (vclock_snprint)."""
        return "{" + ", ".join(f"{replica_id}: {lsn}" for replica_id, lsn in self.items()) + "}"

    def __repr__(self) -> str:
        return f"VClock({self})"

    @classmethod
    def parse(cls, text: str) -> VClock:
        """The way back, as tolerant of blanks as vclock_from_string. VClockError says at which character it failed."""
        vclock = cls()
        at = _skip(_OPEN, text, 0)
        while not (closing := _CLOSE.match(text, at)):
            found = _PAIR.match(text, at)
            if found is None:
                raise VClockError(f"invalid vclock at offset {at + 1}: {text!r}")
            replica_id, lsn = int(found[1]), int(found[2])
            if vclock.get(ReplicaId(replica_id)):
                raise VClockError(f"invalid vclock at offset {at + 1}: replica id {replica_id} appears twice")
            vclock.reset(replica_id, lsn)
            at = found.end()
        if closing.end() != len(text):
            raise VClockError(f"invalid vclock at offset {closing.end() + 1}: {text!r}")
        return vclock


_OPEN = re.compile(r"[ \t]*\{")
_PAIR = re.compile(r"[ \t]*([0-9]{1,10})[ \t]*:[ \t]*([0-9]{1,20})[ \t\n\v\f\r]*(?:,|(?=\}))")
_CLOSE = re.compile(r"[ \t]*\}[ \t]*")


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    if found is None:
        raise VClockError(f"invalid vclock at offset {at + 1}: {text!r}")
    return found.end()

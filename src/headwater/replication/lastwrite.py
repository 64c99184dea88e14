"""The last write wins: of all writes of one primary key the one with the greatest stamp stays, on every node.

A stamp is the time in a row and the replica id of who wrote it. The stamp of each key's last write is kept, that of a
DELETE too, so the order in which rows come means nothing. Three things make the outcome the same everywhere:

- a write of our own is later than all that it may have seen: the clock for rows never goes back, and is ahead of every
  row of a peer that came (a hybrid clock);
- what an UPDATE or UPSERT made goes out as a whole tuple, because on another node the operations may meet another one;
- a tuple that has to give way because of a unique secondary index is deleted by a write of our own, which all nodes
  get. Nobody forgets it silently: so for each key every node ends with the one greatest write.

What was forgotten (see `horizon`) is not guessed: a row so old stops replication.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from headwater.errors import Er, er
from headwater.options import Options
from headwater.replication.conflict import KEEP, TAKE, Answer, Evict, Judge, Put, Rival, Sight
from headwater.store.collation import Collations
from headwater.store.space import Space
from headwater.txn.base import PRIMARY, index_of, kernel_of
from headwater.txn.direct import DirectTxn
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.xrow import Row


class Stamp(NamedTuple):
    """When and by whom. They are ordered; rows of one origin that have the same are ordered by their coming."""

    time: float
    replica_id: int


Place = tuple[int, bytes]
"""A space, and a key in it as `place_of` has it."""


class RowClock:
    """The time that is written into rows of our own."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last = 0.0
        """Of our own rows."""
        self._seen = 0.0
        """The greatest of a row of somebody else."""

    def time(self) -> float:
        self._last = max(self._now(), self._last, math.nextafter(self._seen, math.inf))
        return self._last

    def saw(self, time: float) -> None:
        self._seen = max(self._seen, time)


class LastWriteWins(Judge):
    """`known` gives the stamp of a place, `note` keeps one with the transaction, `horizon` is the time before which
    stamps are forgotten."""

    sees_all = True
    whole_tuples = True

    def __init__(
        self,
        options: Options,
        clock: RowClock,
        collations: Callable[[], Collations],
        known: Callable[[Place], Stamp | None],
        note: Callable[[DirectTxn, Place, Stamp], None],
        horizon: Callable[[], float],
    ) -> None:
        super().__init__(options)
        self._clock = clock
        self._collations = collations
        self._known = known
        self._note = note
        self._horizon = horizon
        self._noted: dict[Place, Stamp] = {}
        """By the transaction that is being applied."""

    def begin(self) -> None:
        self._noted.clear()

    def covers(self, space: Space) -> bool:
        return is_stamped(space)

    def seal(self, txn: DirectTxn) -> None:
        for place, stamp in self._noted.items():
            self._note(txn, place, stamp)

    def sees(self, row: Row, sight: Sight) -> Answer:
        self._clock.saw(row.timestamp)
        mine = Stamp(row.timestamp, row.replica_id)
        place = self._place(sight.space, sight.key)
        if mine < self._stamp(place, mine, sight.space):
            return KEEP
        if row.type in (Type.UPDATE, Type.UPSERT) and sight.new is None:
            return KEEP
        if sight.new is not None and (rivals := sight.find_rivals()):
            raise Evict(sight.space, self._losers(mine, sight, rivals))
        self._noted[place] = mine
        if sight.new is not None and row.type in (Type.UPDATE, Type.UPSERT):
            return Put(sight.new)
        return TAKE

    def _losers(self, mine: Stamp, sight: Sight, rivals: tuple[Rival, ...]) -> list[bytes]:
        """All older ones, or the new one if there is a newer one."""
        order = index_of(kernel_of(sight.space), PRIMARY).key_def
        keys = [order.extract(rival.tuple) for rival in rivals]
        for key in keys:
            if mine < self._stamp(self._place(sight.space, key), mine, sight.space):
                return [sight.key]
        return keys

    def _stamp(self, place: Place, mine: Stamp, space: Space) -> Stamp:
        """Of the last write there. What was written before stamps were kept is older than everything."""
        known = self._noted.get(place) or self._known(place)
        if known is not None:
            return known
        if mine.time < self._horizon():
            words = f"a row of space '{space.name}' that was written by replica {mine.replica_id} at {mine.time:.3f}, "
            words += "and what was written there since is forgotten (replication_conflict_horizon)"
            raise er(Er.UNSUPPORTED, "last_write_wins", words)
        return _NEVER

    def _place(self, space: Space, key: bytes) -> Place:
        return place_of(space, key, self._collations())


_NEVER = Stamp(-math.inf, 0)


def is_stamped(space: Space) -> bool:
    """Of users, and shared. A synchronous space has one writer at a time."""
    return not (space.is_system or space.is_local or space.is_temporary or space.is_sync) and space.kernel is not None


def place_of(space: Space, key: bytes, collations: Collations) -> Place:
    """Keys that are equal in the primary index have equal places, however they are written."""
    assert space.pk is not None
    parts = space.pk.parts
    plain: list[object] = []
    for number, value in enumerate(unpack(key)):
        sort_key = collations.sort_key(parts[number].collation) if number < len(parts) else None
        if sort_key is not None and isinstance(value, str):
            plain.append(sort_key(value.encode()))
        else:
            plain.append(_number(value))
    return int(space.id), pack(plain)


def _number(value: object) -> object:
    """1, 1.0 and the decimal 1 are one key of an index of numbers."""
    if not isinstance(value, float | Decimal) or not math.isfinite(value):
        return value
    exact = Fraction(value)
    return exact.numerator if exact.denominator == 1 and abs(exact) < 1 << 63 else ["number", str(exact)]

"""What becomes of a row of a peer that does not fit: who is asked, what is known then, and what may be answered.

A machine. A judge sees a row when the store has been looked at and nothing is changed yet, and answers with a value.
What has to be done before the row can be decided (a record on the disk, a change of our own) it raises as `First`: the
transaction is taken back, that is done, and the transaction is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from headwater.errors import BoxError, Er, HeadwaterError
from headwater.options import Options
from headwater.store.space import Space
from headwater.wire.msgpack import unpack
from headwater.wire.xrow import Row

if TYPE_CHECKING:
    from headwater.txn.direct import DirectTxn


# ---- what is seen -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rival:
    """A tuple under another primary key that the new one cannot stand beside."""

    index: str
    """Name of the unique index."""
    tuple: bytes


@dataclass(frozen=True, slots=True)
class Sight:
    """One change of a peer and what it meets here, as bytes."""

    space: Space
    key: bytes
    """The primary key, an array."""
    old: bytes | None
    """What is there."""
    new: bytes | None
    """What is to be there."""
    find_rivals: Callable[[], tuple[Rival, ...]]
    """Looks into the unique secondary indexes."""


# ---- what is answered -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Take:
    """The peer's change is made. An INSERT takes the place of what is there."""

    evict: bool = False
    """Tuples that stand in the way of a unique secondary index are deleted before, by a row of our own."""


@dataclass(frozen=True, slots=True)
class Keep:
    """What is here stays: a NOP is in the place of the row."""


@dataclass(frozen=True, slots=True)
class Put:
    """This tuple is put there, of the same primary key: a list for a hook, bytes in here."""

    tuple: Sequence[object] | bytes


@dataclass(frozen=True, slots=True)
class Stop:
    """Replication from this peer stops with these words."""

    words: str


Answer = Take | Keep | Put
TAKE, TAKE_OVER, KEEP = Take(), Take(evict=True), Keep()


@dataclass(frozen=True, slots=True)
class PeerRow:
    """What a conflict hook is shown: one row of a peer before it is applied."""

    space_id: int
    space: str
    """Name of the space."""
    kind: str
    """INSERT, REPLACE, UPDATE, UPSERT or DELETE."""
    key: tuple[object, ...]
    """The primary key."""
    old: list[object] | None
    """The tuple that is there; None if there is none."""
    new: list[object] | None
    """The tuple that the row makes; None for a DELETE, and for an UPDATE that finds nothing."""
    rivals: tuple[tuple[str, list[object]], ...]
    """Tuples with other primary keys that stand in the way of `new`: the name of a unique index, and the tuple."""
    origin: int
    """Replica id of who wrote the row."""
    origin_uuid: UUID | None
    """None while no member has this id."""
    lsn: int
    timestamp: float
    """When it was written, by the clock of its origin."""
    now: float
    """By the clock of this node."""


Hook = Callable[[PeerRow], Take | Keep | Put | Stop]


# ---- what has to be done first ----------------------------------------------------------------------


class First(HeadwaterError):  # noqa: N818
    """A transaction of a peer cannot be decided before something is done; it is not applied yet."""


class Evict(First):
    """Delete what is under these primary keys, as a change of our own."""

    def __init__(self, space: Space, keys: Sequence[bytes]) -> None:
        super().__init__(f"{len(keys)} tuples of space '{space.name}' give way")
        self.space = space
        self.keys = keys


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that was not applied, and why."""

    row: Row
    space: str
    error: BoxError


class SetAside(First):
    """Put these rows into the quarantine."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__(f"{len(refusals)} rows are set aside")
        self.refusals = refusals


# ---- judges -----------------------------------------------------------------------------------------


class Judge:
    """Has a say about rows of peers. This one lets the applier stop, unless `replication_skip_conflict` is on."""

    sees_all = False
    """Every row must be shown to it; otherwise it is asked about refused ones only."""
    whole_tuples = False
    """UPDATE and UPSERT go into the journal as what came of them."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def begin(self) -> None:
        """A transaction of a peer begins, perhaps once more."""

    def covers(self, space: Space) -> bool:
        """Is it shown changes of this space? Not of definitions."""
        return not space.is_system

    def sees(self, row: Row, sight: Sight) -> Answer:
        return TAKE

    def skips(self, row: Row, space: Space | None, error: BoxError) -> bool:
        """A row was refused: is a NOP to take its place?"""
        return self._options.replication_skip_conflict and error.code == Er.TUPLE_FOUND

    def seal(self, txn: DirectTxn) -> None:
        """The transaction is decided, and about to be prepared."""


class Skipping(Judge):
    """A NOP takes the place of each row that does not fit the data, once the row is in the quarantine."""

    def __init__(self, options: Options, is_set_aside: Callable[[Row], bool]) -> None:
        super().__init__(options)
        self._is_set_aside = is_set_aside
        self._refusals: list[Refusal] = []

    def begin(self) -> None:
        self._refusals.clear()

    def skips(self, row: Row, space: Space | None, error: BoxError) -> bool:
        """Definitions are not skipped: all that comes after them would not fit. Nor is what the system refuses."""
        if space is None or space.is_system or error.type_name != "ClientError":
            return super().skips(row, space, error)
        if not self._is_set_aside(row):
            self._refusals.append(Refusal(row, space.name, error))
        return True

    def seal(self, txn: DirectTxn) -> None:
        if self._refusals:
            raise SetAside(tuple(self._refusals))


def values(data: bytes | None) -> list[object] | None:
    """A tuple as a hook sees it."""
    return None if data is None else list(unpack(data))

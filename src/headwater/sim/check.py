"""The judgement: what a node must still have.

A `Ledger` writes down each transaction when it is prepared, and what the node said of it later. After any crash the
node must come back with the state after some first part of that list: with everything that was acknowledged, with
nothing that was refused, and with no half transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from headwater.errors import HeadwaterError
from headwater.sim.storage import KEPT, SYSTEM, TEMPORARY, Change, State
from headwater.vclock import VClock


class Violation(HeadwaterError):  # noqa: N818
    """The node broke a promise."""


class Fate(Enum):
    PREPARED = "prepared"
    """The node has not answered: it may be there after a crash, or not."""
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"


@dataclass(slots=True, eq=False)
class Transaction:
    number: int
    changes: Sequence[Change]
    after: VClock = field(default_factory=VClock)
    """The node's vclock once it was prepared."""
    fate: Fate = Fate.PREPARED

    @property
    def leaves_no_trace(self) -> bool:
        """It changed temporary spaces only: no row, no LSN, nothing after a restart."""
        return all(change.space_id == TEMPORARY for change in self.changes)


class Ledger:
    """Every transaction of one node that is not known to be gone, in order."""

    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        self.acknowledged = 0
        self.refused = 0
        self._base: State = {space_id: {} for space_id in KEPT}
        """State before the first one in the list: that of the newest snapshot that was acknowledged."""
        self._base[SYSTEM][1] = ("version", 0)
        self._base_vclock = VClock()
        self._snapshot = VClock()
        self._begun: list[VClock] = []
        """Snapshots begun since: they may be there, or not."""
        self._next = 1

    # ---- what happens

    def next_number(self) -> int:
        self._next += 1
        return self._next

    def prepared(self, number: int, changes: Sequence[Change]) -> Transaction:
        """About to be handed to the node; who does it sets `after` then."""
        transaction = Transaction(number, changes)
        self.transactions.append(transaction)
        return transaction

    def written(self, transaction: Transaction) -> None:
        """The node acknowledged it: then everything before it is acknowledged already, for order is promised, too."""
        for other in self.transactions:
            if other is transaction:
                break
            if other.fate is not Fate.ACKNOWLEDGED and not other.leaves_no_trace:
                raise Violation(f"transaction {transaction.number} was acknowledged before {other.number}")
        else:
            raise Violation(f"transaction {transaction.number} was acknowledged after it was undone")
        transaction.fate = Fate.ACKNOWLEDGED
        self.acknowledged += 1

    def rolled_back(self, to: VClock) -> None:
        """The node undid everything after this vclock. Who waits for one of those is told after this."""
        while self.transactions and self.transactions[-1].after != to:
            if to.covers(self.transactions[-1].after):
                break
            gone = self.transactions.pop()
            if gone.fate is Fate.ACKNOWLEDGED:
                raise Violation(f"transaction {gone.number} was undone after it was acknowledged")
            gone.fate = Fate.REFUSED

    def told_refused(self, transaction: Transaction) -> None:
        if transaction.fate is not Fate.REFUSED and not transaction.leaves_no_trace:
            raise Violation(f"transaction {transaction.number} was refused, but its changes were not undone")
        self.refused += 1

    def snapshot_begun(self, vclock: VClock) -> None:
        self._begun.append(vclock.copy())

    def snapshot_made(self, vclock: VClock) -> None:
        """It is on the disk: nothing may fall behind it any more."""
        count = self._prefix(vclock)
        self._base = self._state_after(count)
        self._base_vclock = self._snapshot = vclock.copy()
        del self.transactions[:count]
        self._begun.clear()

    # ---- what must be

    def check_live(self, state: State, vclock: VClock) -> None:
        """A running node shows everything that is prepared."""
        self._compare(self._state_after(len(self.transactions)), state, "the running node")
        expected = self.transactions[-1].after if self.transactions else self._base_vclock
        if vclock != expected:
            raise Violation(f"the running node is at {vclock}, not at {expected}")

    def check_recovered(self, state: State, vclock: VClock, *, keeps_acknowledged: bool, only_snapshot: bool) -> None:
        """A node has come back. What it shows now is as good as acknowledged, until the next power cut."""
        count = self._prefix(vclock)
        lost = [entry for entry in self.transactions[count:] if entry.fate is Fate.ACKNOWLEDGED]
        if lost and keeps_acknowledged:
            raise Violation(
                f"{len(lost)} acknowledged transactions are lost, the first is {lost[0].number} at {lost[0].after}; "
                f"the node came back with {vclock}"
            )
        if not vclock.covers(self._snapshot):
            raise Violation(f"the node came back with {vclock}, behind its snapshot at {self._snapshot}")
        if only_snapshot and vclock != self._snapshot and vclock not in self._begun:
            raise Violation(f"without a journal the node came back with {vclock}, not {self._snapshot}")
        self._compare(self._state_after(count), state, "the node that came back")
        del self.transactions[count:]
        for transaction in self.transactions:
            transaction.fate = Fate.ACKNOWLEDGED
        if only_snapshot and vclock in self._begun:
            self.snapshot_made(vclock)

    def _prefix(self, vclock: VClock) -> int:
        """How many transactions a vclock stands for. Those without trace count with the one before them."""
        for place in range(len(self.transactions) - 1, -1, -1):
            if self.transactions[place].after == vclock:
                return place + 1
        if vclock == self._base_vclock:
            return 0
        ends = [str(self._base_vclock), *(str(entry.after) for entry in self.transactions)]
        raise Violation(f"{vclock} is the end of no transaction: {', '.join(ends[-20:])}")

    def _state_after(self, count: int) -> State:
        state: State = {space_id: dict(rows) for space_id, rows in self._base.items()}
        for transaction in self.transactions[:count]:
            for change in transaction.changes:
                rows = state.get(change.space_id)
                if rows is None:
                    continue
                if change.payload is None:
                    rows.pop(change.key, None)
                else:
                    rows[change.key] = (change.payload, change.mark)
        return state

    def _compare(self, expected: State, state: State, who: str) -> None:
        for space_id, rows in expected.items():
            found = state[space_id]
            if rows == found:
                continue
            wrong = sorted(key for key in rows.keys() | found.keys() if rows.get(key) != found.get(key))
            key = wrong[0]
            raise Violation(
                f"{who}: {len(wrong)} tuples of space {space_id} are wrong, the first has key {key}: "
                f"expected {rows.get(key)}, found {found.get(key)}"
            )

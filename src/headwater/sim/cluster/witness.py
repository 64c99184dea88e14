"""Sees every row that any node has written, and knows in which order rows may come.

- On every node, and for every origin, LSNs go up by one: no gap, nothing twice.
- What two nodes call by one origin and LSN is the same row.
- A node's vclock never goes back. After a power cut in wal_mode write it may: then the node was told so beforehand.
"""

from __future__ import annotations

from zlib import crc32

from headwater.box.instance import Box
from headwater.journal.batch import Batch
from headwater.sim.check import Violation
from headwater.sim.cluster.member import Member, Observer
from headwater.vclock import VClock
from headwater.wire.constants import Type
from headwater.wire.xrow import decode_row


class Witness(Observer):
    """The order of rows in the whole set."""

    def __init__(self, fail: object = None) -> None:
        super().__init__(self._keep if fail is None else fail)  # type: ignore[arg-type]
        self.violations: list[Violation] = []
        self.count = 0
        """Rows seen, on all nodes."""
        self.rejoins = 0
        self._rows: dict[tuple[int, int], tuple[int, str]] = {}
        """What was written under an origin and LSN, and by whom first."""
        self._at: dict[str, dict[int, int]] = {}
        """Vclock of each member after its last batch in this life; absent before the first."""

    def _keep(self, violation: Violation) -> None:
        self.violations.append(violation)

    # ---- lives

    def born(self, member: Member, box: Box) -> None:
        self._at.pop(member.name, None)
        box.journal.on_written.append(lambda batch: self.written(member, batch))

    def risen(self, member: Member) -> None:
        """What it had written before must be there again, also where it has joined anew."""
        assert member.box is not None
        self.rejoins += member.was_up and member.box.membership.leader_uuid.int != 0
        self.came_back(member.name, member.last, member.vclock, may_lose=member.lost_tail)
        member.lost_tail = False

    def came_back(self, name: str, before: VClock, now: VClock, *, may_lose: bool) -> None:
        if not may_lose and not now.covers(before, ignore0=True):
            self.fail(Violation(f"order: {name} had written {before} and came back with {now}"))

    def lost(self, origin: int, after: int) -> None:
        """Rows of an origin that nobody has any more, for it lost them before anybody got them."""
        for key in [key for key in self._rows if key[0] == origin and key[1] > after]:
            del self._rows[key]

    # ---- rows

    def written(self, member: Member, batch: Batch) -> None:
        member.last = batch.vclock.copy(ignore0=True)
        self.batch(member.name, batch.rows, {id: lsn for id, lsn in enumerate(batch.lsns) if lsn})

    def batch(self, name: str, rows: bytes, vclock: dict[int, int]) -> None:
        """A batch that was written, with the vclock after it."""
        begin: dict[int, int] = {}
        now: dict[int, int] = {}
        at = 0
        while at < len(rows):
            row, at = decode_row(rows, at)
            self.count += 1
            origin, lsn = (0 if row.group_id == 1 else row.replica_id), row.lsn
            if origin in now and lsn != now[origin] + 1:
                self.fail(Violation(f"order: {name} writes LSN {lsn} of {origin} after {now[origin]}"))
            begin.setdefault(origin, lsn)
            now[origin] = lsn
            if origin:
                self._same(name, origin, lsn, crc32(row.body, row.type), f"{Type(row.type).name} {row.body[:24].hex()}")
        self._join(name, begin, now, vclock)

    def _same(self, name: str, origin: int, lsn: int, sum: int, words: str) -> None:
        known = self._rows.setdefault((origin, lsn), (sum, name))
        if known[0] != sum:
            text = f"order: LSN {lsn} of origin {origin} is {words} on {name}, and another row on {known[1]}"
            self.fail(Violation(text))

    def _join(self, name: str, begin: dict[int, int], now: dict[int, int], vclock: dict[int, int]) -> None:
        """Does the batch go on where the one before ended?"""
        before = self._at.get(name)
        if before is not None:
            for origin, lsn in begin.items():
                if lsn != before.get(origin, 0) + 1:
                    self.fail(Violation(f"order: {name} writes LSN {lsn} of {origin} after {before.get(origin, 0)}"))
        for origin, lsn in now.items():
            if vclock.get(origin) != lsn:
                words = f"order: {name} has written LSN {lsn} of {origin}, and its vclock says {vclock.get(origin, 0)}"
                self.fail(Violation(words))
        self._at[name] = dict(vclock)

"""Sees every row that any node has written, and knows in which order rows may come.

- On every node, and for every origin, LSNs go up by one: no gap, nothing twice.
- What two nodes call by one origin and LSN is the same row. Where nodes number replicas otherwise, an origin is an
  instance, and rows of `_cluster`, which hold ids, need not be the same.
- A node's vclock never goes back. After a power cut in wal_mode write it may: then the node was told so beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from zlib import crc32

from headwater.box.instance import Box
from headwater.journal.batch import Batch
from headwater.sim.check import Violation
from headwater.sim.cluster.member import Instance, Member, Observer
from headwater.store import system
from headwater.wire.constants import Type
from headwater.wire.request import of_row
from headwater.wire.xrow import Row, decode_row


class Witness(Observer):
    """The order of rows in the whole set."""

    def __init__(self, *, names_differ: bool = False) -> None:
        """`names_differ`: replica ids are others on each node."""
        super().__init__(self._keep)
        self._names_differ = names_differ
        self.violations: list[Violation] = []
        self.count = 0
        """Rows seen, on all nodes."""
        self.rejoins = 0
        self._rows: dict[tuple[Instance, int], tuple[int, str]] = {}
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
        self.came_back(member.name, member.last, member.position, may_lose=member.lost_tail)
        member.lost_tail = False

    def came_back(
        self, name: str, before: Mapping[Instance, int], now: Mapping[Instance, int], *, may_lose: bool
    ) -> None:
        if not may_lose and any(now.get(origin, 0) < lsn for origin, lsn in before.items()):
            self.fail(Violation(f"order: {name} had written {before} and came back with {now}"))

    def lost(self, origin: Instance, after: int) -> None:
        """Rows of an origin that nobody has any more, for it lost them before anybody got them."""
        for key in [key for key in self._rows if key[0] == origin and key[1] > after]:
            del self._rows[key]

    # ---- rows

    def written(self, member: Member, batch: Batch) -> None:
        member.last = member.by_instance(batch.vclock.as_dict(ignore0=True))
        vclock = {id: lsn for id, lsn in enumerate(batch.lsns) if lsn}
        self.batch(member.name, batch.rows, vclock, member.instance_of)

    def batch(
        self, name: str, rows: bytes, vclock: dict[int, int], instance_of: Callable[[int], Instance] = int
    ) -> None:
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
            if origin and not (self._names_differ and _may_differ(row)):
                words = f"{Type(row.type).name} {row.body[:24].hex()}"
                self._same(name, instance_of(origin), lsn, crc32(row.body, row.type), words)
        self._join(name, begin, now, vclock)

    def _same(self, name: str, origin: Instance, lsn: int, sum: int, words: str) -> None:
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


def _may_differ(row: Row) -> bool:
    """Rows that hold ids, and those that say nothing where they have no meaning."""
    return row.type == Type.NOP or of_row(row).space_id == system.CLUSTER

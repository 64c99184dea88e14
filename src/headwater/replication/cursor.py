"""Where one subscriber stands in the journal, and how it gets on: in the ring, or through the files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from headwater.errors import BoxError, SystemError_, XlogError, XlogGapError
from headwater.journal.batch import Place, vclock_of
from headwater.journal.writer import LogEntry
from headwater.replication.logwalk import LogWalk, Stretch
from headwater.replication.ship import End, Portion, Ship, covers, lsns_of
from headwater.vclock import VClock
from headwater.world import Worker

if TYPE_CHECKING:
    from headwater.replication.host import Host

Result = Stretch | BoxError | OSError | None


class Cursor:
    """A reader of the journal. `near()` while it gives something; `far()` where that has nothing although `is_behind`.
    Make it in the turn in which its beginning is decided, and close it in the end."""

    def __init__(self, host: Host, have: VClock, news: Callable[[], object], end: End | None = None) -> None:
        """Rows in `have` are known to the subscriber, component 0 is our own. `news` is called after each written
        batch. It stops at `end`, if there is one. XlogGapError if rows after `have` are gone."""
        self.have = lsns_of(have)
        """What the subscriber has, or was sent: moved by who sends."""
        self.end = end
        self._host = host
        self._ship: Ship = host.ship
        self._number: int | None = None
        """Of the next batch in the ring."""
        self._lsns: Sequence[int] = self._ship.lsns
        """The journal's vclock where this reader is."""
        self._place: Place | None = host.journal.place
        """The same in the files, if it is known."""
        self._worker: Worker | None = None
        self._walk: LogWalk | None = None
        self._entry: LogEntry | None = None
        """The file that is being read."""
        self._ahead: tuple[int | None, Awaitable[Result]] | None = None
        """What the worker reads meanwhile, up to which offset."""
        self._begin()
        self._forget = self._ship.watch(news)

    def close(self) -> None:
        self._forget()
        self._leave_files()
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    # ---- the position --------------------------------------------------------------------------------

    def _begin(self) -> None:
        if covers(self.have, self._lsns):
            return
        self._place = None
        self._number = self._ship.ring.find_vclock(self.have)
        piece = None if self._number is None else self._ship.ring.get(self._number)
        if piece is not None:
            self._lsns = piece.before
            return
        entry = self._entry_before(self.have)
        if entry is None:
            raise self._gap(self.have, self._first_lsns())
        self._lsns = lsns_of(entry.vclock)

    @property
    def position(self) -> int:
        return sum(self._lsns)

    @property
    def goal(self) -> int:
        now = self._ship.position
        return now if self.end is None else min(now, self.end.position)

    @property
    def is_behind(self) -> bool:
        """Is there more to be had now?"""
        return self.position < self.goal

    # ---- from memory ---------------------------------------------------------------------------------

    def near(self) -> Portion | None:
        """The next batch, if it is in the ring."""
        ring = self._ship.ring
        if self._number is None:
            self._number = ring.find(self.position)
        elif self._number < ring.first:
            self._number = None
        piece = None if self._number is None else ring.get(self._number)
        if piece is None or (self.end is not None and piece.begin >= self.end.position):
            return None
        assert self._number is not None
        self._number += 1
        self._lsns, self._place = piece.after, piece.place
        return piece.portion

    # ---- from the files ------------------------------------------------------------------------------

    async def far(self) -> Portion | None:
        """The next rows out of the files; None once the position is in the ring, or at the end."""
        self._number = None
        while self.is_behind and self._ship.ring.find(self.position) is None:
            walk = self._walk or await self._enter_files()
            stretch = await self._read(walk)
            if stretch is None:
                await self._go_on(walk)
                continue
            self._lsns, self._place = stretch.lsns, Place(walk.path, stretch.end)
            self._read_ahead(walk)
            return Portion(stretch.frames)
        self._leave_files()
        return None

    async def _read(self, walk: LogWalk) -> Stretch | None:
        limit, reading = self._ahead or (self._limit(walk), None)
        self._ahead = None
        if reading is None:
            reading = self._run(partial(walk.read, self._lsns, limit))
        result = await reading
        if result is None and limit != self._limit(walk):
            return await self._read(walk)
        return self._checked(walk, result)

    def _read_ahead(self, walk: LogWalk) -> None:
        if self.is_behind:
            limit = self._limit(walk)
            self._ahead = limit, self._run(partial(walk.read, self._lsns, limit))

    def _run(self, call: Callable[[], Result]) -> Awaitable[Result]:
        if self._worker is None:
            self._worker = self._host.world.worker("relay")
        return self._worker.run(call)

    def _limit(self, walk: LogWalk) -> int | None:
        """How far the file may be read: up to what is known to be written, and to where this reader stops."""
        places = [self._host.journal.place, None if self.end is None else self.end.place]
        return min((place.offset for place in places if place is not None and place.path == walk.path), default=None)

    def _checked(self, walk: LogWalk, result: Result) -> Stretch | None:
        if isinstance(result, FileNotFoundError):
            raise self._gap(self._lsns, self._lsns_after(self._entry))
        if isinstance(result, OSError):
            raise SystemError_.of(f"cannot read '{walk.path}'", result)
        if isinstance(result, BoxError):
            raise result
        return result

    # ---- from file to file ---------------------------------------------------------------------------

    async def _enter_files(self) -> LogWalk:
        """Go on at the place where the ring was left, or find the file that holds the position."""
        place, self._place = self._place, None
        for entry in self._host.journal.entries:
            if place is not None and place.path == entry.path:
                return self._open(entry, place.offset)
        found = self._entry_before(self._lsns)
        if found is None:
            raise self._gap(self._lsns, self._first_lsns())
        self._lsns = lsns_of(found.vclock)
        return self._open(found, 0)

    def _open(self, entry: LogEntry, offset: int) -> LogWalk:
        self._leave_files()
        self._entry = entry
        self._walk = LogWalk(self._host.world.disk, entry.path, offset)
        return self._walk

    def _leave_files(self) -> None:
        walk, self._walk, self._ahead = self._walk, None, None
        if walk is not None and self._worker is not None:
            self._worker.submit(walk.close, lambda result, error: None)

    async def _go_on(self, walk: LogWalk) -> None:
        """The file has no more, although there are more rows."""
        journal = self._host.journal
        if journal.place is not None and journal.place.path == walk.path:
            words = f"it ends at vclock {vclock_of(self._lsns)}, and the journal is at {journal.vclock}"
            raise XlogError(words, path=walk.path)
        if not walk.is_over and self._place is not None:
            # It was open when we came to its end. Now it is closed, or was written anew without what was torn.
            place, self._place = self._place, None
            assert self._entry is not None
            self._open(self._entry, place.offset)
            return
        await self._next_file(walk)

    async def _next_file(self, walk: LogWalk) -> None:
        left = self._entry
        assert left is not None
        following = [each for each in self._host.journal.entries if each.vclock.signature > left.vclock.signature]
        if not following:
            self._skip_to(self._ship.lsns)
            return
        entry = following[0]
        fresh = self._open(entry, 0)
        self._checked(fresh, await self._run(fresh.open))
        begin = lsns_of(entry.vclock)
        # A file that names none before it begins a life: those before it are of one that a rebootstrap has ended.
        is_chained = fresh.previous == left.vclock or (fresh.previous is None and covers(self._lsns, begin))
        if not is_chained or not (walk.is_over or covers(self._lsns, begin)):
            self._check_have(begin)
        # Rows that were never written leave a hole in the numbers (recovery_open_log).
        self._lsns = [max(pair) for pair in zip(self._lsns, begin, strict=True)]

    def _skip_to(self, lsns: Sequence[int]) -> None:
        """No file leads there; the subscriber may have it all the same."""
        self._check_have(lsns)
        self._leave_files()
        self._lsns, self._place = lsns, self._host.journal.place

    def _check_have(self, lsns: Sequence[int]) -> None:
        if not covers(self.have, lsns):
            raise self._gap(self._lsns, lsns)

    # ---- what is missing -----------------------------------------------------------------------------

    def _entry_before(self, lsns: Sequence[int]) -> LogEntry | None:
        """The newest file that begins with nothing before it but what is in `lsns` (vclockset_match)."""
        for entry in reversed(self._host.journal.entries):
            if covers(lsns, lsns_of(entry.vclock)):
                return entry
        return None

    def _first_lsns(self) -> Sequence[int]:
        entries = self._host.journal.entries
        return lsns_of(entries[0].vclock) if entries else self._ship.lsns

    def _lsns_after(self, lost: LogEntry | None) -> Sequence[int]:
        """Where the rows go on behind a file that has gone."""
        for entry in self._host.journal.entries:
            if lost is not None and entry.vclock.signature > lost.vclock.signature:
                return lsns_of(entry.vclock)
        return self._ship.lsns

    def _gap(self, begin: Sequence[int], end: Sequence[int]) -> XlogGapError:
        first, last = vclock_of(begin), vclock_of(end)
        plain = XlogGapError.between(first.signature, str(first), last.signature, str(last))
        return XlogGapError(f"{plain.message}. {advice(self._host, vclock_of(self.have))}")


def advice(host: Host, have: VClock) -> str:
    """Who can feed a replica that has so much, as far as we know, and what to do."""
    holders = [f"{uuid} at {address}" for uuid, address in _holders(host, have)]
    if holders:
        return f"The rows may still be on {' and on '.join(holders)}: let the replica follow it"
    return (
        "No instance that this one follows has the rows: restart the replica, and it joins anew; if it has rows that "
        "nobody else has it does not, to keep them: save them and start it on an empty directory"
    )


def _holders(host: Host, have: VClock) -> list[tuple[UUID, str]]:
    found = []
    for replica in host.replicaset:
        applier = replica.applier
        if applier is None or applier.ballot is None or replica.uuid == host.uuid:
            continue
        if have.covers(VClock(applier.ballot.gc_vclock), ignore0=True):
            found.append((replica.uuid, applier.uri.address))
    return found

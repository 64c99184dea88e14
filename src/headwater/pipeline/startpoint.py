"""Where a new query begins in one replica set.

The dictionary there is exact for a snapshot, whose own rows tell it, and for `latest`, where the server is asked before
and after. For a place in the past the server only tells what its spaces are called now: they have these names until the
stream brings a change of them, and a space that was dropped since has none.
"""

from __future__ import annotations

import logging
import time

from headwater.client import Cutter, Segment
from headwater.errors import BoxError
from headwater.pipeline.dictionary import Dictionary
from headwater.pipeline.errors import OptionError, PipelineError
from headwater.pipeline.feeder import ACK_SECONDS, IDLE_BYTES, receive
from headwater.pipeline.history import History
from headwater.pipeline.members import AllGone, Members, Met
from headwater.pipeline.offsets import Phase, Position, VClockMap, covers, joined, shared, stream_position
from headwater.pipeline.streamoptions import From, Start
from headwater.pipeline.trouble import data_lost
from headwater.wire.mpread import read_uint
from headwater.wire.xrow import decode_row

log = logging.getLogger("headwater.pipeline")

_TRIES = 5
_SLACK = 1e-6
"""A column of times is exact to a microsecond, a row's time to less."""


class StartPoint:
    """Of one replica set. PipelineError if nobody of it answers."""

    def __init__(self, members: Members, history: History, start: Start) -> None:
        self._members = members
        self._history = history
        self._start = start

    def find(self) -> Position:
        met = self._members.any()
        assert self._members.replicaset is not None
        try:
            if self._start.kind is From.SNAPSHOT:
                return Position(self._members.replicaset, Phase.SNAPSHOT, {}, self._members.uuid)
            if self._start.kind is From.LATEST:
                return self._latest(met)
            dictionary = Dictionary.fetch(met.replica.link)
        finally:
            met.replica.close()
        vclock = self._past(met)
        return self._position(vclock, dictionary)

    def _position(self, vclock: VClockMap, dictionary: Dictionary) -> Position:
        assert self._members.replicaset is not None
        schema = self._history.pack(dictionary)
        return stream_position(self._members.replicaset, vclock, self._members.uuid, schema=schema)

    def _latest(self, met: Met) -> Position:
        """The spaces are asked for before and after the vclock: the same twice are those in between."""
        dictionary = Dictionary.fetch(met.replica.link)
        vclock = met.replica.ballot().vclock
        for _ in range(_TRIES):
            before, dictionary = dictionary, Dictionary.fetch(met.replica.link)
            if self._history.pack(before) == self._history.pack(dictionary):
                break
            vclock = met.replica.ballot().vclock
        return self._position(vclock, dictionary)

    def _past(self, met: Met) -> VClockMap:
        if self._start.kind is From.EARLIEST:
            return met.ballot.gc_vclock
        if self._start.kind is From.VCLOCK:
            return self._given()
        return self._at(self._start.moment - _SLACK)

    def _given(self) -> VClockMap:
        given = self._start.vclocks or {}
        replicaset = str(self._members.replicaset)
        found = given.get(replicaset, given.get(""))
        if found is None:
            raise OptionError(
                f"The option 'startingOffsets' names no vclock for the replica set {replicaset} ({self._members}). It "
                f"names {', '.join(given)}."
            )
        return shared(found.as_dict())

    # ---- a moment

    def _at(self, moment: float) -> VClockMap:
        """Behind the last transaction before it, in the order in which this member has them: times of different
        servers are not in order."""
        earliest = self._members.any()
        earliest.replica.close()
        begin = shared(earliest.ballot.gc_vclock)
        try:
            met = self._members.best(begin)
        except AllGone as error:
            raise data_lost(error, begin, resnapshot=False) from None
        try:
            return self._walk(met, begin, moment)
        except BoxError as error:
            raise PipelineError(f"{met.host} does not let its log be read from {begin} on: {error}.") from None
        finally:
            met.replica.close()

    def _walk(self, met: Met, begin: VClockMap, moment: float) -> VClockMap:
        assert self._members.replicaset is not None
        replica, target = met.replica, met.ballot.vclock
        cutter = Cutter(begin, sync_spaces=[] if replica.must_be_told_sync else None)
        replica.subscribe(self._members.replicaset, begin)
        replica.set_timeout(ACK_SECONDS)
        told = time.monotonic()
        while not covers(cutter.vclock, target) and not (cutter.pending and covers(cutter.seen, target)):
            replica.acknowledge(begin, vclock_sync=cutter.vclock_sync)
            data = receive(replica)
            for segment in cutter.take(data, idle=len(data) < IDLE_BYTES):
                if segment.rows and segment.timestamp >= moment:
                    return _before(segment, moment)
            if time.monotonic() - told > 10:
                told = time.monotonic()
                log.warning("Looking in the log of %s for the time to start at: now at %s", met.host, cutter.vclock)
        return cutter.vclock


def _before(segment: Segment, moment: float) -> VClockMap:
    """Where the first transaction of a segment begins that has a row at this moment or later."""
    vclock = dict(segment.start)
    data, at = segment.data, 0
    while at < len(data):
        begin = read_uint(data, at)[1]
        end = begin + read_uint(data, at)[0]
        row = decode_row(data, begin, end, exact=True)[0]
        if row.timestamp >= moment:
            return vclock
        if row.is_commit:
            vclock = joined(vclock, {row.replica_id: row.lsn})
        at = end
    return shared(segment.end)

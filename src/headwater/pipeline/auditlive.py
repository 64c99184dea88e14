"""A live server, as files: its data as it stands at one vclock, and its changes from there on.

FETCH_SNAPSHOT gives a picture that does not change while it is sent, and the vclock that it is of (relay.cc,
relay_initial_join); SUBSCRIBE gives every row behind that. Every version from 2.3.1 on does both for who is no member.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from headwater.client import AnonymousReplica, ConnectionFailed, Cutter
from headwater.errors import BoxError, Er
from headwater.kernels.split import unframe
from headwater.pipeline.errors import DataLost, PipelineError
from headwater.pipeline.restore.spooled import SpoolFile
from headwater.uri import Uri
from headwater.vclock import VClock
from headwater.xlog import SNAP, XLOG

ACK_SECONDS = 0.1
"""A server drops who says nothing for four times its replication_timeout, which nobody tells us."""
_PART_ROWS = 20_000
Count = Callable[[int], None]
"""Is told of rows that came."""


class LiveServer:
    """One connection."""

    def __init__(self, uri: Uri, directory: Path, timeout: float) -> None:
        """`directory`: where its files go. `timeout`: seconds that it may take to come to a position."""
        self.uri = uri
        self.directory = directory
        self.picture = VClock()
        """What its snapshot holds."""
        self._timeout = timeout
        self._instance = uuid4()
        """Of the files: the server's own may be compared, too."""
        with self._told():
            self._replica = AnonymousReplica(uri, uuid4())
            self.replicaset = self._replica.replicaset_uuid()

    def close(self) -> None:
        self._replica.close()

    def fetch(self, count: Count) -> None:
        """The whole snapshot into a file."""
        with self._told():
            picture = self._replica.fetch_snapshot()
            self.picture = VClock(picture.vclock).copy(ignore0=True)
            with SpoolFile(self.directory, SNAP, self._instance, self.picture) as file:
                for part in picture.parts(_PART_ROWS):
                    rows, _, rows_in = unframe(part.data, 0, file.rows)
                    file.add(rows, rows_in)
                    count(rows_in)

    def follow(self, start: VClock, upto: VClock, sync_spaces: Iterable[int], count: Count) -> None:
        """Rows behind `start` into a file, until they lead to `upto`. DataLost if the server has removed some."""
        with self._told():
            self._subscribe(start)
            cutter = Cutter(start.as_dict(), sync_spaces=sync_spaces if self._replica.must_be_told_sync else None)
            with SpoolFile(self.directory, XLOG, self._instance, start) as file:
                self._receive(cutter, upto, file, count)

    def _subscribe(self, start: VClock) -> None:
        try:
            self._replica.subscribe(self.replicaset, start.as_dict(ignore0=True))
        except BoxError as error:
            if error.code != Er.XLOG_GAP:
                raise
            raise DataLost(
                f"{self.uri} has removed rows behind {start} ({error.message}). Give the directory of a member that "
                "has them as one more place."
            ) from None

    def _receive(self, cutter: Cutter, upto: VClock, file: SpoolFile, count: Count) -> None:
        deadline = time.monotonic() + self._timeout
        told = 0.0
        self._replica.set_timeout(ACK_SECONDS)
        while not VClock(cutter.vclock).covers(upto):
            now = time.monotonic()
            if now > deadline:
                raise PipelineError(
                    f"{self.uri} has not come to {upto} within {self._timeout:g} s; it is at {VClock(cutter.vclock)}. "
                    "Does it follow the others, and are transactions there that wait for a quorum?"
                )
            if now - told >= ACK_SECONDS:
                told = now
                self._replica.acknowledge(
                    cutter.vclock, term=cutter.term, vclock_sync=cutter.vclock_sync, timestamp=time.time()
                )
            try:
                segments = cutter.take(self._replica.receive())
            except TimeoutError:
                continue
            for segment in segments:
                rows, _, rows_in = unframe(segment.data, 0, -1)
                file.add(rows, rows_in)
                count(rows_in)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Whose fault it is."""
        try:
            yield
        except BoxError as error:
            raise PipelineError(f"{self.uri}: {error.message}{_remedy(error)}") from None
        except ConnectionFailed as error:
            raise PipelineError(f"{error}. Is the server there, and is this its address?") from None
        except TimeoutError:
            raise PipelineError(f"{self.uri} says nothing any more.") from None


def _remedy(error: BoxError) -> str:
    if error.code == Er.ACCESS_DENIED:
        return ". The user needs the role `replication`"
    return ""

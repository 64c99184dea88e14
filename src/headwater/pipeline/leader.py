"""Who of a replica set takes writes, and who may be read: asked by VOTE, which every server answers before a login.

A ballot does not say everything: before 2.6.1 it leaves out that an instance follows a raft leader, and what it says
may be old by the time a write arrives. So who answers a write with READONLY is asked last the next time. Several that
take writes (master and master): the first of them in the order of `hosts`, so that all tasks of a query write to the
same one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from headwater.client import ConnectionFailed
from headwater.client.pipe import Pipe
from headwater.errors import BoxError, Er, HeadwaterError
from headwater.pipeline.errors import NotThere, PipelineError
from headwater.pipeline.hosts import Host, ReplicaSet

__all__ = ["TRIES", "Seeker", "is_elsewhere", "is_passing"]

T = TypeVar("T")
TRIES = 100
"""Of what fails for reasons that pass."""

_PAUSE_SECONDS = 0.1
_PAUSE_MAX_SECONDS = 1.0
_ELSEWHERE = frozenset(
    (Er.READONLY, Er.LOADING, Er.NOT_LEADER, Er.SHUTDOWN, Er.SYNC_QUEUE_UNCLAIMED, Er.SYNC_QUEUE_FOREIGN)
)
"""Somebody else may take the write."""
_PASSING = _ELSEWHERE | {
    Er.TRANSACTION_CONFLICT,
    Er.TRANSACTION_TIMEOUT,
    Er.SYNC_QUORUM_TIMEOUT,
    Er.SYNC_ROLLBACK,
    Er.SYNC_QUEUE_FULL,
    Er.SYNC_TIMEOUT,
    Er.QUORUM_WAIT,
    Er.UNCOMMITTED_FOREIGN_SYNC_TXNS,
    Er.CASCADE_ROLLBACK,
}
"""What did not go now may go later: nothing of the transaction is there."""
_OF_THE_USER = frozenset((Er.NO_SUCH_USER, Er.CREDS_MISMATCH, Er.ACCESS_DENIED, Er.UNKNOWN_AUTH_METHOD))


def is_elsewhere(error: BaseException) -> bool:
    """Is it worth while to ask another member, or the same one later?"""
    return isinstance(error, ConnectionFailed) or (isinstance(error, BoxError) and error.code in _ELSEWHERE)


def is_passing(error: BaseException) -> bool:
    """May the same succeed when it is tried again?"""
    return is_elsewhere(error) or (isinstance(error, BoxError) and error.code in _PASSING)


class Seeker:
    """Connects to members of one set."""

    def __init__(self, members: ReplicaSet, patience: float) -> None:
        """`patience`: seconds until it is given up."""
        self.members = members
        self.patience = patience
        self._said: dict[str, str] = {}
        """Why not."""

    def leader(self, avoid: str = "") -> Pipe:
        """A connection to who takes writes. NotThere when nobody has done so for `patience`. `avoid`: the address of
        one that has just shown that it does not; it is asked last."""
        hosts = sorted(self.members, key=lambda host: str(host) == avoid)
        for round_ in self._rounds():
            for host in hosts:
                if round_ == 0 and str(host) == avoid and len(hosts) > 1:
                    continue
                pipe = self._open(host)
                if pipe is not None and self._takes_writes(host, pipe):
                    return pipe
        raise NotThere(self._words("takes writes", "Is one of its leaders missing in the option 'hosts'?"))

    def reach(self, step: Callable[[Pipe], T], tries: int = TRIES) -> tuple[T, Pipe]:
        """Something that is done with who takes writes, and the connection, which is still open. What fails because
        somebody else takes them now, or for a while, is tried again."""
        avoid = ""
        while True:
            pipe = self.leader(avoid)
            try:
                return step(pipe), pipe
            except (BoxError, ConnectionFailed) as error:
                pipe.close()
                tries -= 1
                if not is_passing(error) or not tries:
                    raise PipelineError(f"{pipe.uri}: {error}") from error
                avoid = pipe.uri.address if is_elsewhere(error) else ""
            except BaseException:
                pipe.close()
                raise

    def surely(self, step: Callable[[Pipe], T], tries: int = TRIES) -> T:
        """As `reach`; the connection is closed."""
        done, pipe = self.reach(step, tries)
        pipe.close()
        return done

    def any(self, first: int = 0, at_least: Mapping[int, int] | None = None, avoid: str = "") -> Pipe:
        """A connection to a member that can be read, number `first` before others; it has all that this vclock says."""
        count = len(self.members.hosts)
        hosts = [self.members.hosts[(first + number) % count] for number in range(count)]
        hosts.sort(key=lambda host: str(host) == avoid)
        for _ in self._rounds():
            for host in hosts:
                pipe = self._open(host)
                if pipe is not None and self._may_be_read(host, pipe, at_least or {}):
                    return pipe
        raise NotThere(self._words("can be read", "Do they run, and do these addresses lead to them?"))

    def _rounds(self) -> Iterator[int]:
        """One at least; pauses between them that grow."""
        deadline = time.monotonic() + self.patience
        pause, number = _PAUSE_SECONDS, 0
        while True:
            yield number
            if time.monotonic() + pause > deadline:
                return
            time.sleep(pause)
            pause, number = min(2 * pause, _PAUSE_MAX_SECONDS), number + 1

    def _open(self, host: Host) -> Pipe | None:
        try:
            return Pipe(host.uri(), self.members.connect_timeout)
        except ConnectionFailed as error:
            self._said[str(host)] = str(error)
        except BoxError as error:
            if error.code in _OF_THE_USER:
                raise PipelineError(
                    f"{host} refuses the login of '{host.username or 'guest'}': {error}. The options 'username' and "
                    "'password' (or passwordEnv, passwordFile) say who asks."
                ) from None
            self._said[str(host)] = str(error)
        return None

    def _takes_writes(self, host: Host, pipe: Pipe) -> bool:
        try:
            ballot = pipe.ballot()
            why = "is read-only" if ballot.is_ro or ballot.is_ro_cfg else "" if ballot.is_booted else "is not booted"
        except (HeadwaterError, OSError) as error:
            why = str(error)
        return self._keep(host, pipe, why)

    def _may_be_read(self, host: Host, pipe: Pipe, at_least: Mapping[int, int]) -> bool:
        try:
            ballot = pipe.ballot()
            lags = any(ballot.vclock.get(id, 0) < lsn for id, lsn in at_least.items() if id)
            why = "is not booted" if not ballot.is_booted else "has not yet what was read elsewhere" if lags else ""
        except (HeadwaterError, OSError) as error:
            why = str(error)
        return self._keep(host, pipe, why)

    def _keep(self, host: Host, pipe: Pipe, why: str) -> bool:
        if why:
            self._said[str(host)] = why
            pipe.close()
            return False
        pipe.set_timeout(self.members.request_timeout)
        return True

    def _words(self, what: str, remedy: str) -> str:
        said = "; ".join(f"{host}: {self._said.get(str(host), 'not asked')}" for host in self.members)
        return f"No member of the replica set {self.members} {what} ({said}), for {self.patience:g} s. {remedy}"

"""What befalls a stream, in words, and what of it will pass."""

from __future__ import annotations

import logging
from enum import Enum
from pathlib import Path
from uuid import UUID

from headwater.client.replica import is_evicted, is_gap, is_taken
from headwater.errors import BoxError, Er
from headwater.pipeline.errors import CheckpointTaken, DataLost
from headwater.pipeline.lease import taken
from headwater.pipeline.members import DENIED_SECONDS, AllGone, Met, refused
from headwater.pipeline.offsets import VClockMap, missing_range, text_of
from headwater.wire.constants import version_of

log = logging.getLogger("headwater.pipeline")


class Kind(Enum):
    """Of an error that a server answered."""

    TAKEN = "taken"
    """Another connection of our UUID lives."""
    GAP = "gap"
    PASSING = "passing"
    """The same server later, or another one, will do it."""
    FATAL = "fatal"


_PASSING = frozenset(
    (
        *(Er.LOADING, Er.SHUTDOWN, Er.SYSTEM, Er.MEMORY_ISSUE, Er.UNSUPPORTED, Er.CFG, Er.WAL_IO, Er.NIL_UUID),
        *(
            Er.ACCESS_DENIED,
            Er.SYNC_QUORUM_TIMEOUT,
            Er.SYNC_ROLLBACK,
            Er.UNCOMMITTED_FOREIGN_SYNC_TXNS,
            Er.TOO_EARLY_SUBSCRIBE,
        ),
    )
)


def kind_of(error: BoxError) -> Kind:
    if is_taken(error):
        return Kind.TAKEN
    if is_gap(error):
        return Kind.GAP
    return Kind.PASSING if error.code in _PASSING else Kind.FATAL


def check_taken(error: BoxError, uuid: UUID, met: Met, away: float, patience: float) -> None:
    """CheckpointTaken, unless the other connection may be a dead one of a driver before us."""
    if is_evicted(error) or away > patience:
        raise CheckpointTaken(taken(uuid, f"another driver, at {met.host},")) from None


def refusal(error: BoxError, met: Met) -> str:
    return f"{met.host}: {refused(met.host, error) if error.code == Er.ACCESS_DENIED else error}"


def patience(error: BoxError, seconds: float) -> float:
    return min(seconds, DENIED_SECONDS) if error.code == Er.ACCESS_DENIED else seconds


def ended(error: BoxError, met: Met, vclock: VClockMap) -> str:
    return f"{met.host} ended the stream at {text_of(vclock)}: {error}. Its log says more."


def given_up(words: str, seconds: float) -> str:
    return (
        f"{words}, for {seconds:.0f} s. Bring a member back, or correct the options; 'reconnectTimeout' says how long "
        "members are waited for."
    )


def spool_lost(directory: Path) -> str:
    return (
        f"The copy of the snapshot in {directory} is not there, or not whole: the driver ended before it was, or the "
        "directory was emptied. A new snapshot follows; a row with op TRUNCATE says that the rows before it are void."
    )


def data_lost(error: AllGone, have: VClockMap, resnapshot: bool) -> DataLost:
    after = (
        "then a new snapshot follows, and a row with op TRUNCATE says that the rows before it are void"
        if resnapshot
        else "then it goes on behind the gap"
    )
    kept = (
        "So that it does not happen again, pauses of the query must be shorter than replication_anon_ttl of servers "
        "from 3.3 on; older ones keep nothing for a stream, and need more snapshots kept (checkpoint_count)."
    )
    return DataLost(
        f"Changes are lost, this stream stands at {text_of(have)} and {error}. Begin anew with another "
        f"checkpointLocation, bring a member back that has these rows, or set failOnDataLoss to false: {after}. {kept}"
    )


def warn_of(met: Met) -> None:
    """Once, what is not to be had from such a server."""
    if not met.replica.keeps_files:
        version = "{}.{}.{}".format(*version_of(met.replica.version))
        log.warning(
            "%s is a Tarantool %s, which keeps no logs for anonymous replicas (3.3 and later do): while this query is "
            "stopped, or behind, it may remove rows that are needed. That would be an error which names them. More "
            "snapshots kept (checkpoint_count) make it less likely",
            met.host,
            version,
        )


def warn_of_lost_rows(met: Met, theirs: VClockMap, ours: VClockMap) -> None:
    """A server that has fewer of its own rows than it has sent."""
    own = met.replica.server_id
    if own and theirs.get(own, 0) < ours.get(own, 0):
        log.error(
            "%s has lost rows that it wrote and sent, %s: it may give their numbers to other changes, which would not "
            "be seen here. It should get them back from another member before it takes writes",
            met.host,
            missing_range({own: theirs.get(own, 0)}, {own: ours[own]}),
        )

"""What a running node says of itself and of those around it, for `box.info`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headwater.box import info
from headwater.errors import system_message
from headwater.journal import Gc
from headwater.limbo.queue import SyncQueue
from headwater.replication.replicaset import Replica, Replicaset
from headwater.replication.states import ApplierState
from headwater.vclock import VClock

if TYPE_CHECKING:
    from headwater.replication.applier import Applier
    from headwater.replication.relay import Relay


def members_of(replicaset: Replicaset) -> list[info.Member]:
    return [_member(replica) for replica in replicaset if replica.id or replica.is_anon]


def _member(replica: Replica) -> info.Member:
    return info.Member(
        uuid=str(replica.uuid),
        id=replica.id,
        name=replica.name or None,
        is_anon=replica.is_anon and not replica.id,
        upstream=_upstream(replica.applier),
        downstream=_downstream(replica.relay),
    )


def _upstream(applier: Applier | None) -> info.Upstream | None:
    if applier is None or applier.state is ApplierState.OFF:
        return None
    return info.Upstream(
        status=applier.state.value,
        lag=applier.lag,
        idle=applier.idle,
        peer=str(applier.uri),
        message=applier.error.message if applier.error is not None else "",
        system_message=system_message(applier.error),
    )


def _downstream(relay: Relay | None) -> info.Downstream | None:
    if relay is None:
        return None
    return info.Downstream(
        status=relay.state,
        vclock=_as_map(relay.vclock),
        idle=relay.idle,
        lag=relay.lag,
        message=relay.error.message if relay.error is not None else "",
        system_message=system_message(relay.error),
        sent_rows=relay.sent_rows,
        sent_bytes=relay.sent_bytes,
    )


def _as_map(vclock: Mapping[int, int] | VClock) -> Mapping[int, int]:
    return vclock.as_dict() if isinstance(vclock, VClock) else dict(vclock)


def queue_of(queue: SyncQueue, now: float) -> info.Queue:
    oldest = queue.entries[0].since if queue.entries else 0.0
    return info.Queue(
        length=len(queue.entries),
        size=sum(entry.size for entry in queue.entries),
        owner=queue.owner,
        term=queue.term,
        age=now - oldest if oldest else 0.0,
        confirm_lag=queue.confirm_lag,
    )


def checkpoints_of(gc: Gc) -> list[info.Checkpoint]:
    return [info.Checkpoint(one.vclock.as_dict(), tuple(one.pins)) for one in gc.checkpoints]


def consumers_of(gc: Gc) -> list[info.Consumer]:
    return [info.Consumer(one.name, one.vclock.as_dict()) for one in gc.consumers]

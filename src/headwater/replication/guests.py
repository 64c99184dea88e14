"""One connection a replica: who is connected to us now, and who must give way (box.cc, ReplicaConnectionGuard).

Tarantool refuses every second connection. A peer that has lost its connection without a word would be refused until
the silence has lasted for four replication_timeouts; here a connection from which nothing comes any more gives way at
once to a new one of the same UUID.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headwater.errors import Er, er
from headwater.replication.channel import Channel

if TYPE_CHECKING:
    from headwater.replication.host import Host
    from headwater.replication.replicaset import Replica

log = logging.getLogger("headwater.replication")

SILENT_AFTER = 2
"""So many times replication_timeout: a living subscriber answers every heartbeat."""


class Guest:
    """The connection of one replica to us."""

    def __init__(self, host: Host, replica: Replica, channel: Channel) -> None:
        self.channel = channel
        self.heard = host.world.clock.monotonic()
        """When it last took something, or said something."""
        self._host = host
        self._replica = replica

    def is_dead(self) -> bool:
        return self.channel.is_closed or self.silence > SILENT_AFTER * self._host.options.replication_timeout

    @property
    def silence(self) -> float:
        relay = self._replica.relay
        heard = self.heard
        if relay is not None and relay.state == "follow":
            heard = max(heard, relay.heard)
        return self._host.world.clock.monotonic() - heard

    def took(self) -> None:
        self.heard = self._host.world.clock.monotonic()

    def leave(self) -> None:
        """Its connection is over, or goes on as an ordinary one."""
        replica = self._replica
        if replica.guest is self:
            replica.guest = None
            self._host.consumers.left(replica)
            self._host.replicaset.forget_if_orphaned(replica.uuid)


def admit(host: Host, replica: Replica, channel: Channel) -> Guest:
    """ER_CFG if another connection of this replica lives."""
    other = replica.guest
    if other is not None:
        if not other.is_dead():
            raise er(Er.CFG, "replication", "duplicate connection with the same replica UUID")
        _evict(replica, other)
    guest = replica.guest = Guest(host, replica, channel)
    return guest


def _evict(replica: Replica, other: Guest) -> None:
    log.warning(
        "replica %s has connected anew: its old connection from %s is dropped, nothing came from it for %.1f seconds",
        replica.uuid,
        other.channel.peer,
        other.silence,
    )
    error = er(Er.CFG, "replication", "the replica has connected anew")
    if replica.relay is not None:
        replica.relay.stop(error)
    other.channel.abort(error.message)

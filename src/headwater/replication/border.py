"""Where ids of one numbering become ids of another: between this node and one peer, in either direction (seed 004,
"vclocks sent to or received from master and xrow_headers").

A `Border` that translates nothing stands wherever both sides count alike: with `replica_ids: shared`, while a node
joins, and towards a follower that translates for itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from headwater.errors import Er, er
from headwater.kernels import frame_end, mp_next
from headwater.replication.channel import Channel, ChannelClosed
from headwater.replication.ids import OURS, ReplicaIds
from headwater.replication.remap import UnknownSource, Way, members
from headwater.store import system
from headwater.typing import IteratorType
from headwater.wire.body import fields
from headwater.wire.constants import Feature, Key, Type
from headwater.wire.mpread import read_length
from headwater.wire.msgpack import pack, unpack
from headwater.wire.replication import decode_error
from headwater.wire.xrow import Row

if TYPE_CHECKING:
    from headwater.replication.host import Host

log = logging.getLogger("headwater.replication")

VClockMap = Mapping[int, int]


class Border:
    """Nothing is translated."""

    async def open(self, channel: Channel) -> None:
        """What has to be asked before the first request about rows."""

    def vclock_out(self, vclock: VClockMap) -> VClockMap:
        """Ours, for the peer."""
        return vclock

    def vclock_in(self, vclock: VClockMap) -> VClockMap:
        """The peer's, for us."""
        return vclock

    def filter_out(self, ids: Iterable[int]) -> frozenset[int]:
        return frozenset(ids)

    def filter_in(self, ids: Iterable[int]) -> frozenset[int]:
        return frozenset(ids)

    def id_out(self, replica_id: int) -> int:
        return replica_id

    def before(self, data: bytes, at: int) -> tuple[bytes, int]:
        """`data` from `at` on is not used yet. What the channel is to keep."""
        return data, at

    def rows_in(self, data: bytes) -> bytes:
        """What the channel gave, behind what is not used yet."""
        return data

    def rows_out(self, data: bytes) -> bytes:
        """Whole packets for the peer."""
        return data


class Upstream(Border):
    """A master that numbers otherwise. We translate, whatever it is."""

    def __init__(self, ids: ReplicaIds, peer: UUID, features: frozenset[int], seen: VClockMap) -> None:
        """`seen`: the vclock in its ballot, which is older than what `open` downloads."""
        self._ids = ids
        self._peer = peer
        self._features = features
        self._seen = seen
        self._rows = ids.stream(peer, Way.IN)
        self._raw = b""
        """Packets that are not translated: a part of one, or one that cannot be."""
        self._rest = b""
        """Translated, and not used yet."""

    async def open(self, channel: Channel) -> None:
        """Protocol of cluster update (seed 004): the extra phase before SUBSCRIBE. A master that remaps, too, also
        says who had an id there before it was expelled."""
        found = members(await _select(channel, system.CLUSTER, []))
        if Feature.REPLICA_IDS in self._features:
            rows = await _select(channel, system.REPLICA_IDS, [OURS])
            found = sorted({*found, *members_of_ids(rows)}, key=lambda each: each[0])
        self._ids.downloaded(self._peer, found)
        self._rows = self._ids.stream(self._peer, Way.IN)
        for replica_id in sorted(self._rows.skips):
            log.warning(
                "rows of replica id %d of %s are left out: its _cluster does not say whose they are",
                replica_id,
                self._peer,
            )

    def vclock_out(self, vclock: VClockMap) -> VClockMap:
        return self._ids.to_remote(self._peer, vclock, self._seen)

    def vclock_in(self, vclock: VClockMap) -> VClockMap:
        return self._ids.to_local(self._peer, vclock)

    def filter_out(self, ids: Iterable[int]) -> frozenset[int]:
        return self._ids.filter_to_remote(self._peer, ids)

    def before(self, data: bytes, at: int) -> tuple[bytes, int]:
        self._rest = data[at:]
        if self._raw and frame_end(self._raw, 0, len(self._raw)):
            self._translate(self._raw)  # it says why it cannot be translated
        return self._raw, 0

    def rows_in(self, data: bytes) -> bytes:
        moved, stop = self._translate(data)
        self._raw = data[stop:]
        rest, self._rest = self._rest, b""
        return rest + moved

    def _translate(self, data: bytes) -> tuple[bytes, int]:
        try:
            return self._rows.translate(data)
        except UnknownSource as unknown:
            self._ids.met_unknown(self._peer, unknown.replica_id)
            raise ChannelClosed(f"{unknown}: asking for it anew") from None


class Follower(Border):
    """A follower that does not translate: it is told everything in its own numbers."""

    def __init__(self, ids: ReplicaIds, peer: UUID) -> None:
        self._ids = ids
        self._peer = peer
        self._rows = ids.stream(peer, Way.OUT)

    def vclock_out(self, vclock: VClockMap) -> VClockMap:
        return self._ids.to_remote(self._peer, vclock, {})

    def vclock_in(self, vclock: VClockMap) -> VClockMap:
        return self._ids.to_local(self._peer, vclock)

    def filter_in(self, ids: Iterable[int]) -> frozenset[int]:
        return frozenset(self._ids.to_local(self._peer, dict.fromkeys(ids, 1)))

    def id_out(self, replica_id: int) -> int:
        """Ours, in the header of an answer; 0 where the peer does not know us."""
        return next(iter(self._ids.to_remote(self._peer, {replica_id: 1}, {})), 0)

    def rows_out(self, data: bytes) -> bytes:
        try:
            moved, stop = self._rows.translate(data)
            if stop < len(data):
                self._rows.translate(data[stop:])
        except UnknownSource as unknown:
            words = f"rows of replica id {unknown.replica_id} for a follower that has no number for it"
            raise er(Er.UNSUPPORTED, "Headwater with replica_ids: remap", words) from None
        return moved


def to_master(host: Host, peer: UUID, features: frozenset[int], seen: VClockMap) -> Border:
    """Towards a node that we follow."""
    return Border() if host.ids is None else Upstream(host.ids, peer, features, seen)


def to_follower(host: Host, peer: UUID, features: frozenset[int], *, is_anon: bool) -> Border:
    """Towards a node that follows us. An anonymous one that does not translate has our numbers: it has everything from
    us. Others must have joined here, or be followed by us, so that we know theirs."""
    ids = host.ids
    if ids is None or is_anon or Feature.REPLICA_IDS in features:
        return Border()
    if not ids.knows(peer):
        words = f"replica {peer}, whose replica ids it does not know: let this node follow it, or let it join here anew"
        raise er(Er.UNSUPPORTED, "Headwater with replica_ids: remap", words)
    return Follower(ids, peer)


def joined(host: Host, peer: UUID, features: frozenset[int]) -> None:
    """Somebody got everything from us, and an id."""
    if host.ids is not None and Feature.REPLICA_IDS not in features:
        host.ids.shares(peer)


def members_of_ids(tuples: list[bytes]) -> list[tuple[int, UUID]]:
    """Rows of a peer's `_replica_ids` about itself: those of `_cluster` without the first field."""
    return [_own_id(data) for data in tuples]


def _own_id(data: bytes) -> tuple[int, UUID]:
    _, replica_id, _, instance = unpack(data)
    return int(replica_id), UUID(instance)


async def _select(channel: Channel, space_id: int, key: list[object]) -> list[bytes]:
    """A plain SELECT on the connection of replication."""
    body = {
        Key.SPACE_ID: int(space_id),
        Key.INDEX_ID: 0,
        Key.LIMIT: 0xFFFFFFFF,
        Key.OFFSET: 0,
        Key.ITERATOR: int(IteratorType.EQ if key else IteratorType.ALL),
        Key.KEY: key,
    }
    channel.send(Row(Type.SELECT, body=pack({int(name): value for name, value in body.items()})))
    row = await channel.packet()
    if row.is_error:
        raise decode_error(row)
    for number, _, at, _ in fields(row.body, 0):
        if number == Key.DATA:
            return _items(row.body, at)
    raise er(Er.PROTOCOL, "Invalid response to SELECT")


def _items(data: bytes, at: int) -> list[bytes]:
    count, at = read_length(data, at)
    out = []
    for _ in range(count):
        end = mp_next(data, at)
        out.append(data[at:end])
        at = end
    return out

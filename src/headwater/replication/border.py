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

from headwater.errors import BoxError, Er, er
from headwater.kernels import frame_end, mp_next
from headwater.replication import login
from headwater.replication.channel import Channel, ChannelClosed
from headwater.replication.ids import MODE, OURS, ReplicaIds
from headwater.replication.remap import UnknownSource, Way, members
from headwater.store import system
from headwater.typing import IteratorType
from headwater.wire.body import fields, is_map
from headwater.wire.constants import Feature, Key, MpType, Type
from headwater.wire.mpread import read_length
from headwater.wire.msgpack import pack, unpack
from headwater.wire.replication import decode_error
from headwater.wire.xrow import Row

if TYPE_CHECKING:
    from headwater.replication.applier import Applier
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

    def __init__(self, ids: ReplicaIds, own: UUID, peer: UUID, features: frozenset[int], seen: VClockMap) -> None:
        """`own` is our UUID. `seen`: the vclock in its ballot, which is older than what `open` downloads."""
        self._ids = ids
        self._own = own
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
        is_member = await _download(self._ids, self._own, self._peer, channel, self._features)
        self._rows = self._ids.stream(self._peer, Way.IN)
        self._rows.past = (self._own, self._seen) if is_member else None
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

    def __init__(self, ids: ReplicaIds, peer: UUID, applier: Applier | None) -> None:
        """`applier`: ours, if we follow the peer. It can look at its `_cluster` once more."""
        self._ids = ids
        self._peer = peer
        self._applier = applier
        self._rows = ids.stream(peer, Way.OUT)

    def vclock_out(self, vclock: VClockMap) -> VClockMap:
        return self._ids.to_remote(self._peer, vclock, {})

    def vclock_in(self, vclock: VClockMap) -> VClockMap:
        return self._ids.to_local(self._peer, vclock)

    def filter_in(self, ids: Iterable[int]) -> frozenset[int]:
        return self._ids.filter_to_local(self._peer, ids)

    def id_out(self, replica_id: int) -> int:
        """Ours, in the header of an answer; 0 where the peer does not know us."""
        return next(iter(self._ids.to_remote(self._peer, {replica_id: 1}, {})), 0)

    def rows_out(self, data: bytes) -> bytes:
        try:
            moved, stop = self._rows.translate(data)
            if stop < len(data):
                self._rows.translate(data[stop:])
        except UnknownSource as unknown:
            raise self._unknown(unknown.replica_id) from None
        return moved

    def _unknown(self, replica_id: int) -> Exception:
        """A row of an instance that the peer numbers in a way that we were not told, or not at all. If we follow it,
        its `_cluster` is looked at once more before it is refused for that."""
        words = f"rows of replica id {replica_id} for a follower that has no number for it"
        error = er(Er.UNSUPPORTED, MODE, words)
        if self._applier is None or not self._ids.look_again(self._peer, replica_id):
            return error
        self._applier.restart(error)
        return ChannelClosed(f"{words}: its _cluster is looked at once more")


def to_master(host: Host, peer: UUID, features: frozenset[int], seen: VClockMap) -> Border:
    """Towards a node that we follow."""
    return Border() if host.ids is None else Upstream(host.ids, host.uuid, peer, features, seen)


def to_follower(host: Host, peer: UUID, features: frozenset[int], *, is_anon: bool) -> Border:
    """Towards a node that follows us. An anonymous one that does not translate has our numbers: it has everything from
    us. Others must have joined here, or be followed by us, so that we know theirs."""
    ids = host.ids
    if ids is None or is_anon or Feature.REPLICA_IDS in features:
        return Border()
    if not ids.knows(peer):
        words = f"replica {peer}, whose replica ids it does not know: let this node follow it, or let it join here anew"
        if _will_know(host, peer):
            log.warning("cannot feed %s yet", words)
            raise er(Er.LOADING)
        raise er(Er.UNSUPPORTED, MODE, words)
    replica = host.replicaset.find(peer)
    applier = replica.applier if replica is not None else None
    if applier is not None and ids.is_looking(peer):
        raise er(Er.LOADING)
    return Follower(ids, peer, applier)


def _will_know(host: Host, peer: UUID) -> bool:
    """Do we follow it, or somebody who may turn out to be it?"""
    met = [replica.uuid for replica in host.replicaset if replica.applier is not None]
    return peer in met or len(met) < len(host.options.upstreams)


def joined(host: Host, peer: UUID, features: frozenset[int]) -> None:
    """Somebody got everything from us, and an id."""
    if host.ids is not None and Feature.REPLICA_IDS not in features:
        host.ids.shares(peer)


async def inherit(host: Host, channel: Channel, features: frozenset[int]) -> None:
    """We took everything from a master, rows of instances too that it has expelled since: if it remaps, it says who
    they are, and we go on with its numbering."""
    if host.ids is not None and Feature.REPLICA_IDS in features:
        host.ids.inherit(await ids_of(channel))


async def look(host: Host, applier: Applier) -> None:
    """How a peer counts, before anything is asked of it: its ballot, in our ids, tells whether we came too late. Over a
    connection of its own. What goes wrong is not told: it will again when the peer is followed."""
    ids = host.ids
    if ids is None:
        return
    patience = login.SILENCE * host.options.replication_timeout
    connection: login.Connection | None = None
    try:
        connection = await login.connect(host.world, applier.uri, patience)
        async with host.world.tasks.timeout(patience):
            await login.identify(connection, remaps=True)
            if applier.uri.login:
                await login.log_in(connection, applier.uri)
            await _download(ids, host.uuid, connection.greeting.uuid, connection.channel, connection.features)
    except (BoxError, OSError) as error:
        log.debug("%s does not say how it counts: %s", applier.uri, error)
    finally:
        if connection is not None:
            connection.channel.abort("it is known how it counts")


async def _download(ids: ReplicaIds, own: UUID, peer: UUID, channel: Channel, features: frozenset[int]) -> bool:
    """What the peer calls whom. Are we a member there?"""
    found = dict(members(await _select(channel, system.CLUSTER, [])))
    is_member = own in found.values()
    is_all = Feature.REPLICA_IDS in features
    if is_all:
        found |= dict(await ids_of(channel))
    ids.downloaded(peer, sorted(found.items()), is_all=is_all)
    return is_member


async def ids_of(channel: Channel) -> list[tuple[int, UUID]]:
    """How a peer that remaps counts itself."""
    try:
        rows = [unpack(data) for data in await _select(channel, system.REPLICA_IDS, [OURS])]
        return [(int(row[1]), UUID(row[3])) for row in rows]
    except (IndexError, TypeError, ValueError):  # MsgPackError among them
        raise er(Er.INVALID_MSGPACK, "a row of _replica_ids") from None


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
    if is_map(row.body):
        for number, kind, at, _ in fields(row.body, 0):
            if number == Key.DATA and kind == MpType.ARRAY:
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

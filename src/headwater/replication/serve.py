"""JOIN, FETCH_SNAPSHOT, REGISTER and SUBSCRIBE as a server sees them (box.cc: box_process_join and its kin; seeds 001,
003). Checks come in 3.x's order, so that the first error is the same.

What differs from Tarantool: a peer up to 2.6.0, which would stop for good at TOO_EARLY_SUBSCRIBE, is told LOADING, and
comes back; a dead connection gives way to a new one of the same replica; who asks to be registered once more, because
the answer was lost and the rows up to it with it, is told again instead of REPLICA_NOT_ANON.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

from headwater.errors import BoxError, Er, er
from headwater.journal.gc import Checkpoint
from headwater.replication.border import Border, joined, to_follower
from headwater.replication.channel import Channel, ChannelClosed
from headwater.replication.cursor import Cursor
from headwater.replication.fromdisk import send_checkpoint
from headwater.replication.guests import Guest, admit
from headwater.replication.host import Host
from headwater.replication.joins import Out, send_picture
from headwater.replication.peers import LAST_WITHOUT_RETRY, hidden_types, hide, rewrite
from headwater.replication.relay import Relay
from headwater.replication.replicaset import Replica
from headwater.replication.ship import End
from headwater.store import system
from headwater.store.privileges import Priv
from headwater.store.users import User
from headwater.typing import SpaceId
from headwater.vclock import VClock
from headwater.wire import reply
from headwater.wire.constants import VERSION_ID, Type
from headwater.wire.replication import (
    FetchSnapshot,
    Join,
    Register,
    Subscribe,
    SubscribeReply,
    decode_fetch_snapshot,
    decode_join,
    decode_register,
    decode_subscribe,
    encode_subscribe_reply,
    encode_vclock,
)
from headwater.wire.request import Request

log = logging.getLogger("headwater.replication")

NIL = UUID(int=0)


async def serve(host: Host, request: Request, user: User, channel: Channel) -> None:
    """One request. Returns when the connection may go on as an ordinary one, or is closed: after a SUBSCRIBE it is."""
    handlers: dict[int, Callable[[], Awaitable[None]]] = {
        Type.JOIN: lambda: _join(host, request, user, channel),
        Type.FETCH_SNAPSHOT: lambda: _fetch_snapshot(host, request, user, channel),
        Type.REGISTER: lambda: _register(host, request, user, channel),
        Type.SUBSCRIBE: lambda: _subscribe(host, request, user, channel),
    }
    try:
        await handlers[request.type]()
    except ChannelClosed as closed:
        log.info("%s: %s", channel.peer, closed)
    except BoxError as error:
        if not channel.is_closed:
            log.error("%s: %s", channel.peer, error.message)
            channel.write(reply.error(request.sync, host.memtx.schema_version, error))
    if request.type == Type.SUBSCRIBE:
        channel.close("the subscription is over")


# ---- checks that they share -----------------------------------------------------------------------


def _check_peer(host: Host, uuid: UUID) -> None:
    if not host.is_ready:
        raise er(Er.LOADING)
    if uuid == NIL:
        raise er(Er.NIL_UUID)
    if uuid == host.uuid:
        raise er(Er.CONNECTION_TO_SELF)


def _is_anon(host: Host) -> bool:
    return not host.memtx.replica_id


def _check_registration(host: Host, user: User) -> None:
    host.check_writable()
    host.schema.access.check_space(user, host.schema.space(SpaceId(system.CLUSTER)), Priv.WRITE)


def _check_access(host: Host, user: User) -> None:
    """The first lines of box_connect_replica."""
    host.schema.access.check_universe(user, Priv.READ)
    if not host.journal.is_written:
        raise er(Er.UNSUPPORTED, "Replication", "wal_mode = 'none'")


async def _connect(host: Host, user: User, uuid: UUID, vclock: VClock, channel: Channel) -> tuple[Replica, Guest]:
    """box_connect_replica: one connection a replica, and nothing that it needs is removed from now on."""
    _check_access(host, user)
    replica = host.replicaset.find(uuid)
    if replica is None:
        replica = host.replicaset.get(uuid)
        replica.is_anon = True
    guest = admit(host, replica, channel)
    try:
        await host.consumers.connect(uuid, vclock)
    except BaseException:
        guest.leave()
        raise
    return replica, guest


def _localized(host: Host, vclock: VClock) -> VClock:
    """With our own component 0 (box_localize_vclock)."""
    local = vclock.copy()
    local.reset(0, host.journal.vclock.get(0))
    return local


# ---- JOIN -----------------------------------------------------------------------------------------


async def _join(host: Host, request: Request, user: User, channel: Channel) -> None:
    asked = decode_join(request.row)
    _check_peer(host, asked.instance_uuid)
    if _is_anon(host):
        raise er(Er.UNSUPPORTED, "Anonymous replica", "registration of non-anonymous nodes.")
    known = host.replicaset.find(asked.instance_uuid)
    if known is None or not known.id or known.name != asked.instance_name:
        _check_registration(host, user)
    _check_name(host, known, asked)
    replica, guest = await _connect(host, user, asked.instance_uuid, host.journal.vclock, channel)
    try:
        await _send_join(host, asked, Out(channel, request.sync, guest))
        joined(host, asked.instance_uuid, channel.features)
    finally:
        guest.leave()
    log.info("replica %s at %s has joined", replica.uuid, channel.peer)


def _check_name(host: Host, known: Replica | None, asked: Join) -> None:
    if asked.instance_name == (known.name if known is not None else ""):
        return
    for other in host.replicaset:
        is_connected = other.applier is not None or other.guest is not None
        if other is not known and asked.instance_name and other.name == asked.instance_name and is_connected:
            raise er(Er.INSTANCE_NAME_DUPLICATE, asked.instance_name, str(other.uuid))


async def _send_join(host: Host, asked: Join, out: Out) -> None:
    log.info("joining replica %s", asked.instance_uuid)
    forget = host.ship.watch(lambda: None)  # the rows of the last stage will be in memory
    try:
        start = await send_picture(host, out, asked.version_id)
        log.info("initial data sent")
        await host.register(asked.instance_uuid, asked.instance_name)
        replica = host.replicaset.find(asked.instance_uuid)
        if replica is None or not replica.id:
            raise er(Er.CANNOT_REGISTER)
        if not asked.version_id:
            # Such a peer would wait for ever for the quorum of a synchronous transaction of the last stage.
            await host.ship.until(lambda: not host.queue.entries)
        end, stop = host.ship.end, host.journal.vclock
        out.send(encode_vclock(stop.as_dict()))
        await _send_log(host, out, start, end, asked.version_id)
    finally:
        forget()
    log.info("final data sent")
    out.send(encode_vclock(host.journal.vclock.as_dict()))
    host.consumers.advance(asked.instance_uuid, stop)


async def _send_log(host: Host, out: Out, start: VClock, end: End, version: int) -> None:
    """The rows between two moments, whoever wrote them: those of the replica itself too, if it joins anew
    (relay_final_join)."""
    cursor = Cursor(host, start, lambda: None, end)
    try:
        await _send_rows(host, out, cursor, version)
    finally:
        cursor.close()


async def _send_rows(host: Host, out: Out, cursor: Cursor, version: int) -> None:
    hidden = hidden_types(version, host.schema.identity.dd_version, in_join=True)
    while cursor.is_behind:
        portion = cursor.near() or await cursor.far()
        if portion is None:
            continue
        data, count = portion.frames.pick(cursor.have, 1, 0, 0, out.sync)
        if count:
            await out.write(rewrite(data, hidden, hide) if portion.kinds & hidden else data)


# ---- FETCH_SNAPSHOT -------------------------------------------------------------------------------


def _nothing() -> None:
    pass


async def _fetch_snapshot(host: Host, request: Request, user: User, channel: Channel) -> None:
    """A snapshot that is read from the disk is kept for its replica: also when the connection is lost, for as long as
    the replica's consumer lives or until it asks for something else (replica.gc_checkpoint_ref)."""
    asked = decode_fetch_snapshot(request.row)
    if not host.is_ready:
        raise er(Er.LOADING)
    checkpoint = _checkpoint_of(host, asked)
    needed = host.journal.vclock if checkpoint is None else checkpoint.vclock
    unpin: Callable[[], None] = _nothing
    guest: Guest | None = None
    if asked.instance_uuid == NIL:
        _check_access(host, user)
    elif asked.instance_uuid == host.uuid:
        raise er(Er.CONNECTION_TO_SELF)
    if checkpoint is not None:
        unpin = host.gc.pin(checkpoint, f"checkpoint join of replica {asked.instance_uuid}")
    try:
        if asked.instance_uuid != NIL:
            _, guest = await _connect(host, user, asked.instance_uuid, needed, channel)
            if checkpoint is not None:
                host.consumers.hold(asked.instance_uuid, unpin)
                unpin = _nothing
        await _send_snapshot(host, asked, checkpoint, Out(channel, request.sync, guest))
    finally:
        unpin()
        if guest is not None:
            guest.leave()


def _checkpoint_of(host: Host, asked: FetchSnapshot) -> Checkpoint | None:
    """The one that is asked for; the newest if none is named. MISSING_SNAPSHOT if it is gone."""
    if not asked.is_checkpoint_join:
        return None
    if asked.checkpoint_vclock is None:
        found = host.gc.last_checkpoint
    else:
        wanted = VClock(asked.checkpoint_vclock)
        found = next((one for one in host.gc.checkpoints if one.vclock == wanted), None)
    if found is None:
        raise er(Er.MISSING_SNAPSHOT)
    return found


async def _send_snapshot(host: Host, asked: FetchSnapshot, checkpoint: Checkpoint | None, out: Out) -> None:
    log.info("sending read-view to replica")
    if checkpoint is None:
        await send_picture(host, out, asked.version_id)
    else:
        await send_checkpoint(host, out, asked.version_id, checkpoint.vclock, asked.checkpoint_lsn)
    log.info("read-view sent")
    out.send(encode_vclock(host.journal.vclock.as_dict()))


# ---- REGISTER -------------------------------------------------------------------------------------


async def _register(host: Host, request: Request, user: User, channel: Channel) -> None:
    asked = decode_register(request.row)
    _check_peer(host, asked.instance_uuid)
    known = host.replicaset.find(asked.instance_uuid)
    if known is not None and known.id and known.name == asked.instance_name:
        if VClock(asked.vclock).covers(host.journal.vclock, ignore0=True):
            raise er(Er.REPLICA_NOT_ANON, str(asked.instance_uuid))
    elif _is_anon(host):
        raise er(Er.UNSUPPORTED, "Anonymous replica", "registration of non-anonymous nodes.")
    else:
        _check_registration(host, user)
    start = _localized(host, VClock(asked.vclock))
    replica, guest = await _connect(host, user, asked.instance_uuid, start, channel)
    # The request does not tell the version; its subscription before this one did.
    version = VERSION_ID if replica.relay is None else replica.relay.version
    try:
        await _send_registration(host, asked, start, Out(channel, request.sync, guest), version)
        joined(host, asked.instance_uuid, channel.features)
    finally:
        guest.leave()


async def _send_registration(host: Host, asked: Register, start: VClock, out: Out, version: int) -> None:
    """Who cannot get the rows up to its registration is not registered: it would ask another, that knows nothing of
    it, and two would give it an id."""
    log.info("registering replica %s", asked.instance_uuid)
    cursor = Cursor(host, start, lambda: None)
    try:
        await host.register(asked.instance_uuid, asked.instance_name)
        replica = host.replicaset.find(asked.instance_uuid)
        if replica is None or not replica.id:
            raise er(Er.CANNOT_REGISTER)
        cursor.end, stop = host.ship.end, host.journal.vclock
        await _send_rows(host, out, cursor, version)
    finally:
        cursor.close()
    log.info("final data sent")
    out.send(encode_vclock(host.journal.vclock.as_dict()))
    host.consumers.advance(asked.instance_uuid, stop)


# ---- SUBSCRIBE ------------------------------------------------------------------------------------


async def _subscribe(host: Host, request: Request, user: User, channel: Channel) -> None:
    asked = decode_subscribe(request.row)
    _check_peer(host, asked.instance_uuid)
    if asked.replicaset_uuid != host.replicaset_uuid:
        raise er(Er.REPLICASET_UUID_MISMATCH, str(host.replicaset_uuid), str(asked.replicaset_uuid))
    _check_subscriber(host, asked)
    border = to_follower(host, asked.instance_uuid, channel.features, is_anon=bool(asked.is_anon))
    asked.vclock, asked.id_filter = border.vclock_in(asked.vclock), border.filter_in(asked.id_filter or ())
    start = _localized(host, VClock(asked.vclock))
    replica, guest = await _connect(host, user, asked.instance_uuid, start, channel)
    try:
        await _feed(host, replica, asked, request.sync, channel, border)
    finally:
        guest.leave()


def _check_subscriber(host: Host, asked: Subscribe) -> None:
    name = host.schema.identity.replicaset_name
    if asked.replicaset_name != name:
        log.warning("replicaset name mismatch on subscribe: '%s', ours is '%s'", asked.replicaset_name, name)
    if _is_anon(host) and not asked.is_anon:
        raise er(Er.UNSUPPORTED, "Anonymous replica", "non-anonymous followers.")
    replica = host.replicaset.find(asked.instance_uuid)
    if asked.is_anon and replica is not None:
        if replica.id:
            raise er(Er.PROTOCOL, "Can't subscribe an anonymous replica having an ID assigned")
        if not replica.is_anon:
            words = "Can't subscribe a previously deleted non-anonymous replica as an anonymous replica"
            raise er(Er.PROTOCOL, words)
    elif not asked.is_anon and (replica is None or not replica.id):
        # Its row of `_cluster` may still be on its way to us.
        too_old = asked.version_id <= LAST_WITHOUT_RETRY
        raise er(Er.LOADING) if too_old else er(Er.TOO_EARLY_SUBSCRIBE, str(asked.instance_uuid))
    if replica is not None and replica.name != asked.instance_name:
        log.warning(
            "instance name mismatch on subscribe: %s says '%s', '%s' is stored",
            replica.uuid,
            asked.instance_name,
            replica.name,
        )


async def _feed(host: Host, replica: Replica, asked: Subscribe, sync: int, channel: Channel, border: Border) -> None:
    """The answer, and rows for ever. Nothing is waited for in between: what the answer says is where the rows begin."""
    identity = host.schema.identity
    vclock = host.journal.vclock
    told = border.vclock_out(vclock.as_dict())
    answer = SubscribeReply(host.replicaset_uuid, identity.replicaset_name, told)
    row = encode_subscribe_reply(answer, border.id_out(host.memtx.replica_id))
    row.sync = sync
    channel.send(row)
    log.info("subscribed replica %s at %s", replica.uuid, channel.peer)
    log.info("remote vclock %s local vclock %s", VClock(asked.vclock), vclock)
    relay = replica.relay = Relay(host, replica, channel, asked, sync, border)
    relay.tell_raft()
    try:
        await relay.run()
    finally:
        why = "this node ends" if relay.is_dismissed else relay.error
        log.info("relay to %s at %s stopped: %s", replica.uuid, channel.peer, why)

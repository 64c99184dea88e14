"""How an applier comes to know its master: greeting, ID, ballot, login (applier.cc: applier_connection_init,
applier_connect, applier_watch_ballot).

The ballot of a peer that tells changes by itself is watched over a second connection, which never logs in. An older
peer is asked once, on the first connection, before the login. Where Tarantool waits for an answer for ever, we wait as
long as for any other sign of life.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from headwater.errors import BoxError, Er, er
from headwater.replication.channel import Channel
from headwater.replication.requests import ASKS_ID, OLDEST
from headwater.uri import Uri
from headwater.wire import auth, greeting
from headwater.wire.ballot import Ballot, decode_ballot, decode_ballot_event
from headwater.wire.body import fields, invalid, is_map
from headwater.wire.constants import GREETING_SIZE, Feature, Key, MpType, Type, version_of
from headwater.wire.greeting import NIL_UUID, Greeting
from headwater.wire.msgpack import unpack
from headwater.wire.replication import decode_error, encode_auth, encode_id, encode_vote, encode_watch
from headwater.wire.xrow import Row
from headwater.world import World

log = logging.getLogger("headwater.replication")

BALLOT_KEY = "internal.ballot"
SILENCE = 4
"""So many times `replication_timeout` without a sign of life, and a connection is given up
(replication_disconnect_timeout)."""


@dataclass(slots=True)
class Connection:
    """A connection after its greeting."""

    channel: Channel
    greeting: Greeting
    features: frozenset[int] = frozenset()
    """What the peer says it can do; nothing before 2.10."""

    @property
    def version(self) -> int:
        return self.greeting.version_id


async def connect(world: World, uri: Uri, timeout: float) -> Connection:
    """A new connection and who answers there. BoxError or OSError if nobody does in `timeout` seconds, or if it is
    nobody to follow; nothing is left open then."""
    channel = Channel(world.tasks)
    try:
        async with world.tasks.timeout(timeout):
            await world.net.connect(address_of(uri), channel)
            said = greeting.decode(await channel.exactly(GREETING_SIZE))
        _check(said)
    except BaseException:
        channel.abort("no greeting")
        raise
    return Connection(channel, said)


def address_of(uri: Uri) -> str:
    """Where to connect: an address without a host is on this machine."""
    return uri.address if uri.host else f"localhost{uri.address}"


def _check(said: Greeting) -> None:
    if said.protocol != "Binary":
        raise er(Er.PROTOCOL, "Unsupported protocol for replication")
    if said.uuid == NIL_UUID:
        # It has no UUID yet, or something stands in its place; it will pass.
        raise er(Er.NIL_UUID)
    if said.version_id < OLDEST:
        version = "{}.{}.{}".format(*version_of(said.version_id))
        raise er(Er.UNSUPPORTED, "Headwater", f"replication from Tarantool {version}: 1.10 is the oldest it follows")


async def identify(connection: Connection, *, remaps: bool = False) -> None:
    """Ask what it can do. An error in answer to it is told in the log and means: nothing. `remaps`: we translate
    replica ids, which the peer is told."""
    if connection.version < ASKS_ID:
        return
    connection.channel.send(encode_id(remaps=remaps))
    row = await connection.channel.packet()
    if row.is_error:
        log.error("%s", decode_error(row).message)
        log.error("IPROTO_ID failed")
        return
    if not is_map(row.body):
        raise invalid("packet body")
    for key, kind, at, end in fields(row.body, 0):
        if key == Key.FEATURES and kind == MpType.ARRAY:
            connection.features = frozenset(each for each in unpack(row.body[at:end]) if isinstance(each, int))


async def log_in(connection: Connection, uri: Uri) -> None:
    """AUTH as the user of the address, with an empty password if it has none. There is one method; a peer that wants
    another one says so in its refusal."""
    answer = auth.scramble(uri.password, connection.greeting.salt)
    connection.channel.send(encode_auth(uri.login, auth.METHOD, answer))
    row = await connection.channel.packet()
    if row.type != Type.OK:
        raise refusal(row)


def refusal(row: Row) -> BoxError:
    """The error in an answer that should have been another one."""
    return decode_error(row) if row.is_error else er(Er.UNKNOWN_REQUEST_TYPE, row.type)


# ---- ballots --------------------------------------------------------------------------------------


async def vote(channel: Channel) -> Ballot:
    """Ask for the ballot once. A peer that does not know the question has one like any other (before 1.10.2)."""
    channel.send(encode_vote())
    row = await channel.packet()
    if not row.is_error:
        return decode_ballot(row)
    error = decode_error(row)
    if error.code == Er.UNKNOWN_REQUEST_TYPE:
        return Ballot()
    raise error


def can_watch(connection: Connection) -> bool:
    return Feature.WATCHERS in connection.features


async def watch(channel: Channel, told: Callable[[Ballot], object]) -> None:
    """Tell each ballot that comes, until the connection ends. Returns after the first one if the peer has ballots but
    no event of them."""
    ballot = Ballot()
    while True:
        channel.send(encode_watch(BALLOT_KEY))
        row = await channel.packet()
        if row.type != Type.EVENT:
            raise refusal(row)
        value = event_value(row)
        if value is None:
            told(await vote(channel))
            return
        changed = decode_ballot_event(value, ballot)
        if changed is not None:
            ballot = changed
            told(ballot)


def event_value(row: Row) -> bytes | None:
    """The value in an EVENT; None for a key that the peer does not have."""
    if not is_map(row.body):
        raise invalid("packet body")
    for key, _, at, end in fields(row.body, 0):
        if key == Key.EVENT_DATA:
            return row.body[at:end]
    return None


def is_usable(ballot: Ballot) -> bool:
    """One that is neither booted nor read-only says so by mistake: a better one will come (applier_on_first_ballot)."""
    return ballot.is_booted or ballot.is_ro

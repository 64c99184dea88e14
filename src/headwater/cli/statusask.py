"""Asks the nodes of a set what they know: each in a thread of its own, then the peers that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

from headwater.cli.statusnode import Node, Picture, Silent, node_of
from headwater.client.link import ConnectionFailed, WireClient
from headwater.errors import BoxError, Er
from headwater.typing import VCLOCK_MAX
from headwater.uri import LOOPBACK, Uri, UriError, parse_uri
from headwater.wire.ballot import decode_ballot
from headwater.wire.constants import Key, Type, version_of
from headwater.wire.msgpack import pack, unpack

REFUSED = frozenset((Er.ACCESS_DENIED, Er.NO_SUCH_PROC))
ASKED_AT_ONCE = 32


def look(uris: Sequence[Uri], *, follow: bool, timeout: float) -> Picture:
    """Ask those, and with `follow` whoever they follow, and so on."""
    nodes: dict[str, Node] = {}
    silent: list[Silent] = []
    asked: set[str] = set()
    waiting = [(uri, "") for uri in uris]
    while waiting:
        waiting = [(uri, by) for uri, by in _once(waiting) if _place(uri) not in asked]
        asked.update(_place(uri) for uri, _ in waiting)
        learned: list[tuple[Uri, str]] = []
        for (uri, by), answer in zip(waiting, _ask_all([uri for uri, _ in waiting], timeout), strict=True):
            if isinstance(answer, str):
                silent.append(Silent(uri.address, answer, by))
            elif answer.uuid not in nodes:
                nodes[answer.uuid] = answer
                learned += [(peer, answer.address) for peer in peers_of(answer, uri)]
        waiting = [(uri, by) for uri, by in learned if follow]
        if not follow:
            return Picture(_ordered(nodes), tuple(silent), tuple(_unasked(learned, asked)))
    return Picture(_ordered(nodes), tuple(_not_met(silent, nodes)))


def _ordered(nodes: Mapping[str, Node]) -> tuple[Node, ...]:
    """Members by id, then the others."""
    return tuple(sorted(nodes.values(), key=lambda node: (node.id or VCLOCK_MAX, node.address)))


def peers_of(node: Node, uri: Uri) -> Iterator[Uri]:
    """Whom it follows, to be asked as the user that asked it."""
    for member in node.members:
        if member.upstream is None or not member.upstream.peer:
            continue
        try:
            peer = parse_uri(member.upstream.peer)
        except UriError:
            continue
        host = peer.host or uri.host
        yield replace(peer, host=host, login=uri.login, password=uri.password, params={})


def _once(waiting: list[tuple[Uri, str]]) -> list[tuple[Uri, str]]:
    """The first of each address."""
    return list({_place(uri): (uri, by) for uri, by in reversed(waiting)}.values())[::-1]


def _place(uri: Uri) -> str:
    """An address by which two spellings of one are known to be the same."""
    host = "127.0.0.1" if uri.host in ("", *LOOPBACK) else uri.host
    return replace(uri, host=host).address


def _unasked(learned: list[tuple[Uri, str]], asked: set[str]) -> list[Silent]:
    return [Silent(uri.address, "", by) for uri, by in _once(learned) if _place(uri) not in asked]


def _not_met(silent: list[Silent], nodes: dict[str, Node]) -> Iterator[Silent]:
    """A peer that cannot be asked where its follower reaches it may have been asked elsewhere."""
    for one in silent:
        uuids = {
            member.uuid
            for node in nodes.values()
            for member in node.members
            if member.upstream is not None and member.upstream.peer.rpartition("@")[2] == one.address
        }
        if not one.named_by or not uuids or uuids - nodes.keys():
            yield one


def _ask_all(uris: Sequence[Uri], timeout: float) -> Iterator[Node | str]:
    if not uris:
        return
    with ThreadPoolExecutor(min(len(uris), ASKED_AT_ONCE)) as threads:
        yield from threads.map(lambda uri: _try(uri, timeout), uris)


def _try(uri: Uri, timeout: float) -> Node | str:
    try:
        return ask(uri, timeout)
    except ConnectionFailed as error:
        return str(error).removeprefix(f"cannot connect to {uri}: ").removeprefix(f"{uri}: ")
    except BoxError as error:
        return error.message


def ask(uri: Uri, timeout: float) -> Node:
    """One node. ConnectionFailed or BoxError if it does not answer."""
    with closing(WireClient(uri, timeout)) as client:
        try:
            info = _call(client, "box.info")
        except BoxError as error:
            if error.code not in REFUSED:
                raise
            return _outside(client, uri, error)
        if not isinstance(info, dict):
            raise ConnectionFailed("what it answers to box.info is no map")
        return node_of(uri.address, info, _call_or_none(client, "box.info.gc"), _anonymous(client))


def _call(client: WireClient, name: str) -> object:
    row = client.ask(Type.CALL, pack({Key.FUNCTION_NAME: name, Key.TUPLE: []}))
    values = unpack(row.body).get(Key.DATA)
    return values[0] if values else None


def _call_or_none(client: WireClient, name: str) -> object:
    """What a version does not have, or this user may not call, stays unknown."""
    try:
        return _call(client, name)
    except BoxError as error:
        if error.code not in REFUSED:
            raise
        return None


def _anonymous(client: WireClient) -> object:
    return _call_or_none(client, "box.info.replication_anon")


def _outside(client: WireClient, uri: Uri, error: BoxError) -> Node:
    """What everybody may know: the greeting and the ballot."""
    ballot = decode_ballot(client.ask(Type.VOTE))
    version = ".".join(map(str, version_of(client.greeting.version_id)))
    user = uri.login or "guest"
    return Node(
        address=uri.address,
        uuid=str(client.greeting.uuid),
        version=f"speaks {version}",
        vclock=ballot.vclock,
        name=ballot.instance_name,
        status="",
        ro=ballot.is_ro,
        denied=f"{error.message}. Who may do everything there can let '{user}' see: for each name of box.info, "
        f"box.info.gc and box.info.replication_anon, box.schema.func.create(NAME) and "
        f"box.schema.user.grant('{user}', 'execute', 'function', NAME)",
    )

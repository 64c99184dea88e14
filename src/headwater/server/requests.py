"""What each request of a client does (iproto.cc, tx_process_*).

`Requests.serve` takes one decoded request and gives an `Outcome`: the reply, and whether it waits for the journal, or
a coroutine where a procedure has to wait for something first. Nothing here knows in which order replies leave.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from headwater.errors import BoxError, Er, er
from headwater.kernels import mp_array_fields
from headwater.replication.ids import REMAP
from headwater.server.host import Instance
from headwater.store import system
from headwater.store.space import Space
from headwater.store.users import GUEST, User
from headwater.txn import Transaction
from headwater.typing import IteratorType
from headwater.wire import auth, reply
from headwater.wire.ballot import encode_ballot
from headwater.wire.body import pack_vclock
from headwater.wire.constants import FEATURES, Feature, Key, Type, type_name
from headwater.wire.mpwrite import pack_map_head, pack_uint
from headwater.wire.msgpack import unpack
from headwater.wire.request import Request

log = logging.getLogger("headwater.iproto")

_BEFORE_READY = frozenset(
    (Type.PING, Type.ID, Type.VOTE, Type.VOTE_DEPRECATED, Type.WATCH, Type.UNWATCH, Type.WATCH_ONCE)
)
"""What is answered while the node recovers: nothing that shows data."""
_SELECT = int(Type.SELECT)
_CALLS = (Type.CALL, Type.CALL_16)
_DML = frozenset((Type.SELECT, Type.INSERT, Type.REPLACE, Type.UPDATE, Type.DELETE, Type.UPSERT, Type.INSERT_ARROW))
_LEAD = "box.ctl.make_bootstrap_leader"
"""What an operator tells one of several nodes that have nothing yet, and that nobody else can tell it: there are no
users. So it is taken from this machine, before there is data, and from nowhere else."""
_HERE = ("127.", "[::1]:", "unix/:")
"""How addresses of peers on this machine begin."""
_FORMAT_FIELD = 6
"""Of a row of `_space`."""


class Client(Protocol):
    """A session, as far as its requests need it."""

    id: int
    type: str
    user: User
    salt: bytes
    features: frozenset[int]

    @property
    def peer(self) -> str | None: ...
    def logged_in(self, user: User) -> None: ...
    def negotiated(self, features: frozenset[int]) -> None: ...
    def watch(self, key: str, sync: int) -> None: ...
    def unwatch(self, key: str) -> None: ...


@dataclass(slots=True)
class Outcome:
    reply: bytes
    """Empty for requests that have none."""
    waits: bool = False
    """It rests on something that is prepared and not yet written."""


Later = Coroutine[Any, Any, list[bytes]]
"""A procedure that waits for something. Its values become a reply by `Requests.returned`."""


class Requests:
    """The requests of all connections of one node."""

    def __init__(self, box: Instance) -> None:
        self._box = box
        self._memtx = box.memtx
        self._statements = box.statements
        self._others: dict[int, Callable[[Client, Request], bytes]] = {
            Type.PING: self._ping,
            Type.ID: self._id,
            Type.AUTH: self._auth,
            Type.VOTE: self._vote,
            Type.VOTE_DEPRECATED: self._vote_deprecated,
            Type.WATCH: self._watch,
            Type.UNWATCH: self._unwatch,
            Type.WATCH_ONCE: self._watch_once,
            Type.EVAL: self._eval,
            Type.EXECUTE: self._sql,
            Type.PREPARE: self._sql,
        }

    # ---- one request ---------------------------------------------------------------------------------

    def serve(self, client: Client, request: Request, txn: Transaction | None = None) -> Outcome | Later:
        """All errors become replies. In a transaction it is that which knows whether an answer has to wait."""
        try:
            if self._is_made_leader(client, request):
                return self._lead(request)
            self.check(request)
            return self._serve(client, request, txn)
        except BoxError as error:
            return self.refused(request, error)
        except Exception as error:
            return self.failed(request, error)

    def check(self, request: Request) -> None:
        """iproto.cc, tx_check_msg"""
        if request.error is not None:
            raise request.error
        wanted = request.row.schema_version
        if wanted and wanted != self._memtx.schema_version:
            raise er(Er.WRONG_SCHEMA_VERSION, wanted, self._memtx.schema_version)
        if not self._box.is_ready and request.type not in _BEFORE_READY:
            raise er(Er.LOADING)

    def _is_made_leader(self, client: Client, request: Request) -> bool:
        is_asked = request.error is None and request.type in _CALLS and request.function == _LEAD
        return is_asked and not self._box.is_ready and client.peer is not None and client.peer.startswith(_HERE)

    async def _lead(self, request: Request) -> list[bytes]:
        arguments = [] if request.tuple is None else unpack(request.tuple)
        graceful = arguments == [{"graceful": True}]
        await self._box.make_bootstrap_leader(graceful=graceful)
        return []

    def _serve(self, client: Client, request: Request, txn: Transaction | None) -> Outcome | Later:
        if request.type in _DML:
            return self._data(client, request, txn)
        if request.type in _CALLS:
            return self._call(client, request, txn)
        return Outcome(self._others[request.type](client, request))

    def refused(self, request: Request, error: BoxError) -> Outcome:
        """A duplicate that may vanish with the journal is only told once it is written."""
        self._box.stats.requests.add("ERROR")
        return Outcome(self.error(request.sync, error), error.code == Er.TUPLE_FOUND)

    def failed(self, request: Request, error: Exception) -> Outcome:
        """A mistake of ours. The client gets an answer, the log the place."""
        log.error("request %s failed", type_name(request.type), exc_info=error)
        return self.refused(request, er(Er.UNKNOWN))

    def ok(self, sync: int) -> bytes:
        return reply.ok(sync, self._memtx.schema_version)

    def error(self, sync: int, error: BoxError) -> bytes:
        return reply.error(sync, self._memtx.schema_version, error)

    # ---- data ----------------------------------------------------------------------------------------

    def _data(self, client: Client, request: Request, txn: Transaction | None) -> Outcome:
        answer = self._statements.answer(request, client.user, txn)
        tuples, formats = answer.tuples, None
        if Feature.DML_TUPLE_EXTENSION in client.features:
            tuples, formats = self._with_format(answer.space, tuples)
        packed = reply.data(request.sync, self._memtx.schema_version, tuples, answer.position, formats)
        if txn is not None:
            return Outcome(packed)
        return Outcome(packed, request.type != _SELECT or _is_unconfirmed(answer.space))

    def _with_format(self, space: Space | None, tuples: list[bytes]) -> tuple[list[bytes], dict[int, bytes]]:
        """Tuples that tell their format, once for all of them (iproto.cc, tuple_to_obuf_as_ext). The number of the
        format is the id of the space."""
        if space is None or not tuples:
            return tuples, {}
        return [reply.tuple_as_ext(space.id, each) for each in tuples], {int(space.id): self._clause(space)}

    def _clause(self, space: Space) -> bytes:
        row = self._memtx.space(system.SPACE)
        index = row.index(0) if row is not None else None
        found = index.select(IteratorType.EQ, b"\x91" + pack_uint(space.id)) if index is not None else []
        if not found:
            return b"\x90"
        ends = mp_array_fields(found[0])
        return found[0][ends[_FORMAT_FIELD] : ends[_FORMAT_FIELD + 1]]

    # ---- procedures ----------------------------------------------------------------------------------

    def _call(self, client: Client, request: Request, txn: Transaction | None) -> Outcome | Later:
        self._box.stats.requests.add("CALL")
        result = self._box.procedures.call(request, client, txn)
        return self.returned(client, request, result) if isinstance(result, list) else result

    def returned(self, client: Client, request: Request, values: list[bytes]) -> Outcome:
        """What a procedure gives back (iproto.cc, tx_process_call)."""
        formats: dict[int, bytes] | None = {} if Feature.CALL_RET_TUPLE_EXTENSION in client.features else None
        return Outcome(reply.data(request.sync, self._memtx.schema_version, values, None, formats), waits=True)

    def _eval(self, client: Client, request: Request) -> bytes:
        self._box.stats.requests.add("EVAL")
        self._box.schema.access.check_eval(client.user)
        raise er(Er.UNSUPPORTED, "Headwater", "EVAL: write a procedure in Python and CALL it")

    def _sql(self, client: Client, request: Request) -> bytes:
        self._box.stats.requests.add(type_name(request.type) or "")
        raise er(Er.UNSUPPORTED, "Headwater", "SQL: use SELECT and the other requests by space, or CALL a procedure")

    # ---- the connection ------------------------------------------------------------------------------

    def _ping(self, client: Client, request: Request) -> bytes:
        return self.ok(request.sync)

    def _id(self, client: Client, request: Request) -> bytes:
        ours = FEATURES | {Feature.REPLICA_IDS} if self._box.options.replica_ids == REMAP else FEATURES
        client.negotiated(request.features & (FEATURES | {Feature.REPLICA_IDS}))
        return reply.id_reply(request.sync, self._memtx.schema_version, features=ours)

    def _auth(self, client: Client, request: Request) -> bytes:
        """authentication.c, authenticate: what is wrong with the request is told before anything about the user."""
        self._box.stats.requests.add("AUTH")
        assert request.tuple is not None
        access = self._box.schema.access
        try:
            user: User | None = access.users.by_name(request.user)
        except BoxError:
            user = None
        is_guest = user is not None and user.id == GUEST
        hash2 = user.definition.auth if user is not None else None
        auth.authenticate(request.tuple, client.salt, hash2, is_guest=is_guest)
        assert user is not None
        if auth.parse(request.tuple) is not None:
            access.check_session(user)
        client.logged_in(user)
        return self.ok(request.sync)

    def _vote(self, client: Client, request: Request) -> bytes:
        return reply.body(request.sync, self._memtx.schema_version, encode_ballot(self._box.ballot()))

    def _vote_deprecated(self, client: Client, request: Request) -> bytes:
        packed = pack_map_head(1) + pack_uint(Key.VCLOCK) + pack_vclock(self._box.ballot().vclock)
        return reply.body(request.sync, self._memtx.schema_version, packed)

    # ---- watchers ------------------------------------------------------------------------------------

    def _watch(self, client: Client, request: Request) -> bytes:
        client.watch(request.event_key, request.sync)
        return b""

    def _unwatch(self, client: Client, request: Request) -> bytes:
        client.unwatch(request.event_key)
        return b""

    def _watch_once(self, client: Client, request: Request) -> bytes:
        value = self._box.watchers.once(request.event_key)
        return reply.data(request.sync, self._memtx.schema_version, [] if value is None else [value])


def _is_unconfirmed(space: Space | None) -> bool:
    """May what was read there still be lost? Views read several spaces."""
    return space is None or space.kernel is None or space.is_unconfirmed

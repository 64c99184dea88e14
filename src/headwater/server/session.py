"""One connection: bytes in, replies out (iproto.cc, struct iproto_connection).

What was read goes to the compiled path in one call; where that stops, one request takes the ordinary path, and the
compiled path goes on behind it. Nothing here is done once per request as long as requests are plain.

No connection keeps the others waiting: what one turn of the loop does for it is bounded, and the rest comes next turn.

Reading stops while too much is under way: replies that the client does not take, requests that wait in streams or
procedures, a journal that does not keep up. What was read already is kept, so memory is bounded by one read and one
packet beyond these limits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from headwater.box.watchers import Watcher
from headwater.errors import BoxError, Er, er
from headwater.replication.channel import Channel
from headwater.server.inbox import Inbox
from headwater.server.outbox import Outbox, Waiting
from headwater.server.requests import Later, Outcome
from headwater.server.stream import Stream
from headwater.store.users import GUEST, User
from headwater.wire import greeting, reply
from headwater.wire.constants import REPLICATION_TYPES, SALT_SIZE, VERSION_ID, Feature, Type
from headwater.wire.request import Request, decode, split
from headwater.world import Link, Task

if TYPE_CHECKING:
    from headwater.server.iproto import IprotoServer

log = logging.getLogger("headwater.iproto")

OUTPUT_MAX = 16 << 20
"""Bytes of replies that may wait for a client before no more of its requests are served."""
TURN_REQUESTS = 128
"""Requests that may take the ordinary path before other connections have their turn."""
TURN_BYTES = 256_000
"""The same for bytes. A read of so many fills the buffer of the loop, which then reads on at once, many times over."""
_AGAIN = (Type.SELECT, Type.PING)


class Session:
    """A `LinkHandler`, and to procedures the one who calls."""

    __slots__ = (
        "_calls", "_channel", "_clock", "_dropping", "_is_paused", "_journal", "_memtx", "_options", "_read_only",
        "_run", "_runs", "_server", "_stats", "_streams", "_watchers", "features", "has_asked", "id", "inbox",
        "is_closed", "outbox", "requests", "salt", "seen", "since", "statements", "stream_bytes", "user",
    )  # fmt: skip

    type = "binary"

    def __init__(self, server: IprotoServer) -> None:
        box = server.box
        self.id = server.next_id()
        self.user: User = box.schema.users.guest
        self.salt = b""
        self.features: frozenset[int] = frozenset()
        self.outbox = Outbox()
        self.requests = server.requests
        self.statements = box.statements
        self.is_closed = False
        self.has_asked = False
        """A whole request has come."""
        self.since = self.seen = server.ticks
        """When something came last, in ticks of the server."""
        self.stream_bytes = 0
        """Of requests in streams that are not answered."""
        self._server = server
        self._memtx = box.memtx
        self._options = box.options
        self._run = box.memtx.run
        self._journal = box.journal
        self._read_only = box.read_only
        self._clock = box.world.clock
        self._stats = box.stats.net
        self._runs = True
        """May the compiled path serve it? Not where tuples carry formats."""
        self.inbox = Inbox()
        self._is_paused = False
        self._dropping = False
        self._streams: dict[int, Stream] | None = None
        self._watchers: dict[str, tuple[Watcher, int]] | None = None
        self._calls: dict[int, Task] | None = None
        """Procedures that wait, in the order in which they began."""
        self._channel: Channel | None = None
        """Has the connection while a request of replication is served: what comes is not ours then."""

    # ---- the connection ------------------------------------------------------------------------------

    def opened(self, link: Link) -> None:
        self.outbox.link = link
        if not self._server.admit(self):
            return
        self.salt = self._server.box.world.chance.token(SALT_SIZE)
        uuid: UUID = self._server.box.uuid
        self.outbox.put(greeting.encode(VERSION_ID, uuid, self.salt))

    @property
    def peer(self) -> str | None:
        return None if self.outbox.link is None else self.outbox.link.peer

    def received(self, data: bytes) -> None:
        if self.is_closed or self._dropping:
            return
        self.seen = self._server.ticks
        self._stats.add("RECEIVED", len(data))
        if self._channel is not None:
            self._channel.received(data)
            return
        if self.inbox or self._is_paused:
            self.inbox.add(data)
            if self._is_paused or not self.inbox.is_enough:
                return
            data = self.inbox.take()
        self._memtx.timestamp = self._clock.time()
        self._process(data)
        if len(data) >= TURN_BYTES:
            self._give_way()

    def drained(self) -> None:
        if self._channel is not None:
            self._channel.drained()
        else:
            self._resume()

    def closed(self, error: BaseException | None) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self.outbox.drop()
        self.inbox.take()
        if self._channel is not None:
            self._channel.closed(error)
        for key in list(self._watchers or ()):
            self.unwatch(key)
        for stream in list((self._streams or {}).values()):
            stream.end_of_connection()
        self._server.forget(self)

    def fail(self, error: BoxError) -> None:
        """Nothing that comes can be understood any more: say so and close."""
        log.error("connection %s: %s", self.peer, error.message)
        self.outbox.put(self.requests.error(0, error))
        self.hang_up()

    def hang_up(self) -> None:
        """Close once what is said is sent."""
        self._dropping = True
        self.outbox.close()

    def abort(self) -> None:
        if self.outbox.link is not None:
            self.outbox.link.abort()

    @property
    def is_busy(self) -> bool:
        """Is a request of it under way?"""
        return bool(self.outbox or self.stream_bytes or self._calls or self._channel)

    def drop(self) -> None:
        """The node goes: nothing more is read, procedures that wait are cancelled, open transactions undone."""
        self._dropping = True
        for task in list((self._calls or {}).values()):
            task.cancel()
        if self._channel is not None:
            self._channel.close("the node is going down")
        self._close_when_done()

    def _close_when_done(self) -> None:
        if self._dropping and not self.stream_bytes and not self._calls:
            self.outbox.close()

    # ---- requests ------------------------------------------------------------------------------------

    def _process(self, data: bytes) -> None:
        """Serve what lies in `data`, and keep the rest."""
        outbox = self.outbox
        end = len(data)
        at = 0
        left = TURN_REQUESTS
        outbox.hold()
        try:
            while at < end and not self._dropping and self._channel is None:
                if self._is_choked():
                    self.inbox.keep(data, at)
                    break
                if self._runs and self._server.is_ready:
                    at = self._run_plain(data, at, end)
                    if at == end:
                        break
                packet = self._split(data, at, end)
                if packet is None:
                    self.inbox.keep_packet(data, at, end)
                    break
                if not left:
                    self.inbox.keep(data, at)
                    self._give_way()
                    break
                left -= 1
                self._serve(data, at, *packet)
                at = packet[1]
        except BoxError as error:
            self.fail(error)
        except Exception:
            log.exception("connection %s: it is closed because of a mistake of ours", self.peer)
            self.hang_up()
        finally:
            outbox.release()
            if outbox.sent:
                self._stats.add("SENT", outbox.sent)
                outbox.sent = 0

    def _run_plain(self, data: bytes, at: int, end: int) -> int:
        """As far as the compiled path goes. It does not know how large a tuple or the store may be: where one of both
        may be too large, it is told not to write, and the ordinary path judges."""
        token = self.user.token
        if token < 0:
            return at
        options, memtx = self._options, self._memtx
        no_writes = (
            self._read_only.active or end - at > options.memtx_max_tuple_size or memtx.bytes_used > options.memtx_memory
        )
        stop, replies, served, waits = self._run(data, at, end, token, no_writes)
        if served:
            self.has_asked = True
            self._stats.add("REQUESTS", served)
            if waits:
                self._answer_later(replies, data, at, stop)
            else:
                self.outbox.add(replies)
        return stop

    def _serve(self, data: bytes, start: int, body: int, end: int) -> None:
        """One packet on the ordinary path."""
        self.has_asked = True
        self._stats.add("REQUESTS")
        request = decode(data, body, end)
        if request.stream_id:
            self._stream(request.stream_id).push(request, end - start)
            return
        if request.type in REPLICATION_TYPES and request.error is None and self._server.is_ready:
            self._hand_over(request, data[end:])
            return
        outcome = self.requests.serve(self, request)
        if not isinstance(outcome, Outcome):
            self.call_later(request, outcome, partial(self._returned, request))
        elif outcome.waits:
            self._answer_later(outcome.reply, data, start, end)
        elif outcome.reply:
            self.outbox.add(outcome.reply)

    def _answer_later(self, replies: bytes, data: bytes, start: int, end: int) -> None:
        waiting = Waiting(self.outbox, self, replies, data, start, end)
        self.outbox.add(waiting)
        self._journal.settle(waiting)

    def answer_again(self, data: bytes, start: int, end: int, error: BoxError) -> tuple[bytes, bool]:
        """The journal failed: writes tell it, reads look again."""
        if self.is_closed:
            return b"", False
        replies: list[bytes] = []
        waits = False
        while start < end:
            packet = split(data, start, end)
            assert packet is not None, "served before"
            request = decode(data, *packet)
            outcome = self.requests.serve(self, request) if request.type in _AGAIN else None
            if isinstance(outcome, Outcome):
                replies.append(outcome.reply)
                waits |= outcome.waits
            else:
                replies.append(self.requests.error(request.sync, error))
            start = packet[1]
        return b"".join(replies), waits

    def settle(self, waiter: Callable[[BoxError | None], object]) -> None:
        self._journal.settle(waiter)

    def put(self, reply: bytes) -> None:
        """A reply that is not one to the packet just read."""
        if reply:
            self.outbox.put(reply)
        self._close_when_done()

    def _split(self, data: bytes, at: int, end: int) -> tuple[int, int] | None:
        """`wire.request.split` with the limit that holds for this user."""
        options = self._options
        if self.user.id != GUEST:
            return split(data, at, end, options.max_packet)
        try:
            return split(data, at, end, min(options.max_packet, options.max_packet_before_login))
        except BoxError:
            if not self._server.trusts_guest():
                raise
            return split(data, at, end, options.max_packet)

    # ---- procedures ----------------------------------------------------------------------------------

    def call_later(self, request: Request, call: Later, done: Callable[[Outcome], None]) -> None:
        """Run a procedure that waits as a fiber."""
        self._server.took()
        if self._calls is None:
            self._calls = {}
        number = self._server.next_id()
        fiber = self._call(number, request, call, done)
        self._calls[number] = self._server.box.world.tasks.spawn(fiber, f"call {request.function}")

    async def _call(self, number: int, request: Request, call: Later, done: Callable[[Outcome], None]) -> None:
        outcome = Outcome(b"")
        try:
            outcome = self.requests.returned(self, request, await call)
        except BoxError as error:
            outcome = self.requests.refused(request, error)
        except Exception as error:
            outcome = self.requests.failed(request, error)
        except BaseException:
            if self._dropping:
                done(outcome)
            raise
        finally:
            self._server.did()
            if self._calls is not None:
                self._calls.pop(number, None)
        done(outcome)

    def _returned(self, request: Request, outcome: Outcome) -> None:
        if outcome.waits:
            self._journal.settle(partial(self._call_settled, request, outcome.reply))
        else:
            self.put(outcome.reply)

    def _call_settled(self, request: Request, reply: bytes, error: BoxError | None) -> None:
        self.put(reply if error is None else self.requests.error(request.sync, error))

    # ---- replication ---------------------------------------------------------------------------------

    def _hand_over(self, request: Request, rest: bytes) -> None:
        """The connection belongs to replication until the request is done (iproto.cc, tx_process_replication).
        `rest`: what came behind it."""
        link = self.outbox.link
        if link is None:
            return
        if self.is_busy:
            words = "Can't process join/subscribe while there are pending requests"
            self.outbox.add(self.requests.error(request.sync, er(Er.PROTOCOL, words)))
            return
        box = self._server.box
        channel = self._channel = Channel(box.world.tasks, link, rest)
        channel.features = self.features
        box.world.tasks.spawn(self._replicate(request, channel), f"replication {link.peer}")

    async def _replicate(self, request: Request, channel: Channel) -> None:
        try:
            await self._server.box.serve_peer(request, self.user, channel)
        except Exception as error:
            log.error("connection %s: it is closed because of a mistake of ours", self.peer, exc_info=error)
            channel.abort("a mistake of ours")
        self._channel = None
        link = self.outbox.link
        if link is None or channel.is_closed or self._dropping:
            return
        rest = channel.take_all()
        if rest:
            self.inbox.keep(rest, 0)
        self._pause(link)
        self._resume()

    # ---- streams -------------------------------------------------------------------------------------

    def _stream(self, id: int) -> Stream:
        if self._streams is None:
            self._streams = {}
        stream = self._streams.get(id)
        if stream is None:
            stream = self._streams[id] = Stream(self, id)
            self._stats.enter("STREAMS")
        return stream

    def forget_stream(self, id: int) -> None:
        if self._streams and self._streams.pop(id, None) is not None:
            self._stats.leave("STREAMS")

    def stream_took(self, size: int) -> None:
        self.stream_bytes += size
        self._server.took()

    def stream_did(self, size: int) -> None:
        self.stream_bytes -= size
        self._server.did()
        if self._is_paused:
            self.wake()

    # ---- the user ------------------------------------------------------------------------------------

    def logged_in(self, user: User) -> None:
        self.user = user

    def negotiated(self, features: frozenset[int]) -> None:
        self.features = features
        self._runs = Feature.DML_TUPLE_EXTENSION not in features

    # ---- watchers ------------------------------------------------------------------------------------

    def watch(self, key: str, sync: int) -> None:
        """session.c, session_watch: a second WATCH says that the client is done with the last event."""
        if self._watchers is None:
            self._watchers = {}
        known = self._watchers.get(key)
        watchers = self._server.box.watchers
        if known is None:
            self._watchers[key] = watchers.watch(key, self._event), sync
        else:
            self._watchers[key] = known[0], sync
            watchers.ack(known[0])

    def unwatch(self, key: str) -> None:
        known = self._watchers.pop(key, None) if self._watchers else None
        if known is not None:
            self._server.box.watchers.unwatch(known[0])

    def is_watching(self, key: str) -> bool:
        return self._watchers is not None and key in self._watchers

    def _event(self, key: str, value: bytes | None) -> None:
        assert self._watchers is not None
        if self._channel is not None:
            return  # a stream of rows has no room for it
        self.put(reply.event(self._watchers[key][1], key, value))

    # ---- back-pressure -------------------------------------------------------------------------------

    def _is_choked(self) -> bool:
        """Is too much under way? Then reading stops, and whoever is the reason calls `_resume`."""
        server, link = self._server, self.outbox.link
        if link is None:
            return False
        if self.outbox.size > OUTPUT_MAX:
            self._pause(link)
            self._journal.settle(self._journal_moved)
        elif link.pending > OUTPUT_MAX or self.stream_bytes > server.input_max:
            self._pause(link)
        elif server.is_full:
            self._pause(link)
            server.stop(self)
        elif self._journal.full:
            self._pause(link)
            self._journal.when_room(self.wake)
        else:
            return False
        return True

    def _pause(self, link: Link) -> None:
        if not self._is_paused:
            self._is_paused = True
            link.pause_reading()

    def _give_way(self) -> None:
        """Others come first; then it goes on."""
        link = self.outbox.link
        if link is not None and not self._is_paused:
            self._pause(link)
            self.wake()

    def _journal_moved(self, error: BoxError | None) -> None:
        self.wake()

    def wake(self) -> None:
        """What it was stopped for may be over."""
        self._server.box.world.tasks.soon(self._resume)

    def _resume(self) -> None:
        """Serve what was kept, then read on; then it is the turn of others that were stopped."""
        link = self.outbox.link
        if self._is_paused and link is not None and not self._is_choked():
            self._is_paused = False
            if self.inbox and self.inbox.is_enough:
                self._memtx.timestamp = self._clock.time()
                self._process(self.inbox.take())
            if not self._is_paused:
                link.resume_reading()
        self._server.wake_next()

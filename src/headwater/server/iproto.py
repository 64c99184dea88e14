"""The server: addresses that it listens on, the connections it has, and how much they may ask at once (iproto.cc)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from headwater.box.events import SHUTDOWN
from headwater.server.host import Instance
from headwater.server.requests import Requests
from headwater.server.session import Session
from headwater.store.users import PUBLIC
from headwater.world import Event, Listener, Timer

log = logging.getLogger("headwater.iproto")

TICK = 1.0
"""Seconds between two looks at connections that may be idle."""
SHUTDOWN_TIMEOUT = 3.0
"""Seconds that clients have to finish when the node goes (box.cc, BOX_SHUTDOWN_TIMEOUT_DEFAULT)."""
_LOGIN_BITS = 24
"""Session and usage, which everybody has on the universe."""


class IprotoServer:
    """All connections of one node."""

    def __init__(self, box: Instance) -> None:
        self.box = box
        self.requests = Requests(box)
        self.sessions: dict[int, Session] = {}
        """By id, in the order in which they came."""
        self.ticks = 0
        self.in_flight = 0
        """Requests in streams and procedures that are not answered yet."""
        self._listeners: list[Listener] = []
        self._stopped: dict[int, Session] = {}
        """Connections that stopped reading because of `net_msg_max`, by id, oldest first."""
        self._last_id = 0
        self._timer: Timer | None = None
        self._is_closing = False
        self._gone: Event = box.world.tasks.event()
        self._warned_at = -1

    # ---- listening -----------------------------------------------------------------------------------

    async def listen(self, addresses: Sequence[str]) -> None:
        """Listen on these addresses and on no others. OSError if one cannot be had; then those before stay."""
        self.stop_listening()
        for address in addresses:
            self._listeners.append(await self.box.world.net.listen(address, self._session))
            log.info("binary: bound to %s", self._listeners[-1].address)
        if self._timer is None and not self._is_closing:
            self._timer = self.box.world.tasks.later(TICK, self._tick)

    def stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners = []

    @property
    def addresses(self) -> list[str]:
        """With the ports that were really taken."""
        return [listener.address for listener in self._listeners]

    def _session(self) -> Session:
        return Session(self)

    def renew_users(self) -> None:
        """The store begins anew while the node starts: nobody can have logged in."""
        for session in self.sessions.values():
            session.user = self.box.schema.users.guest

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    # ---- connections ---------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        return self.box.is_ready

    def admit(self, session: Session) -> bool:
        """A connection is there. False: there are too many, it is closed."""
        if self._is_closing or len(self.sessions) >= self.box.options.max_connections:
            self._warn("connection %s refused: there are %d already", session.peer, len(self.sessions))
            session.hang_up()
            return False
        self.sessions[session.id] = session
        self.box.stats.net.enter("CONNECTIONS")
        return True

    def forget(self, session: Session) -> None:
        if self.sessions.pop(session.id, None) is not None:
            self.box.stats.net.leave("CONNECTIONS")
            self._gone.set()

    def trusts_guest(self) -> bool:
        """Has guest privileges of his own? Then who does not log in is no stranger."""
        users = self.box.schema.users
        public = users.by_id(PUBLIC)
        common = public.effective if public is not None else {}
        for key, bits in users.guest.effective.items():
            usual = common.get(key, 0) | (_LOGIN_BITS if key.type.value == "universe" else 0)
            if bits & ~usual:
                return True
        return False

    # ---- limits --------------------------------------------------------------------------------------

    @property
    def input_max(self) -> int:
        """Bytes of unanswered stream requests that one connection may have: two buffers, as iproto.cc has two."""
        return 2 * self.box.options.readahead

    @property
    def is_full(self) -> bool:
        return self.in_flight > self.box.options.net_msg_max

    def took(self) -> None:
        self.in_flight += 1
        self.box.stats.net.enter("REQUESTS_IN_PROGRESS")

    def did(self) -> None:
        self.in_flight -= 1
        self.box.stats.net.leave("REQUESTS_IN_PROGRESS")
        self.wake_next()

    def wake_next(self) -> None:
        """Of those that stopped, the one that waits longest. It may fill the server up again; when it has taken what
        it wants it calls this for the next one, which nobody else may do."""
        while self._stopped and not self.is_full:
            session = self._stopped.pop(next(iter(self._stopped)))
            if not session.is_closed:
                session.wake()
                break

    def stop(self, session: Session) -> None:
        self._warn("stopping input on connection %s, net_msg_max limit is reached", session.peer)
        self._stopped[session.id] = session

    def _warn(self, words: str, *args: object) -> None:
        """At most once a tick."""
        if self._warned_at != self.ticks:
            self._warned_at = self.ticks
            log.warning(words, *args)

    # ---- time ----------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.ticks += 1
        options = self.box.options
        if options.login_timeout or options.idle_timeout:
            for session in list(self.sessions.values()):
                self._look_at(session, options.login_timeout, options.idle_timeout)
        self._timer = self.box.world.tasks.later(TICK, self._tick)

    def _look_at(self, session: Session, login: float, idle: float) -> None:
        silent = (self.ticks - session.seen) * TICK
        if login and not session.has_asked and (self.ticks - session.since) * TICK > login:
            log.info("closing connection %s: no request for %.1f second(s)", session.peer, login)
            session.hang_up()
        elif idle and silent > idle and not session.is_busy:
            log.info("closing connection %s: idle for %.1f second(s)", session.peer, idle)
            session.hang_up()

    # ---- the end -------------------------------------------------------------------------------------

    async def shutdown(self, timeout: float = SHUTDOWN_TIMEOUT) -> None:
        """Accept no more, tell clients that watch `box.shutdown`, wait until they have gone, then drop the rest."""
        self._is_closing = True
        self.stop_listening()
        if self._timer is not None:
            self._timer.cancel()
        self.box.watchers.broadcast(SHUTDOWN, b"\xc3")
        deadline = self.box.world.clock.monotonic() + timeout
        await self._wait_until_gone(deadline, lambda session: session.is_watching(SHUTDOWN))
        for session in list(self.sessions.values()):
            session.drop()
        await self._wait_until_gone(deadline, lambda session: True)
        for session in list(self.sessions.values()):
            session.abort()

    async def _wait_until_gone(self, deadline: float, counts: Callable[[Session], bool]) -> None:
        tasks, clock = self.box.world.tasks, self.box.world.clock
        while any(counts(session) for session in self.sessions.values()):
            self._gone.clear()
            try:
                async with tasks.timeout(max(deadline - clock.monotonic(), 0)):
                    await self._gone.wait()
            except TimeoutError:
                return

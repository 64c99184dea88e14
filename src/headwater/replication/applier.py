"""The side that follows: one fiber for each master in `box.cfg.replication` (applier.cc; seed 000).

It connects, waits for a mission, does it, and when something breaks it asks the table in `errors` whether to try again.
Beyond Tarantool: a failed write stops no applier, all of them start anew from what is written; and no answer is waited
for without an end.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from headwater.errors import BoxError, Er, er
from headwater.replication import login, requests
from headwater.replication.border import Border, inherit, to_master
from headwater.replication.channel import Channel, packet_at
from headwater.replication.errors import WORDS, Verdict, as_box_error, judge
from headwater.replication.following import Following
from headwater.replication.host import Host
from headwater.replication.intake import Intake
from headwater.replication.load import Load
from headwater.replication.states import MOVES, ApplierState, Mission
from headwater.uri import Uri
from headwater.wire.ballot import Ballot
from headwater.wire.constants import Type, version_of
from headwater.wire.greeting import NIL_UUID
from headwater.wire.replication import decode_vclock
from headwater.wire.synchro import RaftMessage
from headwater.wire.xrow import Row
from headwater.world import Event, Task

log = logging.getLogger("headwater.replication")

_S = ApplierState
T = TypeVar("T")


class _Ended(Exception):  # noqa: N818
    """Whoever was told of a new state has stopped this applier: its fiber is at its end."""


class Applier:
    """One master that this node follows, or would like to."""

    def __init__(self, host: Host, uri: Uri, listener: Callable[[Applier], object]) -> None:
        """`listener` is called after each change of state or ballot."""
        self.uri = uri
        self.state = _S.OFF
        self.error: BoxError | None = None
        """The last one; forgotten when a new connection has a greeting."""
        self.uuid: UUID = NIL_UUID
        """Of the peer, as its greeting said."""
        self.version = 0
        """Of the peer, as its greeting said (`wire.constants.version_id`)."""
        self.ballot: Ballot | None = None
        self.peer = ""
        """The address that is really connected to."""
        self.last_row_time = host.world.clock.monotonic()
        """Monotonic time of the last sign of life."""
        self.has_rows = False
        """The connection that failed last had brought rows of a snapshot: a part must not be taken for the whole."""
        self.has_left_out = False
        """The peer has registered us and left out rows before that: we subscribe as a member, and all of them come."""
        self._host = host
        self._listener = listener
        self._mission = Mission.HOLD
        self._fiber: Task | None = None
        self._watcher: Task | None = None
        """Sees the ballot change, over a connection of its own, until this node subscribes."""
        self._connection: login.Connection | None = None
        self._following: Following | None = None
        self._load: Load | None = None
        self._reason: BoxError | None = None
        """Why this connection was given up by us."""
        self._logged_code: int | None = None
        """Of the error that the log told last: the same one is told once, until SUBSCRIBE succeeds."""
        self._news: Event = host.world.tasks.event()
        """A mission, a ballot, or the end of the connection."""

    # ---- what it is like ------------------------------------------------------------------------------

    @property
    def lag(self) -> float:
        """Seconds from the writing of the last row on its master to its coming here."""
        return self._following.lag if self._following is not None else 0.0

    @property
    def idle(self) -> float:
        """Seconds since the last sign of life."""
        return self._host.world.clock.monotonic() - self.last_row_time

    @property
    def instance_id(self) -> int:
        """Id of the peer, as it said when we subscribed; 0 before, and for an anonymous one."""
        return self._following.instance_id if self._following is not None else 0

    @property
    def raft(self) -> RaftMessage | None:
        """The last RAFT message of the peer over this connection."""
        return self._following.raft if self._following is not None else None

    # ---- what it is told ------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect, and go on until `stop`."""
        assert self._fiber is None, "it is running"
        self._become(_S.CONNECT, is_told_from_outside=True)
        if self.state is _S.CONNECT:
            self._fiber = self._host.world.tasks.spawn(self._run(), f"applier/{self.uri}")

    def stop(self) -> None:
        """At once, whatever it is doing. It may be started again."""
        self._cancel()
        if self.state is not _S.OFF:
            self._become(_S.OFF, is_told_from_outside=True)

    def end(self, error: BoxError) -> None:
        """As an error that no new connection mends."""
        self._cancel()
        self.error = error
        self._tell(error, retries=False)
        if self.state not in (_S.OFF, _S.STOPPED):
            self._become(_S.STOPPED, is_told_from_outside=True)

    def restart(self, error: BoxError) -> None:
        """Give up this connection and come again, because of an error that is not the peer's."""
        if self._connection is not None and self._reason is None:
            self._reason = error
            self._connection.channel.abort(error.message)
            self._news.set()

    def release(self, mission: Mission) -> None:
        """What to do next. JOIN and REGISTER are meant for one connection, FOLLOW for every later one too."""
        self._mission = mission
        self._news.set()

    def _cancel(self) -> None:
        fiber, self._fiber = self._fiber, None
        self._hang_up()
        if fiber is not None:
            fiber.cancel()

    # ---- the fiber ------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """applier_f"""
        while True:
            try:
                await self._live()
            except _Ended:
                return
            except (BoxError, OSError) as error:
                if not self._give_up(self._failed(error)):
                    return
            except Exception as bug:
                self.error = er(Er.UNKNOWN)
                self.error.message = f"{type(bug).__name__}: {bug}"
                self._give_up(Verdict(_S.STOPPED, retries=False))
                raise
            await self._host.world.tasks.sleep(self._retry_interval)

    async def _live(self) -> None:
        """One connection, to its end."""
        await self._connect()
        self._become(_S.CONNECTED)
        mission = await self._wait_mission()
        await self._log_in()
        while True:
            match mission:
                case Mission.JOIN:
                    await self._join()
                case Mission.REGISTER:
                    await self._register()
                case _:
                    await self._follow()
            mission = await self._wait_mission()
            self._become(_S.READY)

    async def _wait_mission(self) -> Mission:
        await self._until(lambda: self._mission is not Mission.HOLD)
        mission = self._mission
        if mission is not Mission.FOLLOW:
            self._mission = Mission.HOLD
        return mission

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Wait, as long as there is a connection."""
        while not is_so():
            self._channel.check()
            self._news.clear()
            await self._news.wait()

    @property
    def _channel(self) -> Channel:
        assert self._connection is not None
        return self._connection.channel

    # ---- states ---------------------------------------------------------------------------------------

    def _become(self, state: ApplierState, *, is_told_from_outside: bool = False) -> None:
        assert state in MOVES[self.state], f"{self.state} -> {state}"
        self.state = state
        log.debug("applier/%s: => %s", self.uri, state.name)
        self._listener(self)
        if not is_told_from_outside and self.state is not state:
            raise _Ended

    def _failed(self, error: BoxError | OSError) -> Verdict:
        """What becomes of us, and the words for the log."""
        self.has_rows = self._load is not None and self._load.rows > 0
        if self._reason is not None:
            error, verdict = self._reason, Verdict(_S.DISCONNECTED, retries=True)
        elif isinstance(error, OSError):
            error = as_box_error(error, self.uri.address)
            verdict = self._judge(error)
        elif error.code == Er.CONNECTION_TO_SELF and self.uuid == self._host.uuid:
            return Verdict(_S.OFF, retries=False)
        else:
            verdict = self._judge(error)
        self.error = error
        self._tell(error, retries=verdict.retries)
        return verdict

    def _judge(self, error: BoxError) -> Verdict:
        return judge(error, self.state, has_rows=self.has_rows)

    def _tell(self, error: BoxError, *, retries: bool) -> None:
        """applier_log_error"""
        if error.code == self._logged_code:
            return
        self._logged_code = error.code
        if words := WORDS.get(self.state):
            log.info("applier/%s: %s", self.uri, words)
        log.error("applier/%s: %s", self.uri, error.message)
        if retries:
            log.info("applier/%s: will retry every %.2f second", self.uri, self._retry_interval)

    def _give_up(self, verdict: Verdict) -> bool:
        """Be in the new state, without a connection. Are we to come again?"""
        if self._mission is not Mission.FOLLOW:
            self._mission = Mission.HOLD
        if not verdict.retries:
            self._fiber = None
        self._hang_up()
        self._become(verdict.state, is_told_from_outside=True)
        return verdict.retries and self.state is verdict.state

    def _hang_up(self) -> None:
        """applier_disconnect"""
        self._unwatch()
        if self._following is not None:
            self._following.end()
        if self._connection is not None:
            self._connection.channel.on_end = lambda: None
            self._connection.channel.abort("the applier has ended it")
        self._connection = self._load = self._reason = None

    @property
    def _retry_interval(self) -> float:
        """replication_effective_reconnect_timeout"""
        options = self._host.options
        own = options.replication_reconnect_timeout
        return options.replication_timeout if own is None else own

    @property
    def _patience(self) -> float:
        return login.SILENCE * self._host.options.replication_timeout

    # ---- connecting -----------------------------------------------------------------------------------

    async def _connect(self) -> None:
        """applier_connect"""
        self._following = None
        if self.state is not _S.CONNECT:
            self._become(_S.CONNECT)
        connection = await login.connect(self._host.world, self.uri, self._patience)
        connection.channel.on_end = self._news.set
        self._connection = connection
        self._introduce(connection)
        if self.uuid == self._host.uuid:
            raise er(Er.CONNECTION_TO_SELF)
        await self._in_time(login.identify(connection, remaps=self._host.ids is not None))
        if login.can_watch(connection):
            self.ballot = None
            self._watcher = self._host.world.tasks.spawn(self._watch(), f"ballot_watcher/{self.uri}")
            async with self._host.world.tasks.timeout(self._host.options.replication_connect_timeout):
                await self._until(lambda: self.ballot is not None and login.is_usable(self.ballot))
        else:
            self.ballot = await self._in_time(login.vote(connection.channel))

    def _introduce(self, connection: login.Connection) -> None:
        said = connection.greeting
        self.peer = connection.channel.peer
        self.last_row_time = self._host.world.clock.monotonic()
        if self.version != said.version_id:
            version = "{}.{}.{}".format(*version_of(said.version_id))
            log.info("remote master %s at %s running Tarantool %s", said.uuid, self.peer, version)
        self.uuid, self.version, self.error = said.uuid, said.version_id, None

    async def _in_time(self, answer: Awaitable[T]) -> T:
        """An answer that is to come soon."""
        async with self._host.world.tasks.timeout(self._patience):
            return await answer

    async def _watch(self) -> None:
        """applier_ballot_watcher_f"""
        second: login.Connection | None = None
        try:
            second = await login.connect(self._host.world, self.uri, self._patience)
            await login.watch(second.channel, self._take_ballot)
        except (BoxError, OSError) as error:
            found = error if isinstance(error, BoxError) else as_box_error(error, self.uri.address)
            self._watch_failed(found)
        finally:
            if second is not None:
                second.channel.abort("not watched any longer")

    def _take_ballot(self, ballot: Ballot) -> None:
        self.ballot = ballot
        self._news.set()
        self._listener(self)

    def _watch_failed(self, error: BoxError) -> None:
        """As long as somebody chooses by the ballot, the connection is worth nothing without it."""
        if self.state in (_S.CONNECT, _S.CONNECTED):
            self.restart(error)
        else:
            log.info("applier/%s: the ballot is not watched any longer: %s", self.uri, error.message)

    def _unwatch(self) -> None:
        """applier_unwatch_ballot"""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()

    async def _log_in(self) -> None:
        if self.uri.login:
            self._become(_S.AUTH)
            assert self._connection is not None
            await self._in_time(login.log_in(self._connection, self.uri))
            self._alive()
            log.info("applier/%s: authenticated", self.uri)
        self._become(_S.READY)

    def _alive(self) -> None:
        self.last_row_time = self._host.world.clock.monotonic()

    # ---- joining --------------------------------------------------------------------------------------

    async def _join(self) -> None:
        """applier_join, applier_fetch_snapshot"""
        host, is_anon = self._host, self._host.options.replication_anon
        request = requests.fetch_snapshot if is_anon else requests.join
        self._channel.send(request(host, self.version))
        self._become(_S.WAIT_SNAPSHOT)
        row = await self._packet()
        if row.type != Type.OK:
            raise login.refusal(row)
        load = self._load = Load(host, decode_vclock(row))
        row = await self._meta(load)
        self._become(_S.FETCH_SNAPSHOT)
        if not load.snapshot_row(row):
            await self._read(load.snapshot)
        load.end_snapshot()
        if is_anon:
            await self._inherit()
            self._become(_S.FETCHED_SNAPSHOT)
            return
        log.info("applier/%s: initial data received", self.uri)
        self._become(_S.FINAL_JOIN)
        await self._read(load.final)
        log.info("applier/%s: final data received", self.uri)
        await self._inherit()
        self._become(_S.JOINED)

    async def _inherit(self) -> None:
        assert self._connection is not None
        await self._in_time(inherit(self._host, self._channel, self._connection.features))

    async def _meta(self, load: Load) -> Row:
        """State of election and queue, if the master sends it. The first row of the snapshot."""
        row = await self._packet()
        if row.type != Type.JOIN_META:
            return row
        while (row := await self._packet()).type != Type.JOIN_SNAPSHOT:
            load.meta(row)
        return await self._packet()

    async def _packet(self) -> Row:
        """While a snapshot is prepared the master may be silent for long."""
        async with self._host.world.tasks.timeout(self._join_patience):
            row = await self._channel.packet()
        self._alive()
        return row

    async def _read(self, take: Callable[[bytes], tuple[int, bool]]) -> None:
        """Give bytes to `take` until it has enough."""
        data, at, is_over = b"", 0, False
        while not is_over:
            async with self._host.world.tasks.timeout(self._join_patience):
                data = await self._channel.more(data, at)
            self._alive()
            at, is_over = take(data)
        self._channel.keep(data, at)

    @property
    def _join_patience(self) -> float:
        return max(self._patience, self._host.options.replication_connect_timeout)

    async def _register(self) -> None:
        """applier_register. Over when the rows are written: where they cannot be, those behind them must not be."""
        journal = self._host.journal
        journal.on_rollback.append(self._undone)
        try:
            await self._take_registration()
            await journal.sync()
        finally:
            journal.on_rollback.remove(self._undone)
        self._become(_S.REGISTERED)

    def _undone(self) -> None:
        self.restart(er(Er.WAL_IO))

    async def _take_registration(self) -> None:
        host, border = self._host, self._border
        await self._in_time(border.open(self._channel))
        vclock = border.vclock_out(host.journal.vclock.as_dict(ignore0=True))
        self._channel.send(requests.register(host, self.version, vclock))
        self._become(_S.REGISTER)
        if self.version < requests.REGISTERS_FROM_OURS and await self._is_ahead():
            return
        intake = Intake(host, lambda timestamp: None, lambda row: row.type == Type.OK)
        data, at = b"", 0
        while not intake.is_over:
            async with host.world.tasks.timeout(self._join_patience):
                data = border.rows_in(await self._channel.more(*border.before(data, at)))
            self._alive()
            at = await intake.digest(data)
        self._channel.keep(*border.before(data, at))

    async def _is_ahead(self) -> bool:
        """Do the rows of the registration begin behind some that we have not got? Then none of them is taken: all come
        again when we subscribe, the one with our id among them."""
        border, channel = self._border, self._channel
        known = list(self._host.memtx.vclock)
        data, at, is_ahead = b"", 0, False
        while True:
            while (packet := packet_at(data, at)) is not None:
                row, end = packet
                if row.is_error or row.type == Type.OK:
                    self.has_left_out = is_ahead
                    channel.keep(*border.before(data, end if is_ahead else 0))
                    return is_ahead
                at = end
                is_ahead = is_ahead or row.lsn > known[row.replica_id] + 1
                known[row.replica_id] = max(row.lsn, known[row.replica_id])
            async with self._host.world.tasks.timeout(self._join_patience):
                data = border.rows_in(await channel.more(*border.before(data, 0)))
            self._alive()

    # ---- following ------------------------------------------------------------------------------------

    @property
    def _border(self) -> Border:
        """Between the peer's replica ids and ours."""
        assert self._connection is not None
        seen = self.ballot.vclock if self.ballot is not None else {}
        return to_master(self._host, self.uuid, self._connection.features, seen)

    async def _follow(self) -> None:
        """applier_subscribe. Does not return."""
        self._unwatch()
        following = self._following = Following(
            self._host, self._channel, self.version, self, self._border, is_member=self.has_left_out
        )
        await self._in_time(following.subscribe())
        log.info("applier/%s: subscribed", self.uri)
        log.info(
            "applier/%s: remote vclock %s local vclock %s", self.uri, following.remote_vclock, following.local_vclock
        )
        self._become(_S.SYNC)
        self._logged_code = None
        await following.run()

    # What `Following` tells.

    def heard(self) -> None:
        """Bytes came."""
        self._alive()

    def synced(self) -> None:
        """It has caught up."""
        if self.state is _S.SYNC:
            self._become(_S.FOLLOW, is_told_from_outside=True)

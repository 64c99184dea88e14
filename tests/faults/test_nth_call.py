"""The n-th system call of a kind kills the server, fails, or writes less than it was asked to (strace inject)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.faults.workload import Load, Writer, create_spaces, judge, make_writers
from tests.support import iproto, strace
from tests.support.fixtures import Servers
from tests.support.process import Server, ServerDiedError
from tests.support.soak import Record
from tests.support.subjects import STAND_IN, snapshot

pytestmark = pytest.mark.skipif(not strace.available(), reason="strace is absent or may not trace here")

# What writes a journal or a snapshot: os.pwrite and friends; the real Tarantool uses write and writev.
WRITES = "write,writev" if STAND_IN else "pwrite64"
KINDS = [WRITES, "fdatasync,fsync", "rename", "ftruncate", "openat"]
SOAK_RUNS = 1000
WAL_IO = 40


def killed_at(server: Server, writers: list[Writer], calls: str, n: int) -> bool:
    """Write, with snapshots, until the n-th call kills the server. False if it never came to that call."""
    server.wrapper = strace.wrapper(strace.inject(calls, f"signal=SIGKILL:when={n}"))
    try:
        server.start(timeout=30)
        judge(server.address, writers)
        load = Load(server.address, writers, window=16)
        if not load.run(0.15):
            return True
        with iproto.Connection(*server.address) as connection:
            snapshot(connection)
        return not Load(server.address, writers, window=16).run(0.1)
    except (ServerDiedError, ConnectionError):
        return True
    finally:
        server.kill()
        server.wrapper = ()


def sweep(servers: Servers, name: str, seed: int, runs: list[tuple[str, int]]) -> tuple[int, int]:
    """Kill at each of these calls in turn, on one directory; (killed, acknowledged)."""
    writers = make_writers(seed)
    server = servers.subject(name, wal_max_size=1 << 16)
    with server.start():
        create_spaces(server.address)
    killed = 0
    for calls, n in runs:
        killed += killed_at(server, writers, calls, n)
        with server.start():
            judge(server.address, writers)
    return killed, sum(writer.acked for writer in writers)


def test_killed_at_the_nth_call(servers: Servers) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    dice = random.Random(seed)
    runs = [(WRITES, n) for n in (1, 2, 3, 4, 5, 7, 10, 20, 50)]
    runs += [(kind, n) for kind in KINDS[1:4] for n in (1, 2, 3)]
    runs += [(WRITES, dice.randrange(1, 200)) for _ in range(4)]
    killed, acked = sweep(servers, "swept", seed, runs)
    print(f"{killed} of {len(runs)} runs were killed, {acked} acknowledged")
    assert killed >= len(runs) // 2


@pytest.mark.soak
def test_killed_at_the_nth_call_soak(servers: Servers) -> None:
    record = Record("kill-nth-call")
    while (done := record.total("cycles")) < SOAK_RUNS:
        seed = random.randrange(1 << 30)
        dice = random.Random(seed)
        runs = [(dice.choice(KINDS), int(1.5 ** dice.uniform(0, 15))) for _ in range(min(50, SOAK_RUNS - done))]
        killed, acked = sweep(servers, f"swept-{seed}", seed, runs)
        record.add(seed=seed, cycles=len(runs), killed=killed, acked=acked, lost=0)


journal_only = pytest.mark.skipif(STAND_IN, reason="2.6.0 writes files and sockets with the same call")


@journal_only
@pytest.mark.parametrize("fault", ["error=EIO", "error=ENOSPC"], ids=["EIO", "ENOSPC"])
def test_failing_journal_write(servers: Servers, tmp_path: Path, fault: str) -> None:
    """Some writes to the journal fail. The server refuses what it could not write, keeps what it
    acknowledged, and takes writes again when the fault is over."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    writers = make_writers(seed)[:1]
    server = servers.subject("failing")
    with server.start():
        create_spaces(server.address)
    server.wrapper = strace.wrapper(strace.inject(WRITES, f"{fault}:when=4+5"))
    server.start()
    refused = 0
    with iproto.Connection(*server.address) as connection:
        for n in range(60):
            reply = connection.ask(iproto.REPLACE, {iproto.SPACE_ID: 602, iproto.TUPLE: [n, n, "x"]})
            if reply.failed:
                assert reply.code == WAL_IO, reply.answer()
                refused += 1
                assert connection.select(602, [n], iterator=iproto.EQ) == [], "a refused write can be seen"
            else:
                assert connection.select(602, [n], iterator=iproto.EQ) == [[n, n, "x"]]
        there = connection.select(602)
        assert len(there) == 60 - refused
    assert refused, "no write failed: the fault did not reach the journal"
    server.kill()
    server.wrapper = ()
    with server.start(), iproto.Connection(*server.address) as connection:
        assert connection.select(602) == there
        connection.replace(602, [1000, 0, "after"])
    judge_one(server, writers[0])


def judge_one(server: Server, writer: Writer) -> None:
    """The spaces that the faults did not touch are as they were."""
    with server.start(), iproto.Connection(*server.address) as connection:
        assert writer.judge(connection.select(writer.space)) == 0


@journal_only
def test_fault_under_pipelined_load(servers: Servers) -> None:
    """A batch fails in the middle of pipelined load: everything from it on is refused, nothing refused appears, and
    every acknowledged write survives a crash right after."""
    server = servers.subject("pipelined")
    with server.start():
        create_spaces(server.address)
    server.wrapper = strace.wrapper(strace.inject(WRITES, "error=EIO:when=6+7"))
    server.start()
    answered: dict[int, bool] = {}
    with iproto.Connection(*server.address) as connection:
        for batch in range(30):
            keys = range(batch * 50, batch * 50 + 50)
            replies = connection.pipeline(
                (iproto.INSERT, {iproto.SPACE_ID: 602, iproto.TUPLE: [n, n, "p"]}) for n in keys
            )
            for key, reply in zip(keys, replies, strict=True):
                answered[key] = not reply.failed
                assert reply.code in (0, WAL_IO, 134), reply.answer()
        visible = {row[0] for row in connection.select(602)}
    acknowledged = {key for key, ok in answered.items() if ok}
    assert visible == acknowledged
    assert 0 < len(acknowledged) < len(answered), "the fault did not reach the journal"
    server.kill()
    server.wrapper = ()
    with server.start(), iproto.Connection(*server.address) as connection:
        assert {row[0] for row in connection.select(602)} == acknowledged

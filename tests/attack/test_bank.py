"""Transfers between accounts by many clients at once, in interactive transactions: the total never changes in any
read, no acknowledged transfer is lost, no transfer is done by half or twice, whatever the journal does."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from tests.support import disks, iproto, strace
from tests.support.fixtures import Servers
from tests.support.process import Server
from tests.support.subjects import STAND_IN, snapshot

pytestmark = pytest.mark.skipif(STAND_IN, reason="2.6.0 has no interactive transactions over the wire")

ACCOUNTS, LEDGER = 800, 801
COUNT, EACH = 16, 1000
TOTAL = COUNT * EACH
CONFLICT, WAL_IO, CASCADE = 97, 40, 134
LOST = (CONFLICT, WAL_IO, CASCADE)
LEVELS = (0, 1, 2, 3)
"""Default, read-committed, read-confirmed, best-effort."""


def create(address: tuple[str, int]) -> None:
    with iproto.Connection(*address) as connection:
        by_balance = ["by_balance", "tree", {"unique": False}, [[1, "integer"]]]
        primary = ["primary", "tree", {"unique": True}, [[0, "unsigned"]]]
        iproto.create_space(connection, ACCOUNTS, "accounts", indexes=[primary, by_balance])
        iproto.create_space(connection, LEDGER, "ledger")
        for account in range(COUNT):
            connection.insert(ACCOUNTS, [account, EACH])


@dataclass(slots=True)
class Bank:
    """What the clients were told."""

    address: tuple[str, int]
    acked: set[int] = field(default_factory=set)
    """Numbers of the transfers whose COMMIT was acknowledged."""
    refused: set[int] = field(default_factory=set)
    """Those whose COMMIT was answered with an error: they were not done."""
    reads: int = 0
    conflicts: int = 0
    faults: list[BaseException] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    def run(self, seconds: float, seed: int, at_end: Callable[[], object] = lambda: None) -> None:
        """Clients for so long; `at_end` comes while they still work."""
        threads = [threading.Thread(target=self._guard, args=(self._teller, seed + n, n)) for n in range(6)]
        threads += [threading.Thread(target=self._guard, args=(self._auditor, seed + 100 + n, n)) for n in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        at_end()
        self.is_over.set()
        for thread in threads:
            thread.join()
        self.is_over.clear()
        if self.faults:
            raise self.faults[0]

    def _guard(self, client: Callable[[iproto.Connection, random.Random, int], None], seed: int, n: int) -> None:
        try:
            with iproto.Connection(*self.address) as connection:
                dice = random.Random(seed)
                while not self.is_over.is_set():
                    client(connection, dice, n)
        except ConnectionError:
            pass
        except BaseException as fault:
            self.faults.append(fault)

    # ---- who moves money -------------------------------------------------------------------------------

    def _teller(self, connection: iproto.Connection, dice: random.Random, n: int) -> None:
        """One transfer, with a row of the ledger, over some stream."""
        number = dice.randrange(1 << 60)
        stream = dice.randrange(1, 4)
        with contextlib.suppress(_GivenUpError):
            self._transfer(connection, dice, number, stream)
            return
        self.conflicts += 1
        connection.ask(iproto.ROLLBACK, {}, stream=stream)

    def _transfer(self, connection: iproto.Connection, dice: random.Random, number: int, stream: int) -> None:
        begin = {iproto.TXN_ISOLATION: dice.choice(LEVELS)}
        assert not connection.ask(iproto.BEGIN, begin, stream=stream).code
        source, target = dice.sample(range(COUNT), 2)
        amount = dice.randrange(1, 50)
        if dice.random() < 0.5:
            self._by_reading(connection, source, target, amount, stream)
        else:
            for account, change in ((source, -amount), (target, amount)):
                body = {iproto.SPACE_ID: ACCOUNTS, iproto.KEY: [account], iproto.TUPLE: [["+", 1, change]]}
                _told(connection.ask(iproto.UPDATE, body, stream=stream))
        body = {iproto.SPACE_ID: LEDGER, iproto.TUPLE: [number, source, target, amount]}
        _told(connection.ask(iproto.INSERT, body, stream=stream))
        if dice.random() < 0.1:
            _told(connection.ask(iproto.ROLLBACK, {}, stream=stream))
            self.refused.add(number)
            return
        reply = connection.ask(iproto.COMMIT, {}, stream=stream)
        if reply.code:
            assert reply.code in LOST, reply.answer()
            self.refused.add(number)
        else:
            self.acked.add(number)

    @staticmethod
    def _by_reading(connection: iproto.Connection, source: int, target: int, amount: int, stream: int) -> None:
        for account, change in ((source, -amount), (target, amount)):
            wanted = {iproto.SPACE_ID: ACCOUNTS, iproto.LIMIT: 1, iproto.ITERATOR: iproto.EQ, iproto.KEY: [account]}
            ((_, balance),) = _told(connection.ask(iproto.SELECT, wanted, stream=stream)).data
            body = {iproto.SPACE_ID: ACCOUNTS, iproto.TUPLE: [account, balance + change]}
            _told(connection.ask(iproto.REPLACE, body, stream=stream))

    # ---- who counts it ---------------------------------------------------------------------------------

    def _auditor(self, connection: iproto.Connection, dice: random.Random, n: int) -> None:
        """All accounts in one SELECT, or in some of one transaction."""
        if n == 0:
            rows = connection.select(ACCOUNTS, index=dice.choice((0, 1)))
        else:
            begin = {iproto.TXN_ISOLATION: dice.choice(LEVELS)}
            assert not connection.ask(iproto.BEGIN, begin, stream=1).code
            half = dice.randrange(1, COUNT)
            rows = []
            try:
                for iterator in (iproto.LT, iproto.GE):
                    body = {iproto.SPACE_ID: ACCOUNTS, iproto.ITERATOR: iterator, iproto.LIMIT: 100, iproto.KEY: [half]}
                    rows += _told(connection.ask(iproto.SELECT, body, stream=1)).data
                _told(connection.ask(iproto.COMMIT, {}, stream=1))
            except _GivenUpError:
                connection.ask(iproto.ROLLBACK, {}, stream=1)
                return
        assert len(rows) == COUNT, rows
        assert sum(balance for _, balance in rows) == TOTAL, rows
        self.reads += 1

    # ---- afterwards ------------------------------------------------------------------------------------

    def judge(self) -> None:
        """Balances are what the ledger says, and the ledger is what the clients were told."""
        with iproto.Connection(*self.address) as connection:
            ledger = connection.select(LEDGER)
            balances = dict.fromkeys(range(COUNT), EACH)
            for _, source, target, amount in ledger:
                balances[source] -= amount
                balances[target] += amount
            assert dict(connection.select(ACCOUNTS)) == balances
            done = {number for number, *_ in ledger}
            assert not self.acked - done, "acknowledged transfers are lost"
            assert not self.refused & done, "transfers that were refused are there"


class _GivenUpError(Exception):
    """A transaction lost against another one, or with the journal."""


def _told(reply: iproto.Reply) -> iproto.Reply:
    if reply.code in LOST:
        raise _GivenUpError(reply.code)
    assert not reply.code, reply.answer()
    return reply


def rounds(server: Server, bank: Bank, dice: random.Random, count: int, seconds: float) -> None:
    """Work, some with a snapshot in the middle, kill, start, judge."""
    for _ in range(count):
        server.start()
        bank.judge()
        if dice.random() < 0.5:
            bank.run(seconds / 2, dice.randrange(1 << 30))
            with iproto.Connection(*server.address) as connection, contextlib.suppress(iproto.ServerError):
                snapshot(connection)
        bank.run(seconds, dice.randrange(1 << 30), server.kill)
    server.wrapper = ()
    server.start()
    bank.judge()
    print(f"{len(bank.acked)} done, {len(bank.refused)} refused, {bank.conflicts} conflicts, {bank.reads} full reads")


@pytest.fixture
def dice() -> random.Random:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    return random.Random(seed)


def test_the_total_never_changes(servers: Servers, dice: random.Random) -> None:
    server = servers.subject("bank", wal_max_size=1 << 16)
    with server.start():
        create(server.address)
    bank = Bank(server.address)
    rounds(server, bank, dice, 2, 1.5)
    assert len(bank.acked) > 50
    assert bank.reads > 50


@pytest.mark.skipif(not strace.available(), reason="strace is absent or may not trace here")
@pytest.mark.parametrize("fault", ["error=EIO", "error=ENOSPC:delay_enter=3000"])
def test_the_total_never_changes_while_writes_fail(servers: Servers, dice: random.Random, fault: str) -> None:
    server = servers.subject("bank")
    with server.start():
        create(server.address)
    bank = Bank(server.address)
    server.wrapper = strace.wrapper(strace.inject("pwrite64", f"{fault}:when=4+{dice.randrange(3, 9)}"))
    rounds(server, bank, dice, 1, 2.0)
    assert len(bank.acked) > 20


def test_the_total_never_changes_on_a_full_disk(servers: Servers, dice: random.Random, tmp_path: object) -> None:
    with disks.small_tmpfs(servers.directory / "small", 2) as small:
        server = servers.subject(small / "data", memtx_dir=str(servers.directory), wal_max_size=1 << 20)
        with server.start():
            create(server.address)
        bank = Bank(server.address)
        ballast = small / "ballast"

        def fill_and_free() -> None:
            for _ in range(6):
                with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                    while True:
                        file.write(bytes(1 << 12))
                time.sleep(0.15)
                ballast.unlink()
                time.sleep(0.15)

        server.start()
        bank.run(0.2, dice.randrange(1 << 30), fill_and_free)
        server.kill()
        server.start()
        bank.judge()
        print(f"{len(bank.acked)} done, {len(bank.refused)} refused, {bank.reads} full reads")
        assert len(bank.acked) > 20
        server.kill()


@pytest.mark.soak
def test_the_total_never_changes_soak(servers: Servers, dice: random.Random) -> None:
    for n in range(40):
        server = servers.subject(f"bank-{n}", wal_max_size=1 << 16)
        with server.start():
            create(server.address)
        if n % 2 and strace.available():
            server.wrapper = strace.wrapper(strace.inject("pwrite64", f"error=EIO:when=4+{dice.randrange(2, 30)}"))
        rounds(server, Bank(server.address), dice, 4, 8.0)
        server.kill()

"""The ring, and readers of the journal that go from files to the ring and back."""

from __future__ import annotations

import asyncio
import errno
import itertools
from typing import Any

import pytest
from tests.journal.nodes import FailOn, Several
from tests.replication.feeding import DATA, REPLICA, Master, feed, ids

from headwater.errors import BoxError, Er, XlogGapError
from headwater.kernels import frame_rows
from headwater.replication.cursor import Cursor
from headwater.replication.logwalk import follow
from headwater.replication.ship import Piece, Portion, Ring, covers
from headwater.typing import VCLOCK_MAX
from headwater.vclock import VClock
from headwater.wire.constants import Flag, Type
from headwater.wire.msgpack import pack
from headwater.wire.xrow import Row, decode_row, encode_row

NO_FAULTS = Several()

# ---- the ring --------------------------------------------------------------------------------------------------


def lsns(**components: int) -> list[int]:
    """lsns(_1=5): component 1 is 5."""
    out = [0] * VCLOCK_MAX
    for name, lsn in components.items():
        out[int(name[1:])] = lsn
    return out


def batch(first: int, count: int = 1, replica_id: int = 1, size: int = 0) -> bytes:
    """Transactions of one row."""
    body = pack({0x10: 512, 0x21: [first, "x" * size]})
    return b"".join(
        encode_row(Row(Type.REPLACE, replica_id, 0, lsn, 1.0, lsn, Flag.COMMIT, body))
        for lsn in range(first, first + count)
    )


def ring_of(*ends: int, limit: int = 1 << 20, size: int = 0) -> Ring:
    """Batches that lead component 1 from one of these LSNs to the next."""
    ring = Ring(limit)
    for before, after in itertools.pairwise(ends):
        ring.add(Piece(lsns(_1=before), batch(before + 1, after - before, size=size), lsns(_1=after), None))
    return ring


def test_a_ring_finds_the_batch_behind_a_position() -> None:
    ring = ring_of(0, 3, 4, 9)
    assert [ring.find(position) for position in (0, 2, 3, 4, 8)] == [0, 0, 1, 2, 2]
    assert ring.find(9) is None, "nothing is behind the end"
    assert ring_of(5, 7).find(4) is None, "what lies between is not here"


def test_a_ring_finds_the_newest_batch_that_somebody_needs() -> None:
    ring = Ring()
    ring.add(Piece(lsns(_1=1), batch(2), lsns(_1=2), None))
    ring.add(Piece(lsns(_1=2), batch(1, replica_id=2), lsns(_1=2, _2=1), None))
    ring.add(Piece(lsns(_1=2, _2=1), batch(3), lsns(_1=3, _2=1), None))
    assert ring.find_vclock(lsns(_1=1)) == 0
    assert ring.find_vclock(lsns(_1=9)) == 1, "a row of 2 is missing"
    assert ring.find_vclock(lsns(_1=1, _2=5)) == 0
    assert ring.find_vclock(lsns(_1=2, _2=1)) == 2
    assert ring.find_vclock(lsns(_2=1)) is None


def test_a_ring_drops_its_oldest_batches_and_keeps_their_numbers() -> None:
    ring = ring_of(*range(11), limit=5 * 1700, size=1000)
    assert ring.size <= ring.limit
    assert 0 < len(ring) < 10
    oldest = ring.get(ring.first)
    assert oldest is not None
    assert (ring.first, oldest.begin) == (10 - len(ring), 10 - len(ring))
    assert ring.get(ring.first - 1) is None
    assert ring.get(10) is None


def test_a_batch_that_is_too_large_stays_until_the_next() -> None:
    ring = ring_of(0, 1, limit=10, size=1000)
    assert len(ring) == 1
    ring.add(Piece(lsns(_1=1), batch(2), lsns(_1=2), None))
    assert len(ring) == 1
    assert ring.find(1) == 1


def test_numbers_go_on_behind_a_clear() -> None:
    ring = ring_of(0, 1, 2)
    ring.clear()
    ring.add(Piece(lsns(_1=2), batch(3), lsns(_1=3), None))
    assert ring.find(2) == 2
    assert ring.get(0) is None


def test_a_batch_is_framed_once() -> None:
    piece = Piece(lsns(), batch(1, 3), lsns(_1=3), None)
    assert piece.portion is piece.portion
    assert len(piece.portion.frames) == 3


def test_a_portion_knows_what_not_every_peer_reads() -> None:
    promote = encode_row(Row(Type.RAFT_PROMOTE, 1, 0, 2, 1.0, 2, Flag.COMMIT, pack({2: 0, 3: 0, 0x53: 1})))
    confirm = encode_row(Row(Type.RAFT_CONFIRM, 1, 0, 3, 1.0, 3, Flag.COMMIT, pack({2: 1, 3: 1})))
    assert Portion(frame_rows(batch(1))).kinds == frozenset()
    assert Portion(frame_rows(batch(1) + promote + confirm)).kinds == {Type.RAFT_PROMOTE, Type.RAFT_CONFIRM}


def test_the_vclock_behind_some_rows() -> None:
    frames = frame_rows(batch(4, 2) + batch(7, replica_id=3))
    assert follow(frames, lsns(_0=2, _1=3)) == lsns(_0=2, _1=5, _3=7)


def test_component_0_is_nobody_elses() -> None:
    assert covers(lsns(_1=3), lsns(_0=9, _1=3))
    assert not covers(lsns(_0=9, _1=3), lsns(_1=4))


# ---- readers ---------------------------------------------------------------------------------------------------


class Drain:
    """Reads a cursor to its end, again and again, as a relay does."""

    def __init__(self, master: Master, have: VClock | None = None) -> None:
        self.master = master
        self.keys: list[int] = []
        self.near = self.far = 0
        """Portions from memory, and from files."""
        start = have or VClock()
        start.reset(0, master.box.journal.vclock.get(0))
        self.cursor = Cursor(master.box, start, lambda: None)

    async def read(self, portions: int = 1 << 30) -> list[int]:
        """All keys so far. The number of portions limits this call."""
        cursor = self.cursor
        while portions and cursor.is_behind:
            portion = cursor.near()
            self.near += portion is not None
            if portion is None:
                portion = await cursor.far()
                self.far += portion is not None
            if portion is not None:
                portions -= 1
                data, _ = portion.frames.pick(cursor.have, 1, 0, 0, 0)
                self.keys += ids(rows_of(data))
        return self.keys


def rows_of(data: bytes) -> list[Row]:
    found = []
    at = 0
    while at < len(data):
        end = at + 5 + int.from_bytes(data[at + 1 : at + 5], "big")
        found.append(decode_row(data, at + 5, end, exact=True)[0])
        at = end
    return found


def test_from_the_files_of_many_rotations() -> None:
    async def test(master: Master) -> None:
        for key in range(300):
            await master.write([key, "x" * 100])
        assert len(master.box.journal.entries) > 10
        drain = Drain(master)
        assert await drain.read() == list(range(300))
        assert drain.far > 0
        assert drain.near == 0
        drain.cursor.close()

    feed(test, wal_max_size=2000)


def test_a_reader_that_has_everything_opens_no_file() -> None:
    async def test(master: Master) -> None:
        await master.write(*([key] for key in range(100)))
        drain = Drain(master, master.box.journal.vclock)
        assert not drain.cursor.is_behind
        await master.write([100])
        assert await drain.read() == [100]
        assert (drain.near, drain.far) == (1, 0)
        drain.cursor.close()

    feed(test)


def test_a_reader_that_comes_back_soon_begins_in_the_ring() -> None:
    async def test(master: Master) -> None:
        other = Drain(master, master.box.journal.vclock)
        await master.write([1])
        have = master.box.journal.vclock
        await master.write([2])
        await master.write([3])
        drain = Drain(master, have)
        assert await drain.read() == [2, 3]
        assert (drain.near, drain.far) == (2, 0)
        drain.cursor.close()
        other.cursor.close()

    feed(test)


@pytest.mark.parametrize("ring", [0, 3000, 20_000])
def test_no_row_is_lost_or_sent_twice_between_files_and_ring(ring: int) -> None:
    async def test(master: Master) -> None:
        master.box.ship.ring.limit = ring
        dice = master.simulation.dice("reader")
        drain = Drain(master)
        done = asyncio.Event()

        async def write() -> None:
            for key in range(0, 2000, 5):
                master.prepare(DATA, *([each, "x" * 50] for each in range(key, key + 5)))
                if dice.random() < 0.5:
                    await master.box.settled()
                if dice.random() < 0.02:
                    await master.box.checkpoint()
            await master.box.settled()
            done.set()

        master.world.tasks.spawn(write(), "writer")
        while not done.is_set():
            await drain.read(dice.randrange(1, 4))
            await asyncio.sleep(dice.random() * 0.01)
        assert await drain.read() == list(range(2000))
        if ring:
            assert drain.near > 0
        assert drain.far > 0
        drain.cursor.close()

    feed(test, wal_max_size=5000, checkpoint_count=100)


def test_a_ring_that_went_on_without_a_reader_is_left_at_its_place_in_the_file() -> None:
    async def test(master: Master) -> None:
        drain = Drain(master, master.box.journal.vclock)
        master.box.ship.ring.limit = 4000
        await master.write([0, "x"])
        await drain.read()
        assert drain.near == 1
        for key in range(1, 50):
            await master.write([key, "x" * 100])
        opened = watch_reads(master)
        assert await drain.read() == list(range(50))
        assert drain.far >= 1
        assert min(offset for offset in opened if offset) > 300, "the file is entered where the ring was left"
        drain.cursor.close()

    feed(test)


def watch_reads(master: Master) -> list[int]:
    """Offsets at which files are read from now on."""
    disk: Any = master.world.disk
    offsets: list[int] = []
    real = disk.open

    def open_file(path: str) -> Any:
        file = real(path)
        read = file.read_at

        def read_at(offset: int, size: int) -> bytes:
            offsets.append(offset)
            data: bytes = read(offset, size)
            return data

        file.read_at = read_at
        return file

    disk.open = open_file
    return offsets


def test_rows_that_could_not_be_written_are_not_sent_although_the_file_holds_them() -> None:
    """The append fails when all is there, and cutting the file back fails, too."""

    async def test(master: Master) -> None:
        await master.write([1])
        disk: Any = master.world.disk
        disk.faults = Several(FailOn("append", 0, part=1 << 30), FailOn("truncate", -1))
        with pytest.raises(BoxError) as told:
            await master.write([2])
        assert told.value.code == Er.WAL_IO
        drain = Drain(master)
        assert await drain.read() == [1]
        disk.faults = NO_FAULTS
        await master.write([3])
        assert await drain.read() == [1, 3]
        drain.cursor.close()
        again = Drain(master)
        assert await again.read() == [1, 3]
        again.cursor.close()

    feed(test)


def test_files_of_the_life_before() -> None:
    async def test(master: Master) -> None:
        await master.write([1], [2])
        await master.box.checkpoint()
        await master.write([3])
        await master.restart()
        drain = Drain(master)
        assert await drain.read() == [1, 2, 3]
        await master.write([4])
        assert await drain.read() == [1, 2, 3, 4]
        drain.cursor.close()
        again = Drain(master)
        assert await again.read() == [1, 2, 3, 4]
        again.cursor.close()

    feed(test)


def test_a_torn_end_of_the_life_before_is_not_read() -> None:
    async def test(master: Master) -> None:
        await master.write([1])
        path = master.box.journal.entries[-1].path
        master.machine.kill()
        inode = master.machine.platter.names[path]
        inode.data += b"\xd5\xba\x0b\xab\x20\x00"
        inode.pending.clear()
        inode.durable = bytearray(inode.data)
        await master.start()
        drain = Drain(master)
        assert await drain.read() == [1]
        await master.write([2])
        assert await drain.read() == [1, 2]
        drain.cursor.close()

    feed(test)


def test_a_file_that_was_removed_is_a_gap() -> None:
    async def test(master: Master) -> None:
        for key in range(100):
            await master.write([key, "x" * 100])
        drain = Drain(master)
        await drain.read(2)
        lost = master.box.journal.entries[6]
        master.world.disk.unlink(lost.path)
        with pytest.raises(XlogGapError) as told:
            await drain.read()
        assert "Missing .xlog file between LSN" in told.value.message
        assert str(master.box.journal.entries[7].vclock) in told.value.message
        assert drain.keys == list(range(len(drain.keys)))
        drain.cursor.close()

    feed(test, wal_max_size=2000)


def test_rows_that_were_collected_are_a_gap_at_once() -> None:
    async def test(master: Master) -> None:
        await master.write([1])
        await master.box.checkpoint()
        await master.write([2])
        await master.box.checkpoint()
        assert len(master.box.journal.entries) < 2
        with pytest.raises(XlogGapError):
            Drain(master)
        assert not master.box.ship._watchers

    feed(test, checkpoint_count=1)


def test_the_ring_is_empty_while_nobody_is_subscribed() -> None:
    async def test(master: Master) -> None:
        await master.write([1])
        assert len(master.box.ship.ring) == 0
        drain = Drain(master, master.box.journal.vclock)
        await master.write([2])
        assert len(master.box.ship.ring) == 1
        drain.cursor.close()
        assert len(master.box.ship.ring) == 0

    feed(test)


def test_a_disk_that_cannot_be_read_is_told_by_name() -> None:
    async def test(master: Master) -> None:
        await master.member()
        await master.write([1])
        disk: Any = master.world.disk
        disk.faults = FailOn("read", -1, errno=errno.EIO)
        peer = await master.subscriber(REPLICA)
        error = (await peer.until(lambda row: row.is_error))[-1]
        assert error.type & 0x7FFF == Er.SYSTEM
        disk.faults = NO_FAULTS
        await peer.to_end()
        assert ids(await (await master.subscriber(REPLICA)).rows(master.box.journal.vclock.get(1))) == [1]

    feed(test)

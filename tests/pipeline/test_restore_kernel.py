"""The kernels between logs and states: the compiled ones and their plain twins answer alike, and as they should."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest

from headwater.kernels import Memtx
from headwater.kernels.columnplan import RowError
from headwater.typing import FieldType
from headwater.wire.constants import Flag, Type
from headwater.wire.msgpack import pack
from headwater.wire.synchro import Synchro, encode_synchro
from headwater.wire.xrow import Row, decode_row, encode_packet, encode_row

FREE = [(1 << 63) - 1] * 32
NONE = [0] * 32
SPACES = (512, 513, 514)
KEY = [(0, int(FieldType.UNSIGNED), False, None), (2, int(FieldType.STRING), False, None)]


@pytest.fixture(params=("_split", "pure.split"))
def k(request: pytest.FixtureRequest) -> ModuleType:
    return twin(request.param)


def twin(name: str) -> ModuleType:
    try:
        return importlib.import_module(f"headwater.kernels.{name}")
    except ImportError:
        pytest.skip("the compiled kernels are not built here")


def change(type_: Type, lsn: int, space: int = 512, *, replica_id: int = 1, **more: Any) -> Row:
    """A row of its own transaction, or with tsn and flags a part of one."""
    names = {"tuple": 0x21, "key": 0x20, "ops": 0x28, "index": 0x11}
    body = {0x10: space} | {names[name]: more.pop(name) for name in list(more) if name in names}
    more = {"tsn": lsn, "flags": 1, "timestamp": float(lsn)} | more
    return Row(type_, replica_id, lsn=lsn, body=pack(body), **more)


def encoded(rows: Sequence[Row]) -> bytes:
    return b"".join(map(encode_row, rows))


# ---- a survey --------------------------------------------------------------------------------------


def test_a_range_ends_before_the_first_transaction_that_reaches_behind_it(k: ModuleType) -> None:
    rows = [
        change(Type.REPLACE, 1, tuple=[1]),
        change(Type.REPLACE, 2, tuple=[2], tsn=2, flags=0),
        change(Type.REPLACE, 3, tuple=[3], tsn=2, flags=1),
        change(Type.REPLACE, 4, tuple=[4]),
    ]
    data = encoded(rows)
    high = list(FREE)
    high[1] = 2
    made = k.Survey(NONE, high, float("inf"), 511)
    assert made.walk(data, 0) == (len(encoded(rows[:1])), 1)
    assert (made.rows, made.kept, made.last(), made.spaces()) == (1, 1, [(1, 1)], {512: (1, len(encoded(rows[:1])))})


def test_a_range_ends_before_the_first_transaction_of_a_later_time(k: ModuleType) -> None:
    rows = [
        change(Type.REPLACE, 1, tuple=[1]),
        change(Type.REPLACE, 2, tuple=[2], tsn=2, flags=0, timestamp=2.0),
        change(Type.REPLACE, 3, tuple=[3], tsn=2, flags=1, timestamp=9.0),
    ]
    made = k.Survey(NONE, FREE, 5.0, 511)
    assert made.walk(encoded(rows), 0) == (len(encoded(rows[:1])), 1)
    assert (made.begin, made.end) == (1.0, 1.0)


def test_rows_before_the_range_are_counted_and_passed_over(k: ModuleType) -> None:
    low = list(NONE)
    low[1] = 1
    made = k.Survey(low, FREE, float("inf"), 511)
    made.walk(encoded([change(Type.INSERT, 1, 280, tuple=[1]), change(Type.INSERT, 2, 288, tuple=[2])]), 0)
    assert (made.rows, made.kept) == (2, 1)
    assert [number for number, _, _ in made.take_notable()] == [1]


def test_a_confirm_ends_the_waiting_of_what_it_names(k: ModuleType) -> None:
    waits = Flag.COMMIT | Flag.WAIT_SYNC | Flag.WAIT_ACK
    rows = [change(Type.REPLACE, lsn, tuple=[lsn], flags=waits) for lsn in (1, 2, 3)]
    rows.append(change(Type.REPLACE, 4, tuple=[4], flags=Flag.COMMIT | Flag.WAIT_SYNC))
    confirm = encode_synchro(Synchro(Type.RAFT_CONFIRM, 1, 2, origin_id=1))
    confirm.lsn, confirm.tsn, confirm.flags = 5, 5, 1
    made = k.Survey(NONE, FREE, float("inf"), 511)
    made.walk(encoded([*rows, confirm]), 0)
    assert made.waiting() == [(1, 3, 3, 2, True), (1, 4, 4, 3, False)]
    assert made.confirmed() == [(1, 2)]


def test_a_rollback_is_told_at_once(k: ModuleType) -> None:
    rollback = encode_synchro(Synchro(Type.RAFT_ROLLBACK, 1, 2, origin_id=1))
    rollback.lsn, rollback.tsn, rollback.flags = 2, 2, 1
    data = encoded([change(Type.REPLACE, 1, tuple=[1]), rollback])
    made = k.Survey(NONE, FREE, float("inf"), 511)
    assert made.walk(data + encoded([change(Type.REPLACE, 3, tuple=[1])]), 0) == (len(data), 2)
    ((number, begin, end),) = made.take_notable()
    assert (number, decode_row(data, begin)[0].type, end) == (1, Type.RAFT_ROLLBACK, len(data))


# ---- splitting -------------------------------------------------------------------------------------


def test_rows_go_where_their_keys_belong(k: ModuleType) -> None:
    splitter = k.Splitter(4)
    splitter.set_space(512, KEY, [pack([10, ""]), pack([10, "m"])], 1, 0)
    rows = [
        change(Type.INSERT, 1, tuple=[9, None, "z"]),
        change(Type.REPLACE, 2, tuple=[10, None, "a"]),
        change(Type.DELETE, 3, key=[10, "m"]),
        change(Type.UPDATE, 4, key=[10, "b"], tuple=[["=", 1, 1]]),
        change(Type.UPSERT, 5, tuple=[11, 0, ""], ops=[]),
        change(Type.DELETE, 6, key=["any"], index=1),
        change(Type.INSERT, 7, 513, tuple=[1, 1, "elsewhere"]),
    ]
    data = encoded(rows)
    assert splitter.split(data, 0, 100) == (len(data), 7)
    assert splitter.numbers() == {512: (9, 10)}
    taken = {bucket: [decode_row(part, at)[0].lsn for at in starts(part)] for bucket, part, _ in splitter.take()}
    assert taken == {1: [1], 2: [2, 4], 3: [3, 5]}
    assert splitter.size == 0


def starts(data: bytes) -> list[int]:
    out, at = [], 0
    while at < len(data):
        out.append(at)
        at = decode_row(data, at)[1]
    return out


def test_what_was_taken_back_and_what_is_out_of_range_is_left_out(k: ModuleType) -> None:
    splitter = k.Splitter(1)
    splitter.set_space(512, KEY, [], 0)
    splitter.set_dropped([(1, 4, 5), (2, 1, 1)])
    low, high = list(NONE), list(FREE)
    low[1], high[1] = 1, 6
    splitter.set_range(low, high)
    rows = [change(Type.DELETE, lsn, key=[lsn, ""]) for lsn in range(1, 8)]
    rows.append(change(Type.DELETE, 1, key=[1, ""], replica_id=2))
    splitter.split(encoded(rows), 0, 100)
    ((_, data, count),) = splitter.take()
    assert [decode_row(data, at)[0].lsn for at in starts(data)] == [2, 3, 6]
    assert count == 3


def test_split_rows_are_what_a_store_applies(k: ModuleType) -> None:
    splitter = k.Splitter(1)
    splitter.set_space(512, KEY[:1], [], 0)
    rows = [change(Type.INSERT, 1, tuple=[1], tsn=1, flags=0), change(Type.DELETE, 2, key=[1], tsn=1, flags=1)]
    rows.append(change(Type.REPLACE, 3, tuple=[3, "x"], flags=Flag.COMMIT | Flag.WAIT_SYNC | Flag.WAIT_ACK))
    splitter.split(encoded(rows), 0, 100)
    ((_, data, _),) = splitter.take()
    from headwater.kernels import KeyDef, KeyPart

    memtx = Memtx()
    memtx.undo_enabled = False
    space = memtx.add_space(512)
    space.add_index(0, KeyDef([KeyPart(0, int(FieldType.UNSIGNED))]), True)
    space.fast = True
    assert memtx.apply(data, 0, len(data), True) == (len(data), 3)
    assert list(memtx.open_view([512]).tuples(512)) == [pack([3, "x"])]


def test_rows_of_snapshots_are_numbered_anew(k: ModuleType) -> None:
    rows = [Row(Type.INSERT, lsn=lsn, group_id=lsn % 2, timestamp=2.5, body=pack({0x10: 512})) for lsn in (7, 8, 9)]
    data = encoded(rows)
    first, at, count = k.number(data, 0, 0, 1)
    assert (first, count) == (encode_row(Row(Type.INSERT, group_id=1, timestamp=2.5, body=rows[0].body)), 1)
    rest, end, count = k.number(data, at, 300, 1 << 20)
    assert (end, count) == (len(data), 2)
    assert [decode_row(rest, at)[0].lsn for at in starts(rest)] == [300, 301]


def test_keys_are_taken_out_of_tuples(k: ModuleType) -> None:
    rows = [
        change(Type.INSERT, 1, tuple=[1, "b", "c"]),
        change(Type.INSERT, 2, tuple=[1]),
        change(Type.DELETE, 3, key=["c", 1]),
        change(Type.DELETE, 4, 600, key=[1]),
    ]
    assert k.keys_of(encoded(rows), 0, {512: [2, 0]}) == [(512, pack(["c", 1])), (512, pack(["c", 1]))]


def test_packets_become_rows_that_wait_for_nobody(k: ModuleType) -> None:
    waits = Flag.COMMIT | Flag.WAIT_SYNC | Flag.WAIT_ACK
    rows = [
        change(Type.REPLACE, 5, tuple=[1], tsn=5, flags=0, sync=9),
        change(Type.NOP, 6, tsn=5, flags=1, sync=9),
        change(Type.REPLACE, 7, tuple=[2], flags=waits, sync=9),
    ]
    rows[1].body = b""
    packets = b"".join(map(encode_packet, rows))
    made, at, count = k.unframe(packets + b"\xce\x00", 0, -1)
    assert (at, count) == (len(packets), 3)
    for row in rows:
        row.sync, row.flags = 0, row.flags & 1
    assert made == encoded(rows)


def test_packets_of_a_snapshot_are_numbered(k: ModuleType) -> None:
    rows = [Row(Type.INSERT, timestamp=2.5, body=pack({0x10: 512, 0x21: [key]}), sync=3) for key in (1, 2)]
    made, _, count = k.unframe(b"".join(map(encode_packet, rows)), 0, 256)
    assert [decode_row(made, at)[0].lsn for at in starts(made)] == [256, 257]
    assert k.tuples_of(made, 0) == (b"\0\0\0\0\2\0\0\0\4\0\0\0", pack([1]) + pack([2]))
    assert count == 2


# ---- twins -----------------------------------------------------------------------------------------


def answer(call: Callable[[], Any]) -> Any:
    """What it gives, or which row it refuses."""
    try:
        return call()
    except RowError as error:
        return (error.reason, error.offset, error.lsn)


def random_rows(dice: random.Random) -> list[Row]:
    rows = []
    lsns = {1: 0, 2: 0}
    while len(rows) < 40:
        replica_id, size = dice.choice((1, 2)), dice.choice((1, 1, 1, 3))
        tsn = lsns[replica_id] + 1
        for place in range(size):
            lsns[replica_id] += 1
            flags = (dice.choice((0, 0, 2, 6)) | 1) if place == size - 1 else 0
            rows.append(random_row(dice, lsns[replica_id], replica_id, tsn, flags))
    return rows


def random_row(dice: random.Random, lsn: int, replica_id: int, tsn: int, flags: int) -> Row:
    space = dice.choice((*SPACES, 280))
    value = [dice.choice((dice.randrange(30), -5, 1 << 63, 1.5, "x", None)), None, dice.choice(("", "k", "x", 7))]
    key = [value[0], value[2]]
    kind = dice.choice((Type.INSERT, Type.REPLACE, Type.DELETE, Type.UPDATE, Type.UPSERT, Type.NOP, 18, 40, 41, 30))
    more: dict[str, Any] = {"tsn": tsn, "flags": flags, "timestamp": dice.choice((0.0, 1.0, lsn * 1.0))}
    if kind in (Type.INSERT, Type.REPLACE):
        return change(kind, lsn, space, replica_id=replica_id, tuple=value[: dice.choice((1, 3, 3, 3))], **more)
    if kind == Type.UPSERT:
        return change(kind, lsn, space, replica_id=replica_id, tuple=value, ops=[], **more)
    if kind in (Type.DELETE, Type.UPDATE, 18):
        return change(Type(kind), lsn, space, replica_id=replica_id, key=key, index=dice.choice((0, 0, 1)), **more)
    body = b"" if kind == Type.NOP else pack({2: dice.choice((1, 2)), 3: lsn - 1})
    return Row(kind, replica_id, lsn=lsn, body=body, **more)


def surveyed(k: ModuleType, data: bytes, high: Sequence[int], more: Sequence[Any]) -> list[Any]:
    made = k.Survey(NONE, high, 1000.0, 511, *more)
    told: list[Any] = []
    at = 0
    while True:
        at, why = made.walk(data, at)
        told += [at, why, made.take_notable(), made.take_samples(), made.waiting(), made.confirmed()]
        if why != 2:
            break
        made.new_queue()
    return [*told, made.rows, made.kept, made.skipped, made.begin, made.end, made.last(), made.spaces()]


def parted(k: ModuleType, data: bytes) -> list[Any]:
    splitter = k.Splitter(8)
    splitter.set_space(512, KEY, [pack([5, "k"]), pack([20, ""])], 0, 0)
    splitter.set_space(513, [(2, int(FieldType.SCALAR), True, None)], [pack([7])], 3)
    splitter.set_space(514, [(2, int(FieldType.STRING), False, bytes.swapcase)], [pack(["K"])], 5)
    splitter.set_dropped([(1, 3, 5)])
    first = splitter.split(data, 0, 10)
    splitter.put(7, b"marker")
    splitter.drop_space(513)
    return [first, splitter.split(data, first[0], 1000), splitter.size, splitter.numbers(), splitter.take()]


@pytest.mark.parametrize("seed", range(120))
def test_the_twins_answer_alike(seed: int) -> None:
    native, pure = twin("_split"), twin("pure.split")
    dice = random.Random(seed)
    rows = random_rows(dice)
    data, packets = encoded(rows), b"".join(map(encode_packet, rows))
    if seed % 3 == 0:
        place = dice.randrange(len(data))
        data = data[:place] + bytes([dice.randrange(256)]) + data[place + dice.choice((1, 1, 2)) :]
    high = list(FREE)
    high[1] = dice.choice((5, 30, 1000))
    more = dice.choice(((), ((512,),), ((513,), 100), ((), 0, True)))
    for call in (
        lambda k: surveyed(k, data, high, more),
        lambda k: parted(k, data),
        lambda k: k.number(data, 0, 100, 500),
        lambda k: k.keys_of(data, 0, {512: [0, 2], 513: [1]}),
        lambda k: k.tuples_of(data, 0),
        lambda k: k.unframe(packets, 0, -1),
        lambda k: k.unframe(packets[:-3], 0, 7),
    ):
        assert answer(lambda call=call: call(native)) == answer(lambda call=call: call(pure)), f"seed {seed}"

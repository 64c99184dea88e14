"""The machines of conflicts, by values: stamps, the clock for rows, places of keys, files of the quarantine."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.replication.fakemaster import dml, insert

from headwater.errors import BoxError, Er, er
from headwater.options import Options
from headwater.replication.conflict import KEEP, TAKE, Evict, Put, Refusal, Rival, Sight
from headwater.replication.lastwrite import LastWriteWins, Place, RowClock, Stamp, is_stamped, place_of
from headwater.replication.quarantine import Quarantine, numbers, record
from headwater.sim import Simulation
from headwater.store.collation import Collations
from headwater.store.definitions import PartDef
from headwater.store.space import Space
from headwater.typing import FieldType
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.xrow import Row

SPACE = 600


def space_of(*parts: PartDef) -> Space:
    """As far as a judge looks."""
    found: Any = SimpleNamespace(id=SPACE, name="t", pk=SimpleNamespace(parts=parts))
    order = SimpleNamespace(extract=lambda data: pack(unpack(data)[: len(parts)]))
    found.kernel = SimpleNamespace(index=lambda index_id: SimpleNamespace(key_def=order))
    return cast(Space, found)


ONE = space_of(PartDef(0, FieldType.UNSIGNED))


class Judged:
    """A judge and what it knows."""

    def __init__(self, known: dict[int, Stamp] | None = None, horizon: float = 0.0) -> None:
        self.clock = RowClock(lambda: 100.0)
        self.noted: dict[Place, Stamp] = {}
        stamps = {(SPACE, pack([key])): stamp for key, stamp in (known or {}).items()}
        self.judge = LastWriteWins(
            Options.load({}),
            self.clock,
            Collations,
            stamps.get,
            lambda txn, place, stamp: self.noted.update({place: stamp}),
            lambda: horizon,
        )
        self.judge.begin()

    def sees(self, row: Row, old: list[Any] | None, new: list[Any] | None, *rivals: list[Any]) -> object:
        key = pack([(old or new or unpack(row.body)[Key.KEY])[0]])
        there = tuple(Rival("sk", pack(rival)) for rival in rivals)
        packed = [None if each is None else pack(each) for each in (old, new)]
        return self.judge.sees(row, Sight(ONE, key, packed[0], packed[1], lambda: there))

    def seal(self) -> dict[int, Stamp]:
        self.judge.seal(cast(Any, None))
        return {unpack(key)[0]: stamp for (_, key), stamp in self.noted.items()}


def row(kind: Type, time: float, origin: int, key: int = 1) -> Row:
    made = dml(kind, SPACE, 5, {int(Key.KEY): [key]}, id=origin)
    made.timestamp = time
    return made


@pytest.mark.parametrize(
    ("known", "time", "origin", "wins"),
    [
        (None, 5.0, 1, True),
        (Stamp(4.0, 9), 5.0, 1, True),
        (Stamp(6.0, 1), 5.0, 2, False),
        (Stamp(5.0, 1), 5.0, 2, True),
        (Stamp(5.0, 3), 5.0, 2, False),
        (Stamp(5.0, 2), 5.0, 2, True),
    ],
    ids=["nothing known", "older", "newer", "tie, smaller id", "tie, greater id", "same origin: later row"],
)
def test_the_greater_stamp_wins(known: Stamp | None, time: float, origin: int, wins: bool) -> None:
    judged = Judged({} if known is None else {1: known})
    answer = judged.sees(row(Type.REPLACE, time, origin), [1, "old"], [1, "new"])
    assert answer == (TAKE if wins else KEEP)
    assert judged.seal() == ({1: Stamp(time, origin)} if wins else {})


def test_a_delete_leaves_a_stamp_even_if_it_finds_nothing() -> None:
    judged = Judged()
    assert judged.sees(row(Type.DELETE, 5.0, 2), None, None) == TAKE
    assert judged.seal() == {1: Stamp(5.0, 2)}


def test_rows_of_one_transaction_follow_each_other() -> None:
    judged = Judged({1: Stamp(4.0, 1)})
    assert judged.sees(row(Type.DELETE, 5.0, 2), [1], None) == TAKE
    assert judged.sees(row(Type.INSERT, 5.0, 2), None, [1, 2]) == TAKE
    judged.judge.begin()
    assert judged.seal() == {}, "it was taken back"


def test_an_update_becomes_a_whole_tuple_and_one_that_finds_nothing_nothing() -> None:
    judged = Judged()
    assert judged.sees(row(Type.UPDATE, 5.0, 2), [1, 1], [1, 2]) == Put(pack([1, 2]))
    assert judged.sees(row(Type.UPDATE, 5.0, 2, key=7), None, None) == KEEP
    assert judged.seal() == {1: Stamp(5.0, 2)}


@pytest.mark.parametrize(("rival", "gives_way"), [(Stamp(4.0, 1), [2]), (Stamp(6.0, 1), [1]), (None, [2])])
def test_of_two_tuples_that_exclude_each_other_the_older_gives_way(rival: Stamp | None, gives_way: list[int]) -> None:
    judged = Judged({} if rival is None else {2: rival})
    with pytest.raises(Evict) as raised:
        judged.sees(row(Type.REPLACE, 5.0, 2), None, [1, 9], [2, 9])
    assert [unpack(key)[0] for key in raised.value.keys] == gives_way


def test_what_is_forgotten_is_not_guessed() -> None:
    judged = Judged({2: Stamp(90.0, 1)}, horizon=50.0)
    with pytest.raises(BoxError, match="replication_conflict_horizon"):
        judged.sees(row(Type.REPLACE, 49.0, 2), None, [1])
    assert judged.sees(row(Type.REPLACE, 51.0, 2), None, [1]) == TAKE
    assert judged.sees(row(Type.REPLACE, 49.0, 2, key=2), [2], [2]) == KEEP, "this one is known"


def test_the_clock_for_rows_goes_on_behind_all_that_it_saw() -> None:
    now = [100.0]
    clock = RowClock(lambda: now[0])
    assert clock.time() == 100.0
    now[0] = 99.0
    assert clock.time() == 100.0, "never back"
    clock.saw(150.0)
    assert clock.time() == math.nextafter(150.0, math.inf)
    clock.saw(120.0)
    now[0] = 200.0
    assert clock.time() == 200.0


def test_equal_keys_have_one_place() -> None:
    number = space_of(PartDef(0, FieldType.NUMBER))
    places = {place_of(number, pack([value]), Collations()) for value in (1, 1.0, Decimal(1), Decimal("1.0"))}
    places.add(place_of(number, b"\x91\xcd\x00\x01", Collations()))
    assert len(places) == 1
    half = {place_of(number, pack([value]), Collations()) for value in (0.5, Decimal("0.5"))}
    assert len(half) == 1
    assert half.isdisjoint(places)
    text = space_of(PartDef(0, FieldType.STRING, collation=2))
    folds = cast(Collations, SimpleNamespace(sort_key=lambda number: bytes.lower if number == 2 else None))
    assert place_of(text, pack(["Ann"]), folds) == place_of(text, pack(["ANN"]), folds)
    assert place_of(text, pack(["Ann"]), folds) != place_of(text, pack(["Bob"]), folds)


def test_stamps_are_for_shared_spaces_of_users() -> None:
    def space(**flags: bool) -> Space:
        plain = {"is_system": False, "is_local": False, "is_temporary": False, "is_sync": False}
        return cast(Space, SimpleNamespace(**{**plain, **flags}, kernel=object()))

    assert is_stamped(space())
    for flag in ("is_system", "is_local", "is_temporary", "is_sync"):
        assert not is_stamped(space(**{flag: True}))


def test_last_write_wins_needs_one_numbering() -> None:
    with pytest.raises(BoxError, match="does not go together with replica_ids 'remap'"):
        Options.load({"replication_conflict": "last_write_wins", "replica_ids": "remap"})


# ---- the quarantine -----------------------------------------------------------------------------------


def refused(lsn: int) -> Refusal:
    return Refusal(insert(SPACE, lsn, [lsn]), "t", er(Er.TUPLE_FOUND, "pk", "t", "[1]", "[2]", b"", b""))


def lines(disk: Any) -> dict[str, list[int]]:
    """LSNs in each file."""
    found = {}
    for name in disk.listdir("/q"):
        file = disk.open(f"/q/{name}")
        found[name] = [json.loads(line)["lsn"] for line in file.read_at(0, file.size()).splitlines()]
    return found


def test_a_file_of_the_quarantine_goes_on_after_a_crash_and_is_followed_by_another() -> None:
    simulation = Simulation(1)
    machine = simulation.machine("node")
    disk = machine.boot().disk
    disk.makedirs("/q")
    first = Quarantine(disk, "/q", file_max=1500)
    first.append([record(refused(1), None, 5.0), record(refused(2), None, 5.0)])
    torn = disk.reopen("/q/quarantine.000001.jsonl")
    torn.append(b'{"lsn": 3, "spa')
    torn.close()
    second = Quarantine(disk, "/q", file_max=1500)
    for lsn in (3, 4, 5, 6):
        second.append([record(refused(lsn), None, 5.0)])
    found = lines(disk)
    assert sorted(found) == ["quarantine.000001.jsonl", "quarantine.000002.jsonl"]
    assert [lsn for name in sorted(found) for lsn in found[name]] == [1, 2, 3, 4, 5, 6], "the torn line is gone"
    simulation.close()


def test_a_record_that_was_written_in_part_is_cut_off_before_the_next() -> None:
    simulation = Simulation(1)
    machine = simulation.machine("node")
    disk = machine.boot().disk
    disk.makedirs("/q")
    quarantine = Quarantine(disk, "/q")
    quarantine.append([record(refused(1), None, 5.0)])
    machine.platter.capacity = machine.platter.used() + 20
    with pytest.raises(OSError, match="space"):
        quarantine.append([record(refused(2), None, 5.0)])
    machine.platter.capacity = None
    quarantine.append([record(refused(3), None, 5.0)])
    assert lines(disk) == {"quarantine.000001.jsonl": [1, 3]}
    simulation.close()


def test_what_is_in_the_quarantine_survives_a_power_cut() -> None:
    simulation = Simulation(1)
    machine = simulation.machine("node")
    disk = machine.boot().disk
    disk.makedirs("/q")
    Quarantine(disk, "/q").append([record(refused(1), None, 5.0)])
    machine.kill()
    machine.power_cut()
    assert lines(machine.boot().disk) == {"quarantine.000001.jsonl": [1]}
    simulation.close()


def test_files_of_others_are_no_quarantine() -> None:
    names = ["quarantine.x.jsonl", "quarantine.000003.jsonl", "00000000000000000003.xlog", "quarantine.000004.json"]
    assert numbers(names) == [3]

"""Two sources compared: checksums, the tuples that differ, and nodes that change meanwhile. Values in, values out."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from headwater.cli import diffcompare
from headwater.cli.diffcompare import Comparison, Difference, SpaceResult
from headwater.cli.diffdigest import BUCKETS, Digest, gather, portions, tuple_hash
from headwater.cli.diffsource import CannotCompareError, Part, parts_of
from headwater.typing import SpaceId
from headwater.wire.msgpack import pack


def tuples(*rows: Any) -> list[bytes]:
    return [pack(list(row)) for row in rows]


def digest(rows: Sequence[bytes]) -> Digest:
    made = Digest()
    made.add(rows)
    return made


# ---- digests


def test_order_makes_no_difference() -> None:
    rows = tuples(*((number, "x" * (number % 50)) for number in range(3000)))
    mixed = random.Random(1).sample(rows, len(rows))
    assert digest(rows).is_equal(digest(mixed))
    assert digest(rows).checksum == digest(mixed).checksum


@pytest.mark.parametrize(
    "other",
    [
        tuples((1, "a"), (2, "b")),
        tuples((1, "a"), (2, "b"), (3, "d")),
        tuples((1, "a"), (2, "b"), (3, "c"), (4, "")),
        [*tuples((1, "a"), (2, "b")), b"\x92\xcc\x03\xa1c"],
    ],
    ids=["one less", "another value", "one more", "equal value in other bytes"],
)
def test_any_change_of_a_tuple_makes_a_difference(other: list[bytes]) -> None:
    rows = tuples((1, "a"), (2, "b"), (3, "c"))
    assert not digest(rows).is_equal(digest(other))
    assert digest(rows).checksum != digest(other).checksum


def test_tuples_of_buckets_that_differ_are_gathered_and_few_others() -> None:
    rows = tuples(*((number, "x") for number in range(20_000)))
    other = [*rows[:7], pack([7, "y"]), *rows[8:]]
    buckets = digest(rows).differing(digest(other))
    assert sorted(buckets) == sorted(tuple_hash(data) % BUCKETS for data in (rows[7], other[7]))
    found = gather([rows[:100], rows[100:]], buckets)
    assert found[tuple_hash(rows[7])] == rows[7]
    assert len(found) < 100


def test_portions_hold_all_buckets_and_not_more_tuples_than_are_wanted() -> None:
    assert portions(range(BUCKETS), 1000, 200_000) == [range(BUCKETS)]
    parts = portions(range(BUCKETS), 4_000_000, 200_000)
    assert [bucket for part in parts for bucket in part] == list(range(BUCKETS))
    assert max(len(part) for part in parts) * 4_000_000 // BUCKETS <= 200_000
    assert [len(part) for part in portions(range(3), 10**12, 1)] == [1, 1, 1]


# ---- which spaces


def spaces(*rows: list[Any]) -> dict[str, Part]:
    indexes = [[row[0], 0, "pk", "tree", {}, [[0, "unsigned"]]] for row in rows if row[2] != "bare"]
    return parts_of([pack(row) for row in rows], [pack(row) for row in indexes])


def test_what_every_node_has_for_itself_is_left_out() -> None:
    assert list(
        spaces(
            [257, 1, "_vinyl_deferred_delete", "blackhole", 0, {"group_id": 1}, []],
            [281, 1, "_vspace", "sysview", 0, {}, []],
            [380, 1, "_session_settings", "service", 2, {"temporary": True}, []],
            [388, 1, "_gc_consumers", "memtx", 0, {"group_id": 1}, []],
            [512, 1, "plain", "memtx", 0, [], []],
            [513, 1, "local", "memtx", 0, {"group_id": 1}, []],
            [514, 1, "old_temporary", "memtx", 0, {"temporary": True}, []],
            [515, 1, "data_temporary", "memtx", 0, {"type": "data-temporary"}, []],
            [516, 1, "sync", "memtx", 0, {"is_sync": True}, []],
            [517, 1, "bare", "memtx", 0, {}, []],
            [518, 1, "view", "memtx", 0, {"view": True, "sql": "SELECT 1"}, []],
            [519, 1, "disk", "vinyl", 0, {}, []],
            [(1 << 30) + 1, 1, "temporary", "memtx", 0, {"type": "temporary"}, []],
        )
    ) == ["plain", "sync", "disk"]


def test_what_system_spaces_say_of_these_is_left_out_too() -> None:
    parts = spaces(
        [280, 1, "_space", "memtx", 0, {}, []],
        [330, 1, "_truncate", "memtx", 0, {}, []],
        [512, 1, "plain", "memtx", 0, {}, []],
        [513, 1, "local", "memtx", 0, {"group_id": 1}, []],
    )
    rows = tuples((512, 1), (513, 1), ((1 << 30) + 1, 1))
    assert parts["_truncate"].common(rows) == rows[:1], "each node counts the truncations of its local spaces"
    assert parts["_space"].common(rows) == rows[:2], "the definition of a local space is everybody's"
    assert parts["plain"].common(rows) == rows


def test_primary_keys_in_both_forms_of_parts() -> None:
    [old, new] = (
        parts_of(
            [pack([512, 1, "t", "memtx", 0, {}, []])],
            [pack([512, 1, "second", "tree", {}, [[5, "any"]]]), pack([512, 0, "pk", "tree", {}, parts])],
        )["t"]
        for parts in (
            [[2, "string"], [0, "unsigned"]],
            [{"field": 2, "type": "string"}, {"field": 0, "type": "unsigned"}],
        )
    )
    assert old == new
    assert old.key_of(pack([7, [1, 2], "k", None])) == pack(["k", 7])


def test_a_primary_key_inside_a_field_is_refused_by_name() -> None:
    index = [512, 0, "pk", "tree", {}, [{"field": 0, "type": "unsigned", "path": "a.b"}]]
    with pytest.raises(CannotCompareError, match="space 't': a primary key with a JSON path"):
        parts_of([pack([512, 1, "t", "memtx", 0, {}, []])], [pack(index)])


# ---- comparison


class Values:
    """A source that is told what it has."""

    def __init__(self, rows: Mapping[int, list[bytes]], *, is_live: bool = False, vclocks: Sequence[Any] = ()) -> None:
        self.name = "values"
        self.is_live = is_live
        self.rows = {id_: list(data) for id_, data in rows.items()}
        self._vclocks = list(vclocks) or [{}]
        self.looks = 0

    def vclock(self) -> Mapping[int, int]:
        """One after the other; the last one stays."""
        return self._vclocks.pop(0) if len(self._vclocks) > 1 else self._vclocks[0]  # type: ignore[no-any-return]

    def parts(self) -> dict[str, Part]:
        return {f"s{id_}": Part(SpaceId(id_), f"s{id_}", (0,)) for id_ in self.rows}

    def tuples(self, part: Part) -> Iterator[Sequence[bytes]]:
        for at in range(0, len(self.rows[part.id]), 2):
            yield self.rows[part.id][at : at + 2]

    def get(self, part: Part, keys: Sequence[bytes]) -> list[bytes | None]:
        self.looks += 1
        by_key = {part.key_of(data): data for data in self.rows[part.id]}
        return [by_key.get(key) for key in keys]

    def close(self) -> None:
        pass


def compared(a: Values, b: Values, *wanted: str, limit: int = 0, **more: Any) -> list[SpaceResult]:
    def no_sleep(_: float) -> None:
        raise AssertionError("nothing was to be waited for")

    comparison = Comparison(a, b, limit=limit, sleep=more.pop("sleep", no_sleep))
    return list(comparison.run(wanted, **more))


def test_equal_data() -> None:
    rows = {600: tuples((1, "a"), (2, "b"), (3, "c"))}
    [result] = compared(Values(rows), Values({600: rows[600][::-1]}))
    assert result.is_same
    assert (result.rows_a, result.rows_b, result.differences) == (3, 3, [])


def test_tuples_that_one_has_and_tuples_that_differ() -> None:
    a, b = tuples((1, "a"), (2, "b"), (3, "c")), tuples((2, "b"), (3, "C"), (4, "d"))
    [result] = compared(Values({600: a}), Values({600: b}))
    assert not result.is_same
    assert sorted(result.differences, key=repr) == sorted(
        [Difference("s600", a[0], None), Difference("s600", a[2], b[1]), Difference("s600", None, b[2])], key=repr
    )


def test_no_more_than_the_limit_are_shown() -> None:
    a = tuples(*((number,) for number in range(100)))
    [result] = compared(Values({600: a}), Values({600: []}), limit=3)
    assert (len(result.differences), result.is_cut) == (3, True)
    [result] = compared(Values({600: a[:3]}), Values({600: []}), limit=3)
    assert (len(result.differences), result.is_cut) == (3, False)


def test_what_does_not_fit_into_memory_at_once_is_found_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diffcompare, "GATHERED_ROWS", 10)
    a = tuples(*((number, "a") for number in range(300)))
    b = tuples(*((number, "b" if number % 3 else "a") for number in range(300)))
    [result] = compared(Values({600: a}), Values({600: b}))
    assert sorted(each.a for each in result.differences if each.a) == sorted(a[n] for n in range(300) if n % 3)
    assert len(result.differences) == 200, "each of them once"


def test_a_space_that_one_has() -> None:
    results = compared(Values({600: tuples((1,)), 601: []}), Values({600: tuples((1,)), 602: tuples((1,), (2,))}))
    shown = [(each.name, each.is_same, each.rows_a, each.rows_b) for each in results]
    assert shown == [("s600", True, 1, 1), ("s601", False, 0, None), ("s602", False, None, 2)]


def test_wanted_spaces_by_name_and_by_number() -> None:
    rows = {600: tuples((1,)), 601: tuples((2,)), 602: []}
    assert [each.name for each in compared(Values(rows), Values(rows), "602", "s600")] == ["s600", "s602"]
    with pytest.raises(CannotCompareError, match="no space 's7'"):
        compared(Values(rows), Values(rows), "s600", "s7")


def test_system_spaces_when_they_are_not_wanted() -> None:
    rows = {320: tuples((1,)), 600: []}
    assert [each.name for each in compared(Values(rows), Values(rows), system=False)] == ["s600"]


def test_stored_values_of_sequences_of_a_live_node_say_nothing() -> None:
    rows, live = Values({285: tuples((1, 5))}), Values({285: tuples((1, 4))}, is_live=True)
    assert compared(rows, live) == []
    assert not compared(rows, Values({285: tuples((1, 4))}))[0].is_same
    assert not compared(rows, live, "s285")[0].is_same, "unless they are asked for"


def test_two_primary_keys() -> None:
    class Other(Values):
        def parts(self) -> dict[str, Part]:
            return {"s600": Part(SpaceId(600), "s600", (1,))}

    [result] = compared(Values({600: tuples((1, 2))}), Other({600: tuples((1, 3))}))
    assert result.differences == [Difference("s600", pack([1, 2]), None), Difference("s600", None, pack([1, 3]))]


# ---- live nodes


class Arriving(Values):
    """The next look finds what has come meanwhile."""

    def __init__(self, *states: list[bytes], vclocks: Sequence[Any] = ()) -> None:
        super().__init__({600: states[0]}, is_live=True, vclocks=vclocks)
        self.states = list(states[1:])

    def get(self, part: Part, keys: Sequence[bytes]) -> list[bytes | None]:
        found = super().get(part, keys)
        if self.states:
            self.rows = {600: self.states.pop(0)}
        return found


def test_a_tuple_that_arrives_while_it_is_looked_for_is_no_difference() -> None:
    slept: list[float] = []
    a = Values({600: tuples((1, "a"))}, is_live=True, vclocks=[{1: 9}])
    b = Arriving([], tuples((1, "a")), vclocks=[{1: 7}, {1: 8}])
    [result] = compared(a, b, sleep=slept.append)
    assert result.is_same
    assert result.moved
    assert slept


def test_a_difference_of_nodes_that_have_the_same_rows_is_one_at_once() -> None:
    a = Values({600: tuples((1, "a"))}, is_live=True, vclocks=[{1: 9}])
    b = Values({600: tuples((1, "b"))}, is_live=True, vclocks=[{1: 9}])
    [result] = compared(a, b)
    assert not result.is_same
    assert (a.looks, len(result.differences)) == (1, 1)


def test_a_difference_of_nodes_to_which_nothing_comes_any_more_is_waited_for_once() -> None:
    slept: list[float] = []
    rows = tuples(*((number, "a") for number in range(2500)))
    a = Values({600: rows}, is_live=True, vclocks=[{1: 9}])
    b = Values({600: []}, is_live=True, vclocks=[{1: 7}])
    [result] = compared(a, b, sleep=slept.append)
    assert len(result.differences) == 2500
    assert len(slept) == 1


def test_a_difference_that_never_settles_is_believed_in_the_end() -> None:
    slept: list[float] = []
    a = Values({600: tuples((1, "a"))}, is_live=True, vclocks=[{1: lsn} for lsn in range(100, 200)])
    b = Values({600: tuples((1, "b"))}, is_live=True, vclocks=[{1: lsn} for lsn in range(100)])
    [result] = compared(a, b, sleep=slept.append)
    assert not result.is_same
    assert a.looks == len(slept) == diffcompare.LOOKS

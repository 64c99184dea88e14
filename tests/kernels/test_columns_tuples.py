"""Tuples as requests on the wire, as rows of a snapshot, and their hashes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
from tests.kernels.packing import delete, insert, pack, replace

from headwater.kernels.packplan import PackError
from headwater.typing import FieldType
from headwater.wire import request
from headwater.wire.constants import Type

TUPLES = [pack([number, f"name {number}", None, [number]]) for number in (1, -5, 300, 2**40)]


def arrow(tuples: Sequence[bytes]) -> tuple[bytes, bytes]:
    """(offsets, data)"""
    ends = [0]
    for one in tuples:
        ends.append(ends[-1] + len(one))
    return struct.pack(f"<{len(ends)}i", *ends), b"".join(tuples)


def requests(data: bytes) -> list[request.Request]:
    out, at = [], 0
    while (found := request.split(data, at, len(data), limit=1 << 30)) is not None:
        out.append(request.decode(data, *found))
        at = found[1]
    assert at == len(data)
    assert all(one.error is None for one in out)
    return out


# ---- requests -------------------------------------------------------------------------------------


def test_insert_and_replace_are_the_packets_of_any_client(c: ModuleType) -> None:
    fields = [[1, "a"], [2, "b"]]
    given = arrow([pack(one) for one in fields])
    assert c.pack_requests(*given, 0, 2, Type.INSERT, 512, 7) == insert(512, fields[0], 7) + insert(512, fields[1], 8)
    assert c.pack_requests(*given, 1, 1, Type.REPLACE, 512, 7) == replace(512, fields[1], 7)


def test_delete_takes_its_key_out_of_the_tuple(c: ModuleType) -> None:
    data = c.pack_requests(*arrow(TUPLES[:1]), 0, 1, Type.DELETE, 512, 1, key_fields=[1, 0])
    assert data == delete(512, ["name 1", 1], 0, 1)
    data = c.pack_requests(*arrow(TUPLES[:1]), 0, 1, Type.DELETE, 512, 1, index_id=3, key_fields=[3])
    assert data == delete(512, [[1]], 3, 1)


def test_update_and_upsert_make_operations_of_fields(c: ModuleType) -> None:
    changes = [("=", 1), ("+", 0), ("=", 2)]
    given = arrow(TUPLES[:2])
    updated = requests(c.pack_requests(*given, 0, 2, Type.UPDATE, 512, 1, key_fields=[0], changes=changes))
    upserted = requests(c.pack_requests(*given, 0, 2, Type.UPSERT, 512, 1, changes=changes))
    for number, one, other in zip((1, -5), updated, upserted, strict=True):
        operations = pack([["=", 1, f"name {number}"], ["+", 0, number], ["=", 2, None]])
        assert (one.key, one.tuple) == (pack([number]), operations)
        assert (other.tuple, other.ops) == (pack([number, f"name {number}", None, [number]]), operations)


def test_requests_of_a_stream_are_numbered_from_the_first(c: ModuleType) -> None:
    data = c.pack_requests(*arrow(TUPLES), 1, 3, Type.REPLACE, 512, 2**32 - 1, stream_id=9)
    found = requests(data)
    assert [(one.sync, one.stream_id, one.space_id) for one in found] == [(2**32 - 1 + at, 9, 512) for at in range(3)]
    assert [one.tuple for one in found] == TUPLES[1:]


def test_each_tuple_may_have_a_type_of_its_own(c: ModuleType) -> None:
    types = bytes([Type.REPLACE, Type.DELETE, Type.UPSERT])
    found = requests(c.pack_requests(*arrow(TUPLES), 1, 3, 0, 512, 1, key_fields=[0], types=types))
    assert [one.type for one in found] == list(types)
    assert found[1].key == pack([300])
    assert found[2].ops == b"\x90"


def test_many_key_fields_and_operations(c: ModuleType) -> None:
    wide = pack(list(range(40)))
    changes = [("=", at) for at in range(40)]
    (found,) = requests(
        c.pack_requests(*arrow([wide]), 0, 1, Type.UPDATE, 512, 1, key_fields=list(range(40)), changes=changes)
    )
    assert found.key == wide
    assert found.tuple == pack([["=", at, at] for at in range(40)])


@pytest.mark.parametrize(
    "more",
    [
        {"type": Type.SELECT},
        {"type": Type.DELETE},
        {"type": Type.UPDATE},
        {"type": Type.UPSERT, "changes": [("#", 1)]},
        {"type": Type.UPSERT, "changes": [("==", 1)]},
        {"type": Type.UPSERT, "changes": [("=", -1)]},
        {"type": Type.DELETE, "key_fields": [-1]},
        {"type": Type.DELETE, "key_fields": [0] * 256},
        {"types": b"\x03"},
        {"types": b"\x03\x03\x40\x03"},
        {"count": 5},
        {"first": 4},
        {"first": -1},
        {"count": -1},
    ],
)
def test_requests_that_cannot_be_made_are_refused(c: ModuleType, more: dict[str, Any]) -> None:
    given = {"first": 0, "count": 4, "type": Type.REPLACE, "space_id": 512, "sync": 1, **more}
    with pytest.raises(ValueError):
        c.pack_requests(*arrow(TUPLES), **given)


def test_tuple_without_the_field_is_named(c: ModuleType) -> None:
    given = arrow([TUPLES[0], pack([1])])
    for more in ({"type": Type.DELETE, "key_fields": [1]}, {"type": Type.UPSERT, "changes": [("=", 1)]}):
        with pytest.raises(PackError, match="absent") as info:
            c.pack_requests(*given, 0, 2, more.pop("type"), 512, 1, **more)
        assert info.value.row == 1


@pytest.mark.parametrize("bad", [b"", b"\xc1", b"\x91", b"\x90\x90", b"\x80", b"\x01"])
def test_what_is_not_one_array_is_refused(c: ModuleType, bad: bytes) -> None:
    given = arrow([TUPLES[0], bad, TUPLES[1]])
    for call in (
        lambda: c.pack_requests(*given, 0, 3, Type.REPLACE, 512, 1),
        lambda: c.pack_rows(*given, 0, 3, 512, 0, 1, 1.5, 1 << 20),
        lambda: c.hash_tuples(*given, 0, 3, [0]),
        lambda: c.sum_tuples(*given, 0, 3, [0], 4),
    ):
        with pytest.raises(PackError, match="not one whole MessagePack array") as info:
            call()
        assert info.value.row == 1


@pytest.mark.parametrize("offsets", [(0, 100), (-1, 3), (3, 0), (0, -5)])
def test_offsets_that_lie_are_refused(c: ModuleType, offsets: tuple[int, int]) -> None:
    given = struct.pack("<2i", *offsets), b"\x91\x01\x90"
    for call in (
        lambda: c.pack_requests(*given, 0, 1, Type.REPLACE, 512, 1),
        lambda: c.pack_rows(*given, 0, 1, 512, 0, 1, 1.5, 1 << 20),
        lambda: c.hash_tuples(*given, 0, 1),
    ):
        with pytest.raises(PackError, match="offsets"):
            call()


# ---- rows of a snapshot ---------------------------------------------------------------------------


@pytest.mark.parametrize(("local", "lsn", "timestamp"), [(False, 0, 1.5), (True, 300, 1.5), (False, 1, 0.0)])
def test_rows_are_those_of_a_read_view(k: ModuleType, c: ModuleType, local: bool, lsn: int, timestamp: float) -> None:
    memtx = k.Memtx()
    space = memtx.add_space(512)
    space.local = local
    space.add_index(0, k.KeyDef([k.KeyPart(0, FieldType.INTEGER)]), True)
    for one in TUPLES:
        space.replace(one)
    view = memtx.open_view([512])
    ordered = list(view.tuples(512))
    expected = view.fill(1 << 20, lsn, timestamp)
    view.close()
    given = arrow(ordered)
    assert c.pack_rows(*given, 0, 4, 512, int(local), lsn, timestamp, 1 << 20) == expected
    first, count = c.pack_rows(*given, 0, 4, 512, int(local), lsn, timestamp, 1)
    assert count == 1
    rest, more = c.pack_rows(*given, 1, 3, 512, int(local), lsn + 1, timestamp, 1 << 20)
    assert (first + rest, more) == (expected[0], 3)


# ---- hashes ---------------------------------------------------------------------------------------


def hashes(c: ModuleType, tuples: Sequence[bytes], fields: Sequence[int] | None = None) -> list[int]:
    out = c.hash_tuples(*arrow(tuples), 0, len(tuples), fields)
    return list(struct.unpack(f"<{len(tuples)}Q", out))


def test_hashes_are_those_of_spark(c: ModuleType) -> None:
    """`SELECT xxhash64(binary)` of Spark 4.3; tests/pipeline asks a session itself."""
    known = {b"": 0x98B1582B0977E704, b"abc": 0x13C1D910702770E6}
    assert hashes(c, list(known)) == list(known.values())


def test_hash_of_some_fields(c: ModuleType) -> None:
    one, other = pack([1, "a", 2]), pack([2, "a", 1])
    assert hashes(c, [one, other], [1]) == hashes(c, [b"\xa1a"] * 2)
    assert hashes(c, [one], [2, 0]) == hashes(c, [b"\x02\x01"]) == hashes(c, [other], [0, 2])
    assert hashes(c, [one], [7]) == hashes(c, [b"\xc0"])
    assert hashes(c, [one], []) == hashes(c, [b""])


def test_sums_do_not_know_the_order(c: ModuleType) -> None:
    tuples = [pack([number, "x" * (number % 50)]) for number in range(100)]
    straight = c.sum_tuples(*arrow(tuples), 0, 100, [0], 3)
    assert c.sum_tuples(*arrow(tuples[::-1]), 0, 100, [0], 3) == straight
    counts, sums = (struct.unpack("<8Q", part) for part in straight)
    assert sum(counts) == 100
    assert sum(sums) % 2**64 == sum(hashes(c, tuples)) % 2**64
    places = [key >> 61 for key in hashes(c, tuples, [0])]
    assert [places.count(place) for place in range(8)] == list(counts)
    whole = c.sum_tuples(*arrow(tuples), 0, 100, [0], 0)
    assert whole == (struct.pack("<Q", 100), struct.pack("<Q", sum(sums) % 2**64))
    changed = [pack([0, "y"]), *tuples[1:]]
    assert c.sum_tuples(*arrow(changed), 0, 100, [0], 3)[1] != straight[1]


def test_too_many_sums_are_refused(c: ModuleType) -> None:
    for bits in (-1, 21):
        with pytest.raises(ValueError):
            c.sum_tuples(*arrow(TUPLES), 0, 4, [0], bits)

"""What the kernels between rows and Arrow read of a stranger: rows, packets, blocks, variants, tuples."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tests.kernels.batches import NAMES, SPACE, frame, replace, row, texts
from tests.kernels.packing import datetime_ext, ext, float32, pack
from tests.xlog.build import packed, transaction

from headwater.kernels import columns as k
from headwater.kernels.columnplan import KINDS, Kind, Source, Utf8
from headwater.kernels.packplan import Form, PackColumn
from headwater.typing import FieldType

_PARTS = [(source, min(KINDS[source]), 0, 0) for source in Source if source is not Source.FIELD]
_PARTS += [(Source.KEY, Kind.VARIANT, 0, 0), (Source.AFTER, Kind.VARIANT, 1, 0)]
_FIELDS = [(Source.FIELD, kind, 8, 2) for kind in Kind]
_VALUE = {
    "a": [1, -1, 2**63, 1.5, None, True, b"x", "é" * 40],
    "": {},
    5: [datetime_ext(5, 6), ext(1, b"\x02\x12\x3d")],
}


def _batch(strict: bool) -> k.Columns:
    batch = k.Columns([*_PARTS, *_FIELDS], NAMES, texts, 50, 1 << 16, Utf8.BINARY, True, strict)
    batch.set_spaces({SPACE: "test"}, {SPACE: [1, 0], 280: [0]}, None)
    batch.set_fields([len(_PARTS) + at for at in range(len(_FIELDS))], [kind.name for kind in Kind])
    return batch


def _read(data: bytes, framed: bool) -> object:
    batch, at, out = _batch(strict=False), 0, []
    while at < len(data):
        after = batch.decode(data, at, framed=framed)
        out.append(batch.take()[0])
        if after == at:
            break
        at = after
    return out, k.pick(data, 0, [SPACE], framed)


def read_rows(data: bytes) -> object:
    return _read(data, framed=False)


def read_packets(data: bytes) -> object:
    return _read(data, framed=True), k.unframe(data, 0, len(data))


def read_blocks(data: bytes) -> object:
    return k.plain_rows(data, 0, len(data), 1 << 16), k.borders(data, 0, len(data), 64)


def there_and_back(data: bytes) -> object:
    value, metadata = k.to_variant(data, texts, Utf8.REPLACE, True)
    return k.from_variant(value, metadata, True)


def unpack_variant(data: bytes) -> object:
    """The first byte says where the metadata begin."""
    at = 1 + (data[0] if data else 0)
    return k.from_variant(data[1:at], data[at:], True)


def pack_binary(data: bytes) -> object:
    """One Arrow column whose offsets and data are both given; the first byte says how many values of which form."""
    first = data[0] if data else 0
    length, form = first % 6, (Form.STRING, Form.BINARY, Form.RAW)[first // 6 % 3]
    offsets, rest = data[1 : 5 + 4 * length], data[5 + 4 * length :]
    column = PackColumn("f", FieldType.ANY, form, 0, length, 0, None, (offsets, rest), ())
    out = k.pack_tuples([column], 0, length)
    if form is Form.RAW:
        return out, k.hash_tuples(offsets, rest, 0, length, [0]), k.pack_requests(offsets, rest, 0, length, 3, SPACE, 1)
    return out, k.hash_tuples(offsets, rest, 0, length)


# ---- inputs that are taken ------------------------------------------------------------------------


def _rows() -> list[bytes]:
    body = {0x10: SPACE, 0x11: 1, 0x15: 1, 0x20: [1], 0x21: [["=", 1, 5]], 0x2C: [1], 0x2D: [1, _VALUE]}
    return [
        replace(1, "a", 2.5, None, [1], _VALUE, float32(1.5), lsn=5, replica=1, time=1.5),
        row(4, body, lsn=6, replica=1, tsn_distance=0),
        row(30, {0: 2, 1: 1}, lsn=7, group=1),
        row(12, lsn=8, tsn_distance=2, flags=1),
    ]


def rows() -> Sequence[bytes]:
    return [b"".join(_rows()), packed(transaction(1, 3, "é"))[0]]


def packets() -> Sequence[bytes]:
    return [b"".join(map(frame, _rows())), *map(frame, _rows())]


def values() -> Sequence[bytes]:
    return [bytes(pack(_VALUE)), bytes(pack([_VALUE, "!uuid x"]))]


def variants() -> Sequence[bytes]:
    made = [
        k.to_variant(bytes(pack(value)), texts, Utf8.FAIL, True) for value in (1, ["a", {"b": None}], {"c": "d" * 70})
    ]
    return [bytes([len(value)]) + value + metadata for value, metadata in made]


def tuples() -> Sequence[bytes]:
    one = bytes(pack([1, "a", None]))
    ends = struct.pack("<3i", 0, len(one), 2 * len(one))
    return [bytes([2 + 12]) + ends + one * 2, bytes([2]) + ends + b"abcde" * 2, bytes([2 + 6]) + ends + one * 2]

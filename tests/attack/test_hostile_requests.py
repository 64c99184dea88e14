"""Requests that no client library makes."""

from __future__ import annotations

import pytest
from tests.server.box import Box, pack_map

from headwater.errors import Er
from headwater.wire.constants import Key, Type
from headwater.wire.xrow import decode_row

FORGED = {Key.REPLICA_ID: 5, Key.LSN: 1000, Key.TIMESTAMP: 1.5, Key.GROUP_ID: 1, Key.FLAGS: 6, Key.TSN: 3}


def packet(header: dict[int, object], body: dict[int, object]) -> bytes:
    data = pack_map(header) + pack_map(body)
    return b"\xce" + len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize("lsn", [1000, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize(
    ("type", "body"),
    [
        (Type.INSERT, {Key.TUPLE: [2, "b"]}),
        (Type.REPLACE, {Key.TUPLE: [1, "b"]}),
        (Type.UPDATE, {Key.KEY: [1], Key.TUPLE: [["=", 1, "b"]]}),
        (Type.UPSERT, {Key.TUPLE: [1, "b"], Key.OPS: []}),
        (Type.DELETE, {Key.KEY: [1]}),
        (Type.DELETE, {Key.KEY: [7]}),
    ],
)
def test_a_client_cannot_say_which_row_it_writes(box: Box, type: int, body: dict[int, object], lsn: int) -> None:
    """Replica id, LSN and the rest of the header are the journal's to give."""
    box.insert(512, 1, "a")
    box.journal.write()
    before = box.memtx.vclock
    client = box.connect()
    client.say(packet({Key.REQUEST_TYPE: type, Key.SYNC: 1, **FORGED, Key.LSN: lsn}, {Key.SPACE_ID: 512, **body}))
    data, _, count = box.memtx.take_rows()
    row, _ = decode_row(data)
    assert count == 1
    assert (row.replica_id, row.lsn, row.tsn, row.group_id, row.flags & 6) == (1, before[1] + 1, row.lsn, 0, 0)
    assert row.timestamp != 1.5
    box.journal.write()
    (reply,) = client.replies()
    assert reply.code is None


@pytest.mark.parametrize("count", [3, 1000, 1 << 20])
@pytest.mark.parametrize("iterator", range(15))
@pytest.mark.parametrize("index", [0, 1])
def test_a_key_of_any_length_is_only_a_wrong_key(box: Box, index: int, iterator: int, count: int) -> None:
    """It is longer than the index has parts: nobody looks at a part that is not there."""
    client = box.connect()
    key = {Key.SPACE_ID: 512, Key.INDEX_ID: index, Key.ITERATOR: iterator, Key.LIMIT: 1, Key.KEY: [1] * count}
    reply = client.ask(Type.SELECT, key)
    assert reply.code in (Er.KEY_PART_COUNT, Er.UNSUPPORTED_INDEX_FEATURE, Er.ILLEGAL_PARAMS), reply.message

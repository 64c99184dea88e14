"""The bytes in docs/formats are those that the code makes."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from tests.xlog.build import packed, row, transaction

from headwater.wire import replication, reply, request
from headwater.wire.constants import Type
from headwater.wire.msgpack import Datetime, Interval, pack
from headwater.wire.xrow import encode_packet, encode_row
from headwater.xlog import encode_blocks

DOCS = Path(__file__).parents[2] / "docs" / "formats"

MADE = {
    "decimal -12.34": pack(Decimal("-12.34")),
    "datetime 1970-01-01T00:00:01Z": pack(Datetime(1)),
    "interval 1 month, -1 day": pack(Interval(month=1, day=-1)),
    "PING with sync 1, as net.box writes it": request.encode(Type.PING, 1),
    "OK to sync 7 at schema version 80": reply.ok(7, 80),
    "acknowledgement of {1: 9} by a replica up to 2.10": encode_packet(
        replication.encode_applier_heartbeat(replication.ApplierHeartbeat({1: 9}, term=None))
    ),
    "block: INSERT of [1] into space 512, LSN 1 of replica 1 at time 1.5": encode_blocks(*packed([row(1)])),
    "a transaction of two rows, LSNs 2 and 3": b"".join(map(encode_row, transaction(2, 2))),
}


def examples() -> dict[str, bytes]:
    found = {}
    for page in DOCS.glob("*.md"):
        for title, text in re.findall(r"```hex (.+)\n((?:[0-9a-f\s]+))```", page.read_text()):
            found[title] = bytes.fromhex(text)
    return found


def test_every_example_is_checked() -> None:
    assert set(examples()) == set(MADE)


@pytest.mark.parametrize("title", list(MADE))
def test_example(title: str) -> None:
    assert examples()[title].hex(" ") == MADE[title].hex(" ")

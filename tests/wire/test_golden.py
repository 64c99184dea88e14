"""Every packet that a real 3.9 and its peers sent is decoded, and encoded again to the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from tests.wire.golden import GOLDEN, needs_golden, packets, recordings, streams

from headwater.errors import BoxError
from headwater.kernels import mp_array_fields
from headwater.wire import ballot, greeting, replication, reply, request, synchro
from headwater.wire.constants import ERROR_BIT, Key, Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.xrow import Row, decode_row, encode_packet

pytestmark = needs_golden

REPLY_HEADER = bytes.fromhex("8300ce")


@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.stem)
def test_greeting_of_a_real_server(path: Path) -> None:
    said = streams(path)["server"][:128]
    found = greeting.decode(said)
    assert found.version_id == 0x030900
    assert found.protocol == "Binary"
    assert len(found.salt) == 32
    assert greeting.encode(found.version_id, found.uuid, found.salt) == said


@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.stem)
def test_packets_of_the_server_come_back_the_same(path: Path) -> None:
    count = 0
    for packet in packets(streams(path)["server"][128:]):
        row, end = decode_row(packet, 5, exact=True)
        assert end == len(packet)
        again = encode_reply(row) if packet[5:8] == REPLY_HEADER or row.type == Type.EVENT else encode_packet(row)
        assert again == packet, row
        count += 1
    assert count > 0


def encode_reply(row: Row) -> bytes:
    """A reply of a session through the function that makes such replies."""
    if row.type == Type.EVENT:
        body = unpack(row.body)
        value = body.get(Key.EVENT_DATA)
        return reply.event(row.sync, body[Key.EVENT_KEY], None if value is None else pack(value))
    if row.type & ERROR_BIT:
        return reply.error(row.sync, row.schema_version, replication.decode_error(row))
    body = unpack(row.body)
    if body == {}:
        return reply.ok(row.sync, row.schema_version)
    if Key.VERSION in body:
        return reply.id_reply(row.sync, row.schema_version, body[Key.VERSION], body[Key.FEATURES], body[Key.AUTH_TYPE])
    if Key.DATA in body and len(body) == 1:
        return reply.data(row.sync, row.schema_version, raw_items(row.body))
    if set(body) == {Key.DATA, Key.POSITION}:
        position = body[Key.POSITION].encode("utf-8", "surrogateescape")
        return reply.data(row.sync, row.schema_version, raw_items(row.body), position)
    return reply.body(row.sync, row.schema_version, row.body)


def raw_items(body: bytes) -> list[bytes]:
    """The tuples under DATA, which real servers always send first, as bytes."""
    assert body[1] == Key.DATA
    offsets = mp_array_fields(body, 2)
    return [body[begin:end] for begin, end in pairwise(offsets)]


@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.stem)
def test_requests_of_real_clients_have_no_error(path: Path) -> None:
    stream = streams(path)["client"]
    at = count = 0
    while (found := request.split(stream, at, len(stream))) is not None:
        start, at = found
        row, _ = decode_row(stream[:at], start, exact=True)
        if row.type == Type.OK:
            replication.decode_applier_heartbeat(row)
        else:
            decoded = request.decode(stream, start, at)
            assert decoded.error is None, decoded
            assert decoded.sync == row.sync
            assert decoded.row == row
        packet = stream[start - 5 : at]
        as_client = request.encode(row.type, row.sync, row.body, row.stream_id)
        assert packet in (encode_packet(row), as_client)
        count += 1
    assert count > 0


BODIES: dict[int, Callable[[Row], Row]] = {
    Type.JOIN: lambda row: replication.encode_join(replication.decode_join(row)),
    Type.SUBSCRIBE: lambda row: replication.encode_subscribe(replication.decode_subscribe(row)),
    Type.REGISTER: lambda row: replication.encode_register(replication.decode_register(row)),
    Type.FETCH_SNAPSHOT: lambda row: replication.encode_fetch_snapshot(replication.decode_fetch_snapshot(row)),
    Type.RAFT: lambda row: synchro.encode_raft(synchro.decode_raft(row)),
    Type.RAFT_CONFIRM: lambda row: synchro.encode_synchro(synchro.decode_synchro(row)),
    Type.RAFT_PROMOTE: lambda row: synchro.encode_synchro(synchro.decode_synchro(row)),
}


@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.stem)
def test_bodies_of_replication_come_back_the_same(path: Path) -> None:
    """Values made of a packet give the packet's body again; appliers' requests give the whole packet."""
    for side, stream in streams(path).items():
        for packet in packets(stream[128 if side == "server" else 0 :]):
            row, _ = decode_row(packet, 5, exact=True)
            if row.type in BODIES:
                assert BODIES[row.type](row).body == row.body
            elif row.type == Type.ID and side == "client" and 7 in unpack(row.body)[Key.FEATURES]:
                assert encode_packet(replication.encode_id()) == packet
            elif row.type == Type.OK:
                check_ok(row, side, packet)


def check_ok(row: Row, side: str, packet: bytes) -> None:
    """A heartbeat of either side, a vclock or the answer to SUBSCRIBE."""
    body = unpack(row.body) if row.body else {}
    if packet[5:8] == REPLY_HEADER:
        return
    if side == "client":
        again = replication.encode_applier_heartbeat(replication.decode_applier_heartbeat(row), row.timestamp)
    elif Key.REPLICASET_UUID in body:
        again = replication.encode_subscribe_reply(replication.decode_subscribe_reply(row), row.replica_id)
    elif Key.VCLOCK in body:
        again = replication.encode_vclock(body[Key.VCLOCK], ignore0=False)
        assert replication.decode_vclock(row) == {id_: lsn for id_, lsn in body[Key.VCLOCK].items() if id_}
    else:
        again = replication.encode_relay_heartbeat(
            replication.decode_relay_heartbeat(row), row.replica_id, row.timestamp
        )
    again.sync = row.sync
    assert encode_packet(again) == packet


def test_ballots_of_a_real_server_come_back_the_same() -> None:
    seen = 0
    before = ballot.Ballot()
    for packet in packets(streams(GOLDEN / "wire" / "ballot-watch.jsonl")["server"][128:]):
        event = unpack(decode_row(packet, 5)[0].body)
        value = pack(event[Key.EVENT_DATA])
        found = ballot.decode_ballot_event(value, before)
        assert found is not None
        assert ballot.encode_ballot(found) == value
        assert ballot.decode_ballot(Row(Type.OK, body=value)) == found
        assert found.instance_name == "node-1"
        seen += 1
    assert seen == 4


def test_every_prefix_of_a_real_packet_is_refused_by_name() -> None:
    """Cut short anywhere, it is no packet; only a header without its body may still be one."""
    for packet in packets(streams(GOLDEN / "wire" / "register-1.jsonl")["client"]):
        whole, _ = decode_row(packet, 5, exact=True)
        for size in range(len(packet) - 5):
            if size == len(packet) - 5 - len(whole.body):
                continue
            with pytest.raises(BoxError, match=r"^Invalid MsgPack - packet (header|body)$"):
                decode_row(packet[5 : 5 + size], exact=True)

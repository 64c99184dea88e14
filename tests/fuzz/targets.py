"""What is fuzzed: everything that reads bytes of a stranger, one function each.

A target takes any bytes and may raise nothing but the errors that its reader names. Those called xrow_* are the ones
that Tarantool itself fuzzes (test/fuzz). Inputs to begin with are made here, by our own encoders and by recordings, if
they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

from tests.fuzz import columns, peer
from tests.wire.golden import packets, recordings, streams
from tests.xlog.build import INSTANCE, log, packed, row, transaction

from headwater.cli.rowtext import row_value
from headwater.errors import BoxError, MsgPackError, Packed, XlogError, er
from headwater.errors import Er as Code
from headwater.kernels.columnplan import RowError
from headwater.kernels.packplan import PackError
from headwater.vclock import VClock, VClockError
from headwater.wire import auth, ballot, greeting, replication, reply, request, synchro
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import Datetime, Ext, Float32, Interval, pack, unpack, unpack_from
from headwater.wire.replication import ApplierHeartbeat, FetchSnapshot, Join, Register, RelayHeartbeat, Subscribe
from headwater.wire.synchro import RaftMessage, Synchro
from headwater.wire.values import unpack_datetime, unpack_decimal, unpack_interval
from headwater.wire.xrow import Row, decode_row, encode_row
from headwater.xlog import SNAP, XLOG, Block, BlockDecoder, BytesFile, Meta, Reader, format_meta, parse_meta, rows
from headwater.xlog.audit import audit_file
from headwater.xlog.blocks import decode_fixheader

UNPACKED_MAX = 1 << 16
"""What a block may unpack to here, so that memory can be held against the input's size."""
UUID_1 = UUID("11111111-2222-4333-8444-555555555555")


@dataclass(frozen=True)
class Target:
    """`run` reads bytes; `seeds` are inputs that it takes; `refusals` are the errors that it may raise."""

    run: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]]
    refusals: tuple[type[Exception], ...] = (BoxError,)


# ---- bodies of packets ----------------------------------------------------------------------------


def body_of(type_: int, read: Callable[[Row], object]) -> Callable[[bytes], object]:
    """A decoder of bodies gets only what the decoder of rows has let through."""
    head = pack({Key.REQUEST_TYPE: type_, Key.SYNC: 1, Key.REPLICA_ID: 1, Key.LSN: 5, Key.STREAM_ID: 1})

    def run(data: bytes) -> object:
        packet = head + data
        return read(decode_row(packet, exact=True)[0])

    return run


def client(*types: Type) -> Callable[[bytes], object]:
    """The first byte chooses among types; what is malformed is an error in the request, not an exception."""

    def run(data: bytes) -> object:
        type_ = types[data[0] % len(types)] if data else types[0]
        stream = {Key.STREAM_ID: 1} if type_ in (Type.BEGIN, Type.COMMIT) else {}
        packet = pack({Key.REQUEST_TYPE: type_, Key.SYNC: 1, **stream}) + data[1:]
        return request.decode(packet, 0, len(packet))

    return run


def bodies(*values: Any) -> Callable[[], list[bytes]]:
    return lambda: [pack(value) for value in values]


def client_bodies(*values: Any) -> Callable[[], list[bytes]]:
    return lambda: [bytes((number,)) + pack(value) for value in values for number in range(3)]


def rows_of(*made: Row) -> Callable[[], list[bytes]]:
    return lambda: [one.body for one in made]


DML = {
    Key.SPACE_ID: 512,
    Key.INDEX_ID: 1,
    Key.LIMIT: 10,
    Key.OFFSET: 2,
    Key.ITERATOR: 5,
    Key.INDEX_BASE: 1,
    Key.KEY: [1, "a"],
    Key.TUPLE: [1, "a", None, {"b": [1.5]}],
    Key.OPS: [["=", 1, 2]],
    Key.FETCH_POSITION: True,
    Key.AFTER_POSITION: "p",
    Key.AFTER_TUPLE: [1],
    Key.SPACE_NAME: "s",
    Key.INDEX_NAME: "i",
    Key.TUPLE_META: {1: 2},
    Key.OLD_TUPLE: [1],
    Key.NEW_TUPLE: [2],
    Key.BEGIN_KEY: [1],
    Key.END_KEY: [2],
    Key.ARROW: Ext(8, b"arrow"),
}
VCLOCK = {0: 1, 1: 2**40, 31: 7}


def whole_error(data: bytes) -> object:
    return replication.decode_error(decode_row(pack({Key.REQUEST_TYPE: 0x8024}) + data, exact=True)[0])


def stack_of_an_error() -> list[bytes]:
    error = er(Code.TUPLE_FOUND, "pk", "s", "[1]", "[2]", b"\x91\x01", b"\x91\x02", cause=er(Code.LOADING))
    return [reply.error(1, 2, error)[32:], pack({Key.ERROR_24: "text"}), reply.error(1, 2, XlogError("x"))[32:]]


def event(data: bytes) -> object:
    """A value of a watched key, checked as the decoder of EVENT has checked it."""
    unpack(data)
    return ballot.decode_ballot_event(data, ballot.Ballot())


# ---- other bytes ----------------------------------------------------------------------------------


def read_stream(data: bytes) -> object:
    """Packet after packet, as a session does."""
    at = 0
    out = []
    while (found := request.split(data, at, len(data), limit=1 << 16)) is not None:
        out.append(request.decode(data, *found))
        at = found[1]
    return out


def login(data: bytes) -> object:
    if isinstance(unpack(data), list):
        auth.authenticate(data, bytes(32), b"x" * 20, is_guest=True)
    return None


def vclock_text(data: bytes) -> object:
    return VClock.parse(data.decode("latin-1"))


def head_of_a_file(data: bytes) -> object:
    found = parse_meta(data)
    return None if found is None else format_meta(found[0])


def file_of(filetype: str) -> bytes:
    return format_meta(Meta(filetype, INSTANCE, VClock({1: 5})))


def read_blocks(data: bytes) -> object:
    """Everything behind the head of a log."""
    reader = Reader(BytesFile(file_of(XLOG) + data), limit=UNPACKED_MAX)
    return [one for block in reader for one in rows(block)]


def read_blocks_by_force(data: bytes) -> object:
    reader = Reader(BytesFile(file_of(XLOG) + data), force=True, limit=UNPACKED_MAX)
    return [block.rows for block in reader], reader.damage, reader.skipped


def rows_of_a_block(data: bytes) -> object:
    """Rows behind a checksum that is right."""
    return [row_value(one) for one in rows(Block(0, len(data), data))]


def read_snapshot(data: bytes) -> object:
    reader = Reader(BytesFile(data), limit=UNPACKED_MAX)
    found = [one for block in reader for one in rows(block)]
    reader.require_eof()
    return found


def block_data(data: bytes) -> object:
    """The stored bytes of a compressed block whose checksum is right."""
    from headwater.kernels import crc32c
    from headwater.xlog.blocks import FixHeader

    return BlockDecoder(limit=UNPACKED_MAX).decode(FixHeader(True, len(data), crc32c(data)), data)


def fixheader(data: bytes) -> object:
    return decode_fixheader(data[:19].ljust(19, b"\0"))


def audited(data: bytes) -> object:
    report = audit_file(BytesFile(file_of(XLOG) + data, "00000000000000000005.xlog"))
    return report.problems


def update(data: bytes) -> object:
    """Operations of an UPDATE on a tuple: the input is an array of operations."""
    from headwater.store.update import apply_update

    value = unpack(data)
    if not isinstance(value, list):
        return None
    tuple_ = pack([1, "text", 2.5, None, [1, 2], {"k": 1}, -7])
    return apply_update(data, tuple_, {"name": 1}, 1)


def log_blocks() -> list[bytes]:
    batches = [[row(1), row(2, "é")], transaction(3, 3), [row(6, "x" * 3000)]]
    head = len(format_meta(Meta(XLOG, INSTANCE, VClock())))
    return [log(batches)[head:], log(batches, eof=False)[head:], log(batches[:1], compress=False)[head:]]


def snapshots() -> list[bytes]:
    return [log([[row(0), row(1, "y" * 2500)]], meta=Meta(SNAP, INSTANCE, VClock({1: 5})))]


def frames() -> list[bytes]:
    return [data[19:] for data in (one for one in log_blocks()[:1])] + [
        block[19:] for block in _compressed(b"abc" * 1000, bytes(5000))
    ]


def _compressed(*contents: bytes) -> list[bytes]:
    from headwater.xlog import BlockEncoder

    return [BlockEncoder().encode_one(content) for content in contents]


@cache
def recorded(side: str) -> tuple[bytes, ...]:
    """Small packets of recordings, without their length."""
    found = []
    for path in recordings():
        stream = streams(path)[side][128 if side == "server" else 0 :]
        found += [packet[5:] for packet in packets(stream) if len(packet) < 300][:20]
    return tuple(found)


def recorded_streams() -> list[bytes]:
    return [streams(path)["client"][:2000] for path in recordings()]


def values() -> list[bytes]:
    from decimal import Decimal

    return [
        pack(value)
        for value in (
            [1, -1, 2**63, None, True, "é", b"x", 1.5, Float32(0.5)],
            {"a": [1, {2: 3}], 5: None},
            [Decimal("-12.345"), UUID_1, Datetime(1, 2, 180, 3), Interval(1, -2, 3), Ext(5, b"zip"), Ext(-1, b"time")],
            [er(Code.LOADING), Packed(b"\xcd\x00\x01")],
        )
    ]


TARGETS: dict[str, Target] = {
    # The 23 of test/fuzz: everything that xrow.c decodes.
    "xrow_header": Target(
        lambda data: decode_row(data, exact=True),
        lambda: [*recorded("client"), *recorded("server"), encode_row(row(5))],
    ),
    "xrow_dml": Target(client(Type.SELECT, Type.UPDATE, Type.UPSERT, Type.INSERT_ARROW), client_bodies(DML)),
    "xrow_auth": Target(client(Type.AUTH), client_bodies({Key.USER_NAME: "u", Key.TUPLE: ["chap-sha1", "x" * 20]})),
    "xrow_call": Target(
        client(Type.CALL, Type.CALL_16, Type.EVAL),
        client_bodies({Key.FUNCTION_NAME: "f", Key.EXPR: "e", Key.TUPLE: [1], Key.TUPLE_FORMATS: {}}),
    ),
    "xrow_sql": Target(
        client(Type.EXECUTE, Type.PREPARE), client_bodies({Key.SQL_TEXT: "x", Key.SQL_BIND: [1]}, {Key.STMT_ID: 1})
    ),
    "xrow_begin": Target(
        client(Type.BEGIN), client_bodies({Key.TIMEOUT: 1.5, Key.TXN_ISOLATION: 4, Key.IS_SYNC: True})
    ),
    "xrow_commit": Target(client(Type.COMMIT), client_bodies({Key.IS_SYNC: True})),
    "xrow_id": Target(client(Type.ID), client_bodies({Key.VERSION: 10, Key.FEATURES: [0, 1, 11], Key.AUTH_TYPE: "x"})),
    "xrow_watch": Target(
        client(Type.WATCH, Type.UNWATCH, Type.WATCH_ONCE), client_bodies({Key.EVENT_KEY: "k", Key.EVENT_DATA: [1]})
    ),
    "xrow_error": Target(whole_error, stack_of_an_error),
    "xrow_greeting": Target(greeting.decode, lambda: [greeting.encode(0x030800, UUID_1, bytes(32))]),
    "xrow_join": Target(
        body_of(Type.JOIN, replication.decode_join), rows_of(replication.encode_join(Join(UUID_1, "name", 5)))
    ),
    "xrow_register": Target(
        body_of(Type.REGISTER, replication.decode_register),
        rows_of(replication.encode_register(Register(UUID_1, "name", VCLOCK))),
    ),
    "xrow_subscribe": Target(
        body_of(Type.SUBSCRIBE, replication.decode_subscribe),
        rows_of(replication.encode_subscribe(Subscribe(UUID_1, "r", UUID_1, "i", VCLOCK, 5, True, frozenset((1, 31))))),
    ),
    "xrow_subscribe_response": Target(
        body_of(Type.OK, replication.decode_subscribe_reply),
        rows_of(replication.encode_subscribe(Subscribe(UUID_1, "r", UUID_1, "i", VCLOCK))),
    ),
    "xrow_fetch_snapshot": Target(
        body_of(Type.FETCH_SNAPSHOT, replication.decode_fetch_snapshot),
        rows_of(replication.encode_fetch_snapshot(FetchSnapshot(5, UUID_1, True, VCLOCK, 9))),
    ),
    "xrow_ballot": Target(
        body_of(Type.OK, ballot.decode_ballot),
        lambda: [
            ballot.encode_ballot(ballot.Ballot(vclock=VCLOCK, instance_name="n", registered_replica_uuids=(UUID_1,)))
        ],
    ),
    "xrow_ballot_event": Target(
        event, lambda: [ballot.encode_ballot(ballot.Ballot(vclock=VCLOCK))], (BoxError, MsgPackError)
    ),
    "xrow_raft": Target(
        body_of(Type.RAFT, synchro.decode_raft), rows_of(synchro.encode_raft(RaftMessage(5, 1, 2, 1, True, VCLOCK)))
    ),
    "xrow_synchro": Target(
        body_of(Type.RAFT_PROMOTE, synchro.decode_synchro),
        rows_of(synchro.encode_synchro(Synchro(Type.RAFT_PROMOTE, 1, 5, 2, VCLOCK))),
    ),
    "xrow_relay_heartbeat": Target(
        body_of(Type.OK, replication.decode_relay_heartbeat),
        rows_of(replication.encode_relay_heartbeat(RelayHeartbeat(300), 1)),
    ),
    "xrow_applier_heartbeat": Target(
        body_of(Type.OK, replication.decode_applier_heartbeat),
        rows_of(replication.encode_applier_heartbeat(ApplierHeartbeat(VCLOCK, 3, 300))),
    ),
    "xrow_vclock": Target(body_of(Type.OK, replication.decode_vclock), rows_of(replication.encode_vclock(VCLOCK))),
    # What Headwater reads besides.
    "stream": Target(read_stream, recorded_streams),
    "login": Target(login, bodies(["chap-sha1", "x" * 20], [], ["chap-sha1", b"y" * 20]), (BoxError, MsgPackError)),
    "log_row": Target(body_of(Type.UPSERT, request.of_row), bodies(DML)),
    "msgpack": Target(unpack_from, values, (MsgPackError,)),
    "decimal": Target(unpack_decimal, lambda: [b"\x02\x12\x3d", b"\xd0\x85\x1c"], (MsgPackError,)),
    "datetime": Target(unpack_datetime, lambda: [bytes(8), bytes(16)], (MsgPackError,)),
    "interval": Target(unpack_interval, lambda: [b"\x02\x01\x01\x03\xff", b"\x00"], (MsgPackError,)),
    "vclock_text": Target(vclock_text, lambda: [b"{0: 1, 1: 21}", b"{}", b" { 1 : 2 , }"], (VClockError,)),
    "xlog_head": Target(head_of_a_file, lambda: [file_of(XLOG), file_of(SNAP)]),
    "xlog_fixheader": Target(fixheader, log_blocks),
    "xlog_frame": Target(block_data, frames),
    "xlog_rows": Target(rows_of_a_block, lambda: [packed(transaction(1, 3, "é"))[0], encode_row(row(5))]),
    "xlog_blocks": Target(read_blocks, log_blocks),
    "xlog_blocks_force": Target(read_blocks_by_force, log_blocks, ()),
    "xlog_snapshot": Target(read_snapshot, snapshots),
    "xlog_audit": Target(audited, log_blocks, ()),
    "peer_stream": Target(peer.follow, peer.packets, ()),
    "peer_snapshot": Target(peer.load, peer.snapshot, ()),
    "peer_ids": Target(peer.renumber, peer.packets, ()),
    "frames": Target(peer.frame, peer.rows_of_a_file, (MsgPackError,)),
    "columns_rows": Target(columns.read_rows, columns.rows, (RowError,)),
    "columns_packets": Target(columns.read_packets, columns.packets, (RowError,)),
    "columns_blocks": Target(columns.read_blocks, log_blocks, ()),
    "columns_value": Target(columns.there_and_back, columns.values, (MsgPackError, PackError)),
    "columns_variant": Target(columns.unpack_variant, columns.variants, (PackError,)),
    "columns_tuples": Target(columns.pack_binary, columns.tuples, (PackError, ValueError)),
    "update": Target(
        update,
        bodies(
            [["=", 2, 5], ["+", 3, 1], ["-", -1, 1], ["&", 1, 1], ["|", 1, 1], ["^", 1, 1]],
            [["!", 2, 5], ["#", 3, 1], [":", 2, 1, 2, "x"], ["=", "name", "y"]],
        ),
        (BoxError, MsgPackError),
    ),
}

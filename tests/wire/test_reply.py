"""Bytes of replies, events, greetings and logins, against bytes written by hand from the format."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import BoxError, Er, er
from headwater.wire import auth, greeting, reply
from headwater.wire.constants import VERSION_ID, Key, version_id, version_of
from headwater.wire.msgpack import Ext, pack, unpack
from headwater.wire.xrow import Row, decode_row, encode_packet, encode_row


def preamble(type_: int, sync: int, version: int, size: int) -> bytes:
    return struct.pack(">BI", 0xCE, 27 + size) + struct.pack(
        ">BBBIBBQBBQ", 0x83, 0, 0xCE, type_, 1, 0xCF, sync, 5, 0xCF, version
    )


def test_ok() -> None:
    assert reply.ok(7, 80) == preamble(0, 7, 80, 1) + b"\x80"


def test_data_joins_tuples_as_they_are() -> None:
    odd = b"\x91\xcd\x00\x01"
    body = b"\x81\x30\xdd\x00\x00\x00\x02" + odd + b"\x90"
    assert reply.data(1, 2, [odd, b"\x90"]) == preamble(0, 1, 2, len(body)) + body
    assert reply.data(1, 2, []) == preamble(0, 1, 2, 7) + b"\x81\x30\xdd\x00\x00\x00\x00"


def test_data_with_position_and_formats() -> None:
    tuples = [reply.tuple_as_ext(5, b"\x91\x01")]
    packet = reply.data(1, 2, tuples, b"\xffpos", {5: pack([{"name": "id"}])})
    body = packet[32:]
    assert body[:2] == b"\x83\x30"
    found = unpack(body)
    assert list(found) == [Key.DATA, Key.TUPLE_FORMATS, Key.POSITION]
    assert found[Key.DATA] == [Ext(7, b"\x05\x91\x01")]
    assert found[Key.TUPLE_FORMATS] == {5: [{"name": "id"}]}
    assert found[Key.POSITION].encode("utf-8", "surrogateescape") == b"\xffpos"
    assert unpack(reply.data(1, 2, [], formats={})[32:]) == {Key.DATA: [], Key.TUPLE_FORMATS: {}}


def test_error_has_code_text_and_stack() -> None:
    packet = reply.error(3, 4, er(Er.NO_SUCH_SPACE, "t"))
    assert packet[:32] == preamble(0x8000 | 36, 3, 4, len(packet) - 32)
    body = unpack(packet[32:])
    assert body[Key.ERROR_24] == "Space 't' does not exist"
    assert body[Key.ERROR][0] == [
        {
            0: "ClientError",
            2: 0,
            1: "",
            3: "Space 't' does not exist",
            4: 0,
            5: 36,
            6: {"name": "NO_SUCH_SPACE", "space": "t"},
        }
    ]
    assert list(body[Key.ERROR][0][0]) == [0, 2, 1, 3, 4, 5, 6]


def test_error_tells_where_it_was_raised() -> None:
    with pytest.raises(BoxError) as caught:
        auth.stored_hash("x")
    stack = unpack(reply.error(0, 0, caught.value)[32:])[Key.ERROR][0]
    assert stack[0][1] == "wire/auth.py"
    assert stack[0][2] > 0


def test_chunk_is_no_final_reply() -> None:
    assert reply.chunk(1, 2, b"\x05") == preamble(128, 1, 2, 8) + b"\x81\x30\xdd\x00\x00\x00\x01\x05"


def test_event_has_its_sync_even_if_it_is_0() -> None:
    assert reply.event(0, "k", None).hex() == "ce00000009" + "82004c0100" + "8157a16b"
    assert reply.event(0x1234, "k", b"\xc0").hex() == "ce0000000d" + "82004c01cd1234" + "8257a16b58c0"


# ---- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (Row(2), "810002"),
        (Row(0, sync=9), "810000"),
        (Row(12, replica_id=1, lsn=5, tsn=5, flags=1), "83000c02010305"),
        (Row(2, replica_id=1, lsn=5, tsn=5), "84000202010305" + "0800"),
        (Row(2, replica_id=1, lsn=6, tsn=5, flags=1), "85000202010306" + "0801" + "0901"),
        (Row(2, replica_id=1, lsn=5, tsn=5, flags=7), "84000202010305" + "0906"),
        (Row(2, group_id=1, lsn=5, tsn=9), "84000207010305" + "08cffffffffffffffffc"),
        (Row(2, timestamp=1.5, stream_id=3), "83000204cb3ff80000000000000a03"),
    ],
)
def test_header_of_a_row(row: Row, text: str) -> None:
    assert encode_row(row).hex() == text
    found, _ = decode_row(bytes.fromhex(text))
    assert encode_row(found).hex() == text


rows = st.builds(
    Row,
    st.integers(0, 2**16),
    st.integers(0, 31),
    st.integers(0, 1),
    st.integers(0, 2**63 - 1),
    st.floats(0, 2e9),
    body=st.just(b"") | st.integers().map(lambda number: pack({1: number % 2**60})),
    sync=st.integers(0, 2**64 - 1),
    stream_id=st.integers(0, 2**64 - 1),
)


@given(rows, st.integers(-50, 50), st.integers(0, 7))
def test_row_comes_back(row: Row, distance: int, flags: int) -> None:
    row.flags = flags
    row.tsn = max(row.lsn - distance, 0) if row.lsn else 0
    if row.type == 12:
        row.body = b""
    packet = encode_packet(row)
    found, end = decode_row(packet, 5, exact=True)
    assert end == len(packet)
    assert encode_packet(found) == packet
    assert (found.type, found.lsn, found.sync, found.body) == (row.type, row.lsn, row.sync, row.body)


def test_lsn_of_2_to_the_63_reads_negative() -> None:
    """gh_10578, gh_11177: who follows a vclock must see that it is not newer than anything."""
    found, _ = decode_row(pack({0: 2, 3: 2**63}))
    assert found.lsn == -(2**63)
    assert decode_row(encode_row(found))[0].lsn == found.lsn


# ---- greeting -------------------------------------------------------------------------------------

UUID_1 = UUID("11111111-2222-4333-8444-555555555555")
SALT = bytes(range(32))


@given(
    st.tuples(st.integers(2, 9), st.integers(0, 99), st.integers(0, 99)),
    st.uuids(),
    st.binary(min_size=32, max_size=32),
)
def test_greeting_comes_back(version: tuple[int, int, int], uuid: UUID, salt: bytes) -> None:
    data = greeting.encode(version_id(*version), uuid, salt)
    assert len(data) == 128
    found = greeting.decode(data)
    assert (found.version_id, found.protocol, found.uuid, found.salt) == (version_id(*version), "Binary", uuid, salt)


def test_greeting_as_a_client_sees_it() -> None:
    lines = greeting.encode(VERSION_ID, UUID_1, SALT).decode().split("\n")
    assert lines[0].rstrip() == f"Tarantool 3.8.0 (Binary) {UUID_1}"
    assert [len(line) for line in lines] == [63, 63, 0]
    assert version_of(VERSION_ID) == (3, 8, 0)


def first_line(text: str) -> bytes:
    return text.encode().ljust(63) + greeting.encode(VERSION_ID, UUID_1, SALT)[63:]


@pytest.mark.parametrize(
    ("text", "version", "protocol"),
    [
        (f"Tarantool  2.6.0 (Binary) {UUID_1}", (2, 6, 0), "Binary"),
        (f"Tarantool 3.9.0-x (Binary) {UUID_1}", (3, 9, 0), "Binary"),
        ("Tarantool 1.6.6-83-gc6b2129", (1, 6, 6), "Binary"),
        ("Tarantool 2.6.0 (Lua console)", (2, 6, 0), "Lua console"),
    ],
)
def test_greetings_of_others(text: str, version: tuple[int, int, int], protocol: str) -> None:
    found = greeting.decode(first_line(text))
    assert (version_of(found.version_id), found.protocol) == (version, protocol)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        greeting.encode(VERSION_ID, UUID_1, SALT)[:-1],
        greeting.encode(VERSION_ID, UUID_1, SALT) + b" ",
        greeting.encode(VERSION_ID, UUID_1, SALT).replace(b"\n", b" "),
        first_line("Redis 3.8.0 (Binary) " + str(UUID_1)),
        first_line("Tarantool 3.8 (Binary) " + str(UUID_1)),
        first_line("Tarantool x.y.z (Binary) " + str(UUID_1)),
        first_line("Tarantool 3.8.0 " + str(UUID_1)),
        first_line("Tarantool 3.8.0 (Binary " + str(UUID_1)),
        first_line("Tarantool 3.8.0 (Binary)" + str(UUID_1)),
        first_line("Tarantool 3.8.0 (Binary) not-a-uuid"),
        first_line("Tarantool 3.8.0-very-long-version (Binary) x"),
        greeting.encode(VERSION_ID, UUID_1, b"short"),
        greeting.encode(VERSION_ID, UUID_1, SALT)[:64] + b"!" * 63 + b"\n",
    ],
)
def test_bytes_that_are_no_greeting(data: bytes) -> None:
    with pytest.raises(BoxError, match=r"^Invalid greeting$") as caught:
        greeting.decode(data)
    assert caught.value.code == Er.PROTOCOL


# ---- login ----------------------------------------------------------------------------------------


def test_known_passwords() -> None:
    """The empty password is the one that `_user` of every bootstrap file holds."""
    assert auth.stored_password("") == "vhvewKp0tNyweZQ+cFKAlsyphfg="


@given(st.text(max_size=20), st.text(max_size=20), st.binary(min_size=20, max_size=32))
def test_right_password_is_told_from_wrong(password: str, other: str, salt: bytes) -> None:
    hash2 = auth.stored_hash(auth.stored_password(password))
    assert auth.check(auth.scramble(password, salt), salt, hash2)
    assert auth.check(auth.scramble(other, salt), salt, hash2) == (other == password)
    assert not auth.check(auth.scramble(password, salt), bytes(20), hash2) or salt[:20] == bytes(20)


def test_login_by_string_and_by_binary() -> None:
    hash2 = auth.stored_hash(auth.stored_password("secret"))
    answer = auth.scramble("secret", SALT)
    for form in (answer, answer.decode("utf-8", "surrogateescape")):
        auth.authenticate(pack(["chap-sha1", form]), SALT, hash2, is_guest=False)
    auth.authenticate(pack([]), SALT, None, is_guest=True)


@pytest.mark.parametrize(
    ("tuple_", "hash2", "code", "text"),
    [
        ([], None, Er.INVALID_MSGPACK, "Invalid MsgPack - authentication request body"),
        (["chap-sha1"], None, Er.INVALID_MSGPACK, "Invalid MsgPack - authentication request body"),
        ([1, 2], None, Er.INVALID_MSGPACK, "Invalid MsgPack - authentication request body"),
        (["pap-sha256", "x"], None, Er.UNKNOWN_AUTH_METHOD, "Unknown authentication method 'pap-sha256'"),
        (["chap-sha1", 1], None, Er.INVALID_AUTH_REQUEST, "Invalid 'chap-sha1' request: scramble must be string"),
        (["chap-sha1", "x"], None, Er.INVALID_AUTH_REQUEST, "Invalid 'chap-sha1' request: invalid scramble size"),
        (["chap-sha1", b"x" * 20], None, Er.CREDS_MISMATCH, "User not found or supplied credentials are invalid"),
        (["chap-sha1", b"x" * 20], b"y" * 20, Er.CREDS_MISMATCH, "User not found or supplied credentials are invalid"),
    ],
)
def test_login_refused(tuple_: object, hash2: bytes | None, code: Er, text: str) -> None:
    """The same words whether the user exists or not."""
    with pytest.raises(BoxError) as caught:
        auth.authenticate(pack(tuple_), SALT, hash2, is_guest=False)
    assert (caught.value.code, caught.value.message) == (code, text)


@pytest.mark.parametrize("text", ["", "x" * 28, "vhvewKp0tNyweZQ+cFKAlsyphfg", "é" * 28])
def test_stored_password_that_is_none(text: str) -> None:
    with pytest.raises(BoxError, match="Invalid 'chap-sha1' data: invalid scramble size"):
        auth.stored_hash(text)

"""Bytes in, replies out: order, the journal, packets, login."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.box import UUID_1, Box, Client, in_simulation, pack_map

from headwater.errors import Er
from headwater.wire import auth
from headwater.wire.constants import FEATURES, PROTOCOL_VERSION, VERSION_ID, Feature, Key, Type
from headwater.wire.msgpack import pack
from headwater.wire.request import encode


def test_a_connection_is_greeted(client: Client) -> None:
    assert client.greeting is not None
    assert client.greeting.uuid == UUID_1
    assert client.greeting.version_id == VERSION_ID
    assert len(client.greeting.salt) == 32


def test_a_read_of_quiet_data_is_answered_at_once(client: Client) -> None:
    reply = client.ask(Type.PING)
    assert reply.body == {}
    assert reply.schema_version == client.box.memtx.schema_version
    client.select(1)
    assert client.replies()[0].data == []


def test_a_write_is_answered_when_it_is_written(client: Client) -> None:
    client.insert(1, "a")
    assert client.replies() == []
    client.box.journal.write()
    assert [reply.data for reply in client.replies()] == [[[1, "a"]]]


def test_a_read_of_what_is_not_written_waits_and_those_behind_it_too(client: Client) -> None:
    client.insert(1, "a")
    other = client.box.connect()
    other.select(1)
    other.send(Type.PING)
    assert other.replies() == []
    client.box.journal.write()
    first, second = other.replies()
    assert first.data == [[1, "a"]]
    assert second.sync == 2


def test_one_read_many_requests_one_write(client: Client) -> None:
    packets = [client.packet(Type.REPLACE, {Key.SPACE_ID: 512, Key.TUPLE: [n, str(n)]}) for n in range(50)]
    packets.insert(20, client.packet(Type.UPDATE, {Key.SPACE_ID: 512, Key.KEY: [1], Key.TUPLE: [["=", 1, "x"]]}))
    packets.insert(30, client.packet(Type.SELECT, {Key.SPACE_ID: 99, Key.LIMIT: 1, Key.KEY: []}))
    before = len(client.link.chunks)
    client.say(*packets)
    client.box.journal.write()
    assert [reply.sync for reply in client.replies()] == [
        *range(1, 21), 51, *range(21, 30), 52, *range(30, 51)
    ]  # fmt: skip
    assert len(client.link.chunks) - before <= 5


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_packets_may_come_in_any_pieces(client: Client, size: int) -> None:
    data = b"".join(
        [
            client.packet(Type.PING),
            client.packet(Type.REPLACE, {Key.SPACE_ID: 512, Key.TUPLE: [1, "x" * 300]}),
            client.packet(Type.UPSERT, {Key.SPACE_ID: 512, Key.TUPLE: [1, "y"], Key.OPS: [["=", 1, "z"]]}),
            client.packet(Type.PING),
        ]
    )
    for start in range(0, len(data), size):
        client.say(data[start : start + size])
    client.box.journal.write()
    assert [reply.sync for reply in client.replies()] == [1, 2, 3, 4]
    assert client.box.select("t") == [[1, "z"]]


# ---- a journal that fails --------------------------------------------------------------------------------


def test_when_the_journal_fails_writes_say_so_and_reads_look_again(client: Client) -> None:
    client.insert(1, "old")
    client.box.journal.write()
    client.replies()
    client.say(
        client.packet(Type.REPLACE, {Key.SPACE_ID: 512, Key.TUPLE: [1, "new"]}),
        client.packet(Type.SELECT, {Key.SPACE_ID: 512, Key.LIMIT: 1, Key.KEY: [1]}),
        client.packet(Type.PING),
    )
    client.send(Type.SELECT, {Key.SPACE_NAME: "t", Key.LIMIT: 1, Key.KEY: [1]})
    client.send(Type.UPDATE, {Key.SPACE_ID: 512, Key.KEY: [1], Key.TUPLE: [["=", 1, "newer"]]})
    client.box.journal.fail()
    replies = client.replies()
    assert [reply.code for reply in replies] == [Er.WAL_IO, None, None, None, Er.WAL_IO]
    assert replies[1].data == replies[3].data == [[1, "old"]]
    assert client.box.select("t") == [[1, "old"]]


def test_a_read_that_looks_again_may_have_to_wait_again(box: Box) -> None:
    one, two = box.connect(), box.connect()
    one.insert(1, "first")
    two.select(1)

    def write_more(error: Any) -> None:
        one.insert(2, "second")
        two.box.replace("t", 1, "other")

    box.journal._waiters.insert(0, write_more)
    box.journal.fail()
    assert two.replies() == []
    box.journal.write()
    assert two.replies()[0].data == [[1, "other"]]


def test_a_duplicate_that_is_not_written_is_not_told_before_it_is(box: Box) -> None:
    one, two = box.connect(), box.connect()
    one.insert(1, "a")
    two.insert(1, "b")
    assert two.replies() == []
    box.journal.write()
    assert two.replies()[0].code == Er.TUPLE_FOUND


# ---- packets that are none --------------------------------------------------------------------------------


def test_a_length_that_is_no_number_closes(client: Client) -> None:
    client.say(client.packet(Type.PING), b"\x90\x00\x00")
    good, bad = client.replies()
    assert good.code is None
    assert (bad.code, bad.message) == (Er.INVALID_MSGPACK, "Invalid MsgPack - packet length")
    assert client.link.is_closed


def test_what_was_said_before_the_end_is_still_answered(client: Client) -> None:
    client.insert(1, "a")
    client.say(b"\xc0")
    assert not client.link.is_closed
    client.box.journal.write()
    assert [reply.code for reply in client.replies()] == [None, Er.INVALID_MSGPACK]
    assert client.link.is_closed


def test_before_login_packets_are_small(box: Box) -> None:
    box.delete(312, [0, "space", 512])
    box.journal.write()
    client = box.connect()
    client.say(b"\xce\x00\x01\x00\x01")
    (reply,) = client.replies()
    assert reply.message == "Invalid MsgPack - too big packet size in the header: 65537"
    assert client.link.is_closed


def test_a_guest_with_privileges_of_his_own_is_no_stranger(client: Client) -> None:
    client.say(b"\xce\x00\x01\x00\x01")
    assert client.replies() == []
    client.box.options.assign({"max_packet": 70000})
    client.disconnect()
    other = client.box.connect()
    other.say(b"\xce\x00\x02\x00\x01")
    assert other.replies()[0].code == Er.INVALID_MSGPACK


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x90", "Invalid MsgPack - packet header"),
        (b"\x82\x00\x40\x01", "Invalid MsgPack - packet header"),
        (b"\x82\x00\x40\x01\x07\x81", "Invalid MsgPack - packet body"),
        (b"\x82\x01\x07\x00\x01", "Missing mandatory field 'SPACE_ID' in request"),
        (b"\x82\x01\x07\x00\xcc\x7f", "Unknown request type 127"),
        (b"\x82\x01\x07\x00\x0c", "Unknown request type 12"),
        (b"\x82\x01\x07\x00\x0e", "Unable to process BEGIN request out of stream"),
        (b"\x83\x01\x07\x00\x07\x0a\x01", "Unable to process AUTH request in stream"),
    ],
)
def test_a_bad_packet_is_told_and_the_connection_goes_on(client: Client, data: bytes, message: str) -> None:
    client.say(b"\xce" + len(data).to_bytes(4, "big") + data, client.packet(Type.PING, sync=99))
    bad, good = client.replies()
    assert bad.message == message
    assert good.sync == 99


def test_a_wrong_schema_version_is_refused(client: Client) -> None:
    header = b"\x83\x00\x40\x01\x05\x05\xcd\x27\x0f"
    client.say(b"\xce" + len(header).to_bytes(4, "big") + header)
    (reply,) = client.replies()
    assert reply.code == Er.WRONG_SCHEMA_VERSION


def test_sql_and_eval_say_what_to_use_instead(box: Box) -> None:
    client = box.connect()
    assert client.ask(Type.EVAL, {Key.EXPR: "return 1", Key.TUPLE: []}).code == Er.ACCESS_DENIED
    box.replace(312, 1, 0, "universe", 0, 24 | 4)
    box.journal.write()
    reply = client.ask(Type.EVAL, {Key.EXPR: "return 1", Key.TUPLE: []})
    assert reply.message == "Headwater does not support EVAL: write a procedure in Python and CALL it"
    assert client.ask(Type.EXECUTE, {Key.SQL_TEXT: "SELECT 1"}).code == Er.UNSUPPORTED


def test_a_mistake_of_ours_is_an_error_and_no_more(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    def broken(session: Any, txn: Any) -> Any:
        raise ZeroDivisionError

    client.box.procedures.named["broken"] = broken
    assert client.ask(Type.CALL, {Key.FUNCTION_NAME: "broken"}).code == Er.UNKNOWN
    assert "ZeroDivisionError" in caplog.text
    assert client.ask(Type.PING).code is None


# ---- login ---------------------------------------------------------------------------------------------------


def _login(client: Client, user: str, password: str | None) -> Any:
    assert client.greeting is not None
    answer = [] if password is None else ["chap-sha1", auth.scramble(password, client.greeting.salt)]
    return client.ask(Type.AUTH, {Key.USER_NAME: user, Key.TUPLE: answer})


@pytest.fixture
def joe(box: Box) -> Box:
    box.insert(304, 40, 1, "joe", "user", {"chap-sha1": auth.stored_password("secret")}, [], 0)
    box.insert(312, 1, 40, "universe", 0, 24)
    box.insert(312, 1, 40, "role", 2, 4)
    box.journal.write()
    return box


def test_login_by_password(joe: Box) -> None:
    client = joe.connect()
    assert _login(client, "joe", "secret").code is None
    assert client.session.user.name == "joe"
    client.select(1)
    (reply,) = client.replies()
    assert reply.message == "Read access to space 't' is denied for user 'joe'"
    assert _login(client, "guest", None).code is None
    client.select(1)
    assert client.replies()[0].data == []


@pytest.mark.parametrize(("user", "password"), [("joe", "wrong"), ("nobody", "secret"), ("public", "x"), ("admin", "")])
def test_a_wrong_user_and_a_wrong_password_are_told_apart_by_nobody(joe: Box, user: str, password: str) -> None:
    client = joe.connect()
    reply = _login(client, user, password)
    assert (reply.code, reply.message) == (Er.CREDS_MISMATCH, "User not found or supplied credentials are invalid")
    assert client.session.user.name == "guest"


def test_login_needs_the_privilege_of_a_session(joe: Box) -> None:
    joe.replace(312, 1, 40, "universe", 0, 16)
    joe.journal.write()
    assert _login(joe.connect(), "joe", "secret").message == "Session access to universe '' is denied for user 'joe'"


def test_what_is_wrong_with_the_request_comes_first(joe: Box) -> None:
    client = joe.connect()
    assert _login(client, "joe", None).code == Er.INVALID_MSGPACK
    bad = client.ask(Type.AUTH, {Key.USER_NAME: "joe", Key.TUPLE: ["pap-sha256", "x"]})
    assert bad.code == Er.UNKNOWN_AUTH_METHOD


def test_who_is_dropped_meanwhile_is_nobody(joe: Box) -> None:
    client = joe.connect()
    _login(client, "joe", "secret")
    joe.delete(312, [40, "universe", 0])
    joe.delete(312, [40, "role", 2])
    joe.delete(304, [40])
    joe.journal.write()
    client.select(1)
    assert client.replies()[0].code == Er.NO_SUCH_USER


# ---- ID, VOTE, loading -----------------------------------------------------------------------------------------


def test_id_tells_what_we_speak(client: Client) -> None:
    reply = client.ask(Type.ID, {Key.VERSION: 10, Key.FEATURES: [0, 1, 2, 99]})
    assert reply.body == {Key.VERSION: PROTOCOL_VERSION, Key.FEATURES: sorted(FEATURES), Key.AUTH_TYPE: "chap-sha1"}
    assert Feature.FETCH_SNAPSHOT_CURSOR in reply.body[Key.FEATURES]


def test_votes_are_given_to_anybody(client: Client) -> None:
    assert client.ask(Type.VOTE).body[Key.BALLOT][2] == {1: 7}
    assert client.ask(Type.VOTE_DEPRECATED).body == {Key.VCLOCK: {1: 7}}


def test_nothing_is_readable_before_recovery_is_complete(box: Box) -> None:
    box.is_ready = False
    client = box.connect()
    for kind, body in (
        (Type.SELECT, {Key.SPACE_ID: 512, Key.LIMIT: 1, Key.KEY: []}),
        (Type.AUTH, {Key.USER_NAME: "guest", Key.TUPLE: []}),
        (Type.CALL, {Key.FUNCTION_NAME: "box.info"}),
    ):
        assert client.ask(kind, body).code == Er.LOADING
    assert client.ask(Type.PING).code is None
    assert client.ask(Type.VOTE).code is None
    box.is_ready = True
    client.select(1)
    assert client.replies()[0].code is None


def test_tuples_tell_their_format_where_it_was_negotiated(box: Box) -> None:
    box.replace("t", 1, "a")
    box.journal.write()
    client = box.connect()
    client.ask(Type.ID, {Key.VERSION: 10, Key.FEATURES: [7, 8]})
    client.select(1)
    raw = client.replies()[0].raw
    assert b"\x30\xdd\x00\x00\x00\x01\xc7" in raw
    assert raw[32] == 0x82
    formats = [{"name": "id", "type": "unsigned"}, {"name": "name", "type": "string"}]
    assert raw.endswith(b"\x60\x81\xcd\x02\x00" + pack(formats))
    client.select(2)
    assert client.replies()[0].raw.endswith(b"\x60\x80")
    box.procedures.named["one"] = lambda session, txn: 1
    client.send(Type.CALL, {Key.FUNCTION_NAME: "one"})
    assert client.replies()[0].raw.endswith(b"\x82\x30\xdd\x00\x00\x00\x01\x01\x60\x80")


# ---- procedures ------------------------------------------------------------------------------------------------


def test_a_call_is_answered_when_what_it_did_is_written(box: Box) -> None:
    def put(session: Any, txn: Any, id: int) -> str:
        box.replace("t", id, f"by {session.user.name}")
        return "done"

    box.procedures.named["put"] = put
    client = box.connect()
    client.send(Type.CALL, {Key.FUNCTION_NAME: "put", Key.TUPLE: [5]})
    assert client.replies() == []
    box.journal.fail()
    assert client.replies()[0].code == Er.WAL_IO
    client.send(Type.CALL, {Key.FUNCTION_NAME: "put", Key.TUPLE: [5]})
    box.journal.write()
    assert client.replies()[0].data == ["done"]
    assert client.ask(Type.CALL, {Key.FUNCTION_NAME: "none"}).code == Er.NO_SUCH_PROC


def test_a_procedure_that_waits_does_not_hold_up_the_others() -> None:
    async def test(box: Box) -> None:
        async def slow(session: Any, txn: Any, seconds: float) -> str:
            await box.world.tasks.sleep(seconds)
            if seconds > 5:
                raise ValueError("too slow")
            return f"after {seconds}"

        box.procedures.named["slow"] = slow
        client = box.connect()
        for seconds in (3.0, 1.0, 9.0):
            client.send(Type.CALL, {Key.FUNCTION_NAME: "slow", Key.TUPLE: [seconds]})
        client.send(Type.PING)
        assert [reply.sync for reply in client.replies()] == [4]
        assert box.server.in_flight == 3
        await box.world.tasks.sleep(4)
        assert [(reply.sync, reply.data) for reply in client.replies()] == [(2, ["after 1.0"]), (1, ["after 3.0"])]
        await box.world.tasks.sleep(6)
        assert client.replies()[0].code == Er.UNKNOWN
        assert box.server.in_flight == 0
        assert not client.session.is_busy

    in_simulation(test)


def test_requests_are_counted(client: Client) -> None:
    client.insert(1, "a")
    client.select(1)
    client.box.journal.write()
    client.replies()
    client.ask(Type.SELECT, {Key.SPACE_NAME: "nowhere", Key.LIMIT: 1, Key.KEY: []})
    net, requests = client.box.stats.net, client.box.stats.requests
    assert net.total("REQUESTS") == 3
    assert net.total("RECEIVED") > 60
    assert net.total("SENT") > net.total("RECEIVED")
    assert requests.total("ERROR") == 1
    client.disconnect()
    assert net.shown(current=True)["CONNECTIONS"] == {"rps": 1, "total": 1, "current": 0}


def test_encoded_requests_are_what_the_client_module_makes() -> None:
    assert encode(Type.PING, 7) == b"\xce\x00\x00\x00\x05\x82\x01\x07\x00\x40"
    assert pack_map({Key.SPACE_ID: 512}) == b"\x81\x10\xcd\x02\x00"

"""Packets of replication: values to bodies and back, and what the decoders refuse in 3.x's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import AccessDenied, BoxError, Er, XlogGapError, er
from headwater.wire import ballot, replication, reply, synchro
from headwater.wire.ballot import Ballot
from headwater.wire.constants import BallotKey, Key, RaftKey, Type
from headwater.wire.msgpack import pack
from headwater.wire.replication import (
    ApplierHeartbeat,
    FetchSnapshot,
    Join,
    Register,
    RelayHeartbeat,
    Subscribe,
    SubscribeReply,
)
from headwater.wire.synchro import RaftMessage, Synchro
from headwater.wire.xrow import Row, decode_row, encode_packet

UUID_1 = UUID("11111111-2222-4333-8444-555555555555")

uuids = st.uuids()
names = st.from_regex(r"\A[a-z][a-z0-9_-]{0,62}\Z") | st.just("")
lsns = st.integers(1, 2**63 - 1)
vclocks = st.dictionaries(st.integers(1, 31), lsns)
whole_vclocks = st.dictionaries(st.integers(0, 31), lsns)
u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)


@given(st.builds(Join, uuids, names, u32))
def test_join(message: Join) -> None:
    assert replication.decode_join(replication.encode_join(message)) == message


@given(st.builds(Register, uuids, names, vclocks))
def test_register(message: Register) -> None:
    assert replication.decode_register(replication.encode_register(message)) == message


@given(st.builds(Subscribe, uuids, names, uuids, names, vclocks, u32, st.booleans(), st.frozensets(st.integers(0, 31))))
def test_subscribe(message: Subscribe) -> None:
    assert replication.decode_subscribe(replication.encode_subscribe(message)) == message


@given(st.builds(SubscribeReply, uuids, names, vclocks), st.integers(1, 31))
def test_subscribe_reply(message: SubscribeReply, replica_id: int) -> None:
    row = replication.encode_subscribe_reply(message, replica_id)
    assert row.replica_id == replica_id
    assert replication.decode_subscribe_reply(row) == message


@given(st.builds(FetchSnapshot, u32, uuids) | st.builds(FetchSnapshot, u32, uuids, st.just(True), whole_vclocks, u64))
def test_fetch_snapshot(message: FetchSnapshot) -> None:
    assert replication.decode_fetch_snapshot(replication.encode_fetch_snapshot(message)) == message


def test_fetch_snapshot_of_old_peers_has_no_body() -> None:
    assert replication.decode_fetch_snapshot(Row(Type.FETCH_SNAPSHOT)) == FetchSnapshot()


@given(st.builds(ApplierHeartbeat, vclocks, u64, u64))
def test_applier_heartbeat(message: ApplierHeartbeat) -> None:
    assert replication.decode_applier_heartbeat(replication.encode_applier_heartbeat(message)) == message


@given(st.builds(RelayHeartbeat, u64), st.integers(1, 31))
def test_relay_heartbeat(message: RelayHeartbeat, replica_id: int) -> None:
    assert replication.decode_relay_heartbeat(replication.encode_relay_heartbeat(message, replica_id)) == message


@given(whole_vclocks)
def test_vclock_with_and_without_component_0(vclock: dict[int, int]) -> None:
    without = {id_: lsn for id_, lsn in vclock.items() if id_}
    assert replication.decode_vclock(replication.encode_vclock(vclock, ignore0=False)) == without
    assert replication.encode_vclock(vclock) == replication.encode_vclock(without)


def test_acknowledgement_of_2_10() -> None:
    """The vector that Tarantool's documents give: vclock {1: 9}."""
    row = replication.encode_applier_heartbeat(ApplierHeartbeat({1: 9}, term=None))
    assert encode_packet(row)[5:].hex() == "810000" + "8126810109"


@given(
    st.builds(Ballot, *[st.booleans()] * 4, vclocks, vclocks, st.booleans(), uuids, names, st.lists(uuids).map(tuple))
)
def test_ballot(message: Ballot) -> None:
    if len(message.registered_replica_uuids) > 31:
        return
    body = ballot.encode_ballot(message)
    assert ballot.decode_ballot(Row(Type.OK, body=body)) == message
    assert ballot.decode_ballot_event(body, Ballot(instance_name=message.instance_name)) == message


def test_absent_fields_of_a_ballot() -> None:
    """In an answer to VOTE they have defaults, in an event they stay what they were."""
    body = pack({Key.BALLOT: {BallotKey.IS_RO: True, 99: [1], "a": 2}})
    before = Ballot(is_booted=False, can_lead=True, vclock={1: 1}, instance_name="n")
    assert ballot.decode_ballot(Row(Type.OK, body=body)) == Ballot(is_ro=True)
    after = ballot.decode_ballot_event(body, before)
    assert after == Ballot(is_booted=False, can_lead=True, vclock={1: 1}, instance_name="n", is_ro=True)


@pytest.mark.parametrize("value", [{}, {"a": 1}, {Key.BALLOT: {}}, {Key.BALLOT: {BallotKey.INSTANCE_NAME: "x"}}])
def test_event_that_says_nothing(value: object) -> None:
    assert ballot.decode_ballot_event(pack(value), Ballot()) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        pack([]),
        pack({Key.BALLOT: []}),
        pack({Key.BALLOT: {BallotKey.IS_RO: 1}}),
        pack({Key.BALLOT: {BallotKey.VCLOCK: {32: 1}}}),
        pack({Key.BALLOT: {BallotKey.BOOTSTRAP_LEADER_UUID: "x"}}),
        pack({Key.BALLOT: {BallotKey.INSTANCE_NAME: "Upper"}}),
        pack({Key.BALLOT: {BallotKey.REGISTERED_REPLICA_UUIDS: [str(UUID_1)] * 32}}),
    ],
)
def test_ballot_that_is_malformed(body: bytes) -> None:
    with pytest.raises(BoxError, match=r"^Invalid MsgPack - packet body$"):
        ballot.decode_ballot(Row(Type.OK, body=body))


# ---- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decode", "body", "words"),
    [
        (replication.decode_join, None, "request body"),
        (replication.decode_join, [], "request body"),
        (replication.decode_join, {Key.INSTANCE_UUID: 1}, "instance UUID"),
        (replication.decode_join, {Key.INSTANCE_UUID: "x" * 36}, "instance UUID"),
        (replication.decode_join, {Key.INSTANCE_NAME: ""}, "invalid INSTANCE_NAME"),
        (replication.decode_join, {Key.INSTANCE_NAME: "1a"}, "invalid INSTANCE_NAME"),
        (replication.decode_join, {Key.INSTANCE_NAME: "a" * 64}, "invalid INSTANCE_NAME"),
        (replication.decode_join, {Key.SERVER_VERSION: "3"}, "invalid VERSION"),
        (replication.decode_register, {Key.VCLOCK: []}, "invalid VCLOCK"),
        (replication.decode_register, {Key.VCLOCK: {"1": 1}}, "invalid VCLOCK"),
        (replication.decode_register, {Key.VCLOCK: {1: -1}}, "invalid VCLOCK"),
        (replication.decode_register, {Key.VCLOCK: {32: 1}}, "invalid VCLOCK"),
        (replication.decode_register, {Key.VCLOCK: {1: 2**63}}, "invalid VCLOCK"),
        (replication.decode_subscribe, {Key.REPLICASET_UUID: b"x"}, "replicaset UUID"),
        (replication.decode_subscribe, {Key.REPLICASET_NAME: "A"}, "invalid REPLICASET_NAME"),
        (replication.decode_subscribe, {Key.REPLICA_ANON: 1}, "invalid REPLICA_ANON flag"),
        (replication.decode_subscribe, {Key.ID_FILTER: 1}, "invalid ID_FILTER"),
        (replication.decode_subscribe, {Key.ID_FILTER: ["1"]}, "invalid ID_FILTER"),
        (replication.decode_subscribe, {Key.ID_FILTER: [32]}, "invalid ID_FILTER"),
        (replication.decode_subscribe_reply, {Key.VCLOCK: 1}, "invalid VCLOCK"),
        (replication.decode_fetch_snapshot, {Key.IS_CHECKPOINT_JOIN: 1}, "invalid IS_CHECKPOINT_JOIN"),
        (replication.decode_fetch_snapshot, {Key.CHECKPOINT_VCLOCK: 1}, "invalid CHECKPOINT_VCLOCK"),
        (replication.decode_fetch_snapshot, {Key.CHECKPOINT_LSN: "1"}, "invalid CHECKPOINT_LSN"),
        (replication.decode_vclock, None, "request body"),
        (replication.decode_vclock, {Key.VCLOCK: None}, "invalid VCLOCK"),
        (replication.decode_relay_heartbeat, [], "request body"),
        (replication.decode_relay_heartbeat, {Key.VCLOCK_SYNC: "1"}, "invalid vclock sync"),
        (replication.decode_applier_heartbeat, None, "request body"),
        (replication.decode_applier_heartbeat, [], "request body"),
        (replication.decode_applier_heartbeat, {Key.VCLOCK: {40: 1}}, "invalid vclock"),
        (replication.decode_applier_heartbeat, {Key.VCLOCK_SYNC: -1}, "invalid vclock sync"),
        (replication.decode_applier_heartbeat, {Key.TERM: None}, "invalid term"),
    ],
)
def test_malformed_body(decode: Callable[[Row], Any], body: object, words: str) -> None:
    with pytest.raises(BoxError, match=f"^Invalid MsgPack - {words}$") as caught:
        decode(Row(0, body=b"" if body is None else pack(body)))
    assert caught.value.code == Er.INVALID_MSGPACK


def test_keys_that_a_request_does_not_have_are_skipped() -> None:
    body = pack({Key.INSTANCE_UUID: str(UUID_1), Key.VCLOCK: "not looked at", "a": 1, 0x70: 2, Key.SERVER_VERSION: 5})
    assert replication.decode_join(Row(Type.JOIN, body=body)) == Join(UUID_1, "", 5)


def test_vclock_that_goes_back_in_itself() -> None:
    body = bytes((0x81, Key.VCLOCK, 0x82, 1, 5, 1, 5))
    with pytest.raises(BoxError, match="invalid VCLOCK"):
        replication.decode_register(Row(Type.REGISTER, body=body))
    body = bytes((0x81, Key.VCLOCK, 0x83, 1, 5, 1, 6, 2, 0))
    assert replication.decode_register(Row(Type.REGISTER, body=body)).vclock == {1: 6}


# ---- raft and the queue ---------------------------------------------------------------------------

rafts = st.builds(RaftMessage, u64, u32, u32, u32, st.booleans(), st.none() | vclocks, st.integers(0, 1))


@given(rafts)
def test_raft(message: RaftMessage) -> None:
    assert synchro.decode_raft(synchro.encode_raft(message)) == message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (None, "malformed raft request"),
        ([], "raft body"),
        ({"a": 1}, "raft body"),
        ({RaftKey.TERM: "1"}, "raft body"),
        ({RaftKey.VOTE: -1}, "raft body"),
        ({RaftKey.STATE: None}, "raft body"),
        ({RaftKey.LEADER_ID: 1.5}, "raft body"),
        ({RaftKey.IS_LEADER_SEEN: 1}, "raft body"),
        ({RaftKey.VCLOCK: {33: 1}}, "raft body"),
    ],
)
def test_raft_that_is_malformed(body: object, words: str) -> None:
    with pytest.raises(BoxError, match=f"^Invalid MsgPack - {words}$"):
        synchro.decode_raft(Row(Type.RAFT, body=b"" if body is None else pack(body)))
    with pytest.raises(BoxError, match="raft body"):
        synchro.decode_raft(Row(Type.PING, body=b"\x80"))


@given(
    st.builds(Synchro, st.sampled_from((Type.RAFT_CONFIRM, Type.RAFT_ROLLBACK)), u32, u64, origin_id=st.integers(0, 31))
    | st.builds(
        Synchro,
        st.sampled_from((Type.RAFT_PROMOTE, Type.RAFT_DEMOTE)),
        u32,
        u64,
        u64,
        st.none() | vclocks,
        st.integers(0, 31),
    )
)
def test_synchro(message: Synchro) -> None:
    assert synchro.decode_synchro(synchro.encode_synchro(message)) == message


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({2: 0, 3: 0, 0x53: 0}, Synchro(Type.RAFT_PROMOTE)),
        ({2: 0, 3: 0, 0x26: {}}, Synchro(Type.RAFT_PROMOTE, confirmed_vclock={})),
        ({2: 1, 3: 5, 0x53: 1, 0x26: {1: 5}}, Synchro(Type.RAFT_PROMOTE, 1, 5, 1, {1: 5})),
        ({}, Synchro(Type.RAFT_PROMOTE)),
    ],
)
def test_checkpoint_promotes_of_many_versions(body: object, expected: Synchro) -> None:
    assert synchro.decode_synchro(Row(Type.RAFT_PROMOTE, body=pack(body))) == expected


@pytest.mark.parametrize("body", [None, [], {2: "1"}, {3: -1}, {0x53: None}, {0x26: {40: 1}}, {0x10: "x"}])
def test_synchro_that_is_malformed(body: object) -> None:
    with pytest.raises(BoxError, match=r"^Invalid MsgPack - request body$"):
        synchro.decode_synchro(Row(Type.RAFT_PROMOTE, body=b"" if body is None else pack(body)))


def test_only_words_about_the_queue_are_encoded_as_such() -> None:
    with pytest.raises(BoxError, match="Unknown request type 2"):
        synchro.encode_synchro(Synchro(Type.INSERT))


# ---- errors ---------------------------------------------------------------------------------------


def answered(error: BoxError) -> BoxError:
    packet = reply.error(5, 7, error)
    row, _ = decode_row(packet, 5, exact=True)
    assert (row.type, row.sync, row.schema_version) == (0x8000 | error.code, 5, 7)
    return replication.decode_error(row)


def test_error_of_a_peer_keeps_its_class() -> None:
    gap = XlogGapError.between(3, "{1: 3}", 9, "{1: 9}")
    assert gap.message == "Missing .xlog file between LSN 3 {1: 3} and 9 {1: 9}"
    assert isinstance(answered(gap), XlogGapError)
    assert isinstance(answered(AccessDenied("Read", "universe", "", "guest")), AccessDenied)
    found = answered(er(Er.LOADING, cause=er(Er.PROTOCOL, "below")))
    assert (found.code, found.cause and found.cause.message) == (Er.LOADING, "below")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", ""),
        (pack([]), ""),
        (pack({Key.ERROR_24: "old peer"}), "old peer"),
        (pack({Key.ERROR_24: 1, "a": 2}), ""),
        (pack({Key.ERROR_24: "text", Key.ERROR: {0: 1}}), ""),
    ],
)
def test_error_without_a_stack_is_a_client_error_of_its_type(body: bytes, message: str) -> None:
    found = replication.decode_error(Row(0x8000 | 219, body=body))
    assert (type(found), found.code, found.message) == (BoxError, 219, message)

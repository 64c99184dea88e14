"""Which error is tried again."""

from __future__ import annotations

import errno

import pytest

from headwater.errors import BoxError, Er, OutOfMemory, SocketError, SystemError_, TimedOut, XlogError, XlogGapError, er
from headwater.replication.errors import Verdict, as_box_error, judge
from headwater.replication.states import MOVES, ApplierState

S = ApplierState
STOPS = Verdict(S.STOPPED, retries=False)


@pytest.mark.parametrize(
    "code",
    [
        Er.LOADING,
        Er.TOO_EARLY_SUBSCRIBE,
        Er.SYNC_QUORUM_TIMEOUT,
        Er.SYNC_ROLLBACK,
        Er.WAL_IO,
        Er.CASCADE_ROLLBACK,
        Er.CFG,
        Er.NO_SUCH_USER,
        Er.CREDS_MISMATCH,
        Er.ACCESS_DENIED,
    ],
)
def test_refusals_that_may_pass_are_tried_again(code: Er) -> None:
    assert judge(BoxError(code, "words"), S.READY) == Verdict(S.LOADING, retries=True)


@pytest.mark.parametrize(
    "error",
    [
        er(Er.SYSTEM, "disk"),
        BoxError(Er.SSL, "words"),
        er(Er.NIL_UUID),
        SocketError("gone"),
        SystemError_("disk", errno.EIO),
        TimedOut(),
        OutOfMemory(1, "a", "b"),
        BoxError(Er.UNKNOWN, "words", type_name="SSLError"),
    ],
)
def test_errors_of_system_and_connection_are_tried_again(error: BoxError) -> None:
    assert judge(error, S.FOLLOW) == Verdict(S.DISCONNECTED, retries=True)


@pytest.mark.parametrize(
    "code",
    [
        Er.READONLY,
        Er.UNKNOWN_REPLICA,
        Er.REPLICASET_UUID_MISMATCH,
        Er.PROTOCOL,
        Er.INVALID_MSGPACK,
        Er.SPLIT_BRAIN,
        Er.TUPLE_FOUND,
        Er.UNSUPPORTED,
        Er.UNKNOWN_REQUEST_TYPE,
        Er.NO_SUCH_SPACE,
    ],
)
def test_everything_else_would_come_again(code: Er) -> None:
    assert judge(BoxError(code, "words"), S.FOLLOW) == STOPS


@pytest.mark.parametrize(
    ("reason", "passes"),
    [
        ("orphan", True),
        ("waiting to receive its own transactions back from the replicaset", True),
        ("config", False),
        ("synchro", False),
        ("election", False),
    ],
)
def test_master_that_will_soon_be_writable_is_asked_again(reason: str, passes: bool) -> None:
    error = BoxError(Er.READONLY, "words", fields={"reason": reason})
    assert judge(error, S.FINAL_JOIN) == (Verdict(S.LOADING, retries=True) if passes else STOPS)


def test_a_gap_counts_by_its_class_and_not_by_its_code() -> None:
    assert judge(XlogGapError("gap"), S.READY) == Verdict(S.LOADING, retries=True)
    assert judge(BoxError(Er.XLOG_GAP, "gap"), S.READY) == STOPS
    assert judge(XlogError("broken"), S.READY) == STOPS


def test_part_of_a_snapshot_is_not_taken_for_the_whole() -> None:
    assert judge(SocketError("gone"), S.FETCH_SNAPSHOT, has_rows=True) == STOPS
    assert judge(SocketError("gone"), S.FETCH_SNAPSHOT).retries
    assert judge(SocketError("gone"), S.FINAL_JOIN, has_rows=True).retries


def test_errors_of_sockets_have_a_name_and_the_systems_words() -> None:
    refused = as_box_error(ConnectionRefusedError(errno.ECONNREFUSED, "in asyncio's words"), "a:1")
    assert (refused.type_name, refused.message) == ("SocketError", "Connection refused, peer a:1")
    assert as_box_error(TimeoutError(), "a:1").type_name == "TimedOut"
    assert as_box_error(TimeoutError(errno.ETIMEDOUT, "x"), "a:1").type_name == "SocketError"


def test_every_verdict_is_a_legal_move_from_every_state_with_a_connection() -> None:
    for state in set(S) - {S.OFF, S.STOPPED, S.DISCONNECTED, S.LOADING}:
        assert MOVES[state] >= {S.OFF, S.STOPPED, S.DISCONNECTED, S.LOADING}

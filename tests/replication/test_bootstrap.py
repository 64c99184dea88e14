"""Who makes a set, whom a newcomer joins, and how many must have answered (replication.cc), by values."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from headwater.replication.bootstrap import (
    Candidate,
    Stage,
    choose,
    connect_quorum,
    named_leader,
    rejoin_from,
    strangers,
    supervised_leader,
)
from headwater.vclock import VClock
from headwater.wire.ballot import Ballot

ONE, TWO, THREE = (UUID(int=number) for number in (1, 2, 3))
BOOTED = {"is_booted": True, "is_ro_cfg": False, "is_ro": False, "can_lead": False}


def peer(uuid: UUID, **ballot: Any) -> Candidate:
    return Candidate(uuid, Ballot(**{**BOOTED, **ballot}), f"h{uuid.int}:3301")


# ---- the choice ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"is_ro_cfg": True, "is_ro": True}, {"is_booted": False, "can_lead": True}),
        ({"is_ro": True}, {"is_ro_cfg": True, "can_lead": True}),
        ({}, {"is_ro": True, "can_lead": True}),
        ({"can_lead": True}, {"vclock": {1: 1000}}),
        ({"vclock": {1: 2}}, {"vclock": {1: 1}}),
        ({"vclock": {1: 1, 2: 1}}, {"vclock": {1: 1}}),
    ],
)
def test_what_makes_a_better_leader(better: dict[str, Any], worse: dict[str, Any]) -> None:
    """Data before all, then the right to write, by configuration and now, to be elected; then who has seen more."""
    for first, second in ((ONE, TWO), (TWO, ONE)):
        chosen = choose([peer(first, **better), peer(second, **worse)])
        assert chosen is not None
        assert chosen.uuid == first


def test_among_equals_the_lower_uuid() -> None:
    assert choose([peer(THREE), peer(ONE), peer(TWO)]) == peer(ONE)
    assert choose([peer(TWO, vclock={0: 9}), peer(ONE, vclock={0: 5})]) == peer(ONE, vclock={0: 5}), "component 0"


def test_nobody_to_choose() -> None:
    assert choose([]) is None


@pytest.mark.parametrize("named", [str(TWO), "h2:3301", "second"])
def test_a_leader_by_uuid_address_or_name(named: str) -> None:
    peers = [peer(ONE), peer(TWO, instance_name="second")]
    assert named_leader(peers, named) == peers[1]
    assert named_leader(peers, "h3:3301") is None


def test_a_leader_that_was_told_says_so_itself() -> None:
    told = peer(TWO, bootstrap_leader_uuid=TWO)
    assert supervised_leader([peer(ONE, bootstrap_leader_uuid=TWO), told]) == told
    assert supervised_leader([peer(ONE, bootstrap_leader_uuid=TWO)]) is None


# ---- how many --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "stage", "total", "asked", "quorum"),
    [
        ("auto", Stage.BOOTSTRAP, 1, None, 1),
        ("auto", Stage.BOOTSTRAP, 3, None, 2),
        ("auto", Stage.BOOTSTRAP, 4, None, 3),
        ("auto", Stage.BOOTSTRAP, 3, 3, 2),
        ("auto", Stage.JOIN, 5, None, 1),
        ("auto", Stage.RECOVERY, 5, None, 0),
        ("config", Stage.BOOTSTRAP, 5, 5, 0),
        ("supervised", Stage.JOIN, 5, 5, 0),
        ("legacy", Stage.BOOTSTRAP, 3, None, 3),
        ("legacy", Stage.RECOVERY, 3, None, 3),
        ("legacy", Stage.RECOVERY, 3, 1, 1),
        ("legacy", Stage.JOIN, 3, 0, 0),
        ("legacy", Stage.JOIN, 3, 7, 3),
    ],
)
def test_how_many_must_have_answered(strategy: str, stage: Stage, total: int, asked: int | None, quorum: int) -> None:
    assert connect_quorum(strategy, stage, total, asked) == quorum


def test_members_that_nobody_named() -> None:
    known = peer(ONE, registered_replica_uuids=(ONE, TWO, THREE))
    assert strangers([known], 1) == [TWO, THREE]
    assert strangers([known, peer(THREE)], 2) == [TWO]
    assert strangers([known], 3) == [], "all are named, some did not answer"


# ---- too late --------------------------------------------------------------------------------------------------


def test_who_came_too_late_joins_the_most_advanced_one() -> None:
    ahead = peer(TWO, gc_vclock={1: 20}, vclock={1: 50})
    assert rejoin_from(VClock({1: 10}), [peer(ONE, gc_vclock={1: 15}, vclock={1: 40}), ahead]) == ahead


def test_one_peer_that_has_the_rows_is_enough() -> None:
    peers = [peer(ONE, gc_vclock={1: 20}, vclock={1: 50}), peer(TWO, gc_vclock={1: 10}, vclock={1: 30})]
    assert rejoin_from(VClock({1: 10}), peers) is None
    assert rejoin_from(VClock({1: 10}), []) is None


def test_rows_that_nobody_else_has_are_kept() -> None:
    peers = [peer(ONE, gc_vclock={1: 20}, vclock={1: 50})]
    assert rejoin_from(VClock({1: 10, 2: 1}), peers) is None
    assert rejoin_from(VClock({0: 7, 1: 10}), peers) == peers[0], "component 0 is nobody else's"

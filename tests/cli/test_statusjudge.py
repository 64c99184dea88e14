"""Whether a set is healthy: looks as values in, reasons out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.cli.statusjudge import judge, needs_second_look, why_read_only
from headwater.cli.statusnode import Downstream, Election, Member, Node, Picture, Silent, Upstream

SET = "aaaaaaaa-0000-0000-0000-000000000000"


def uuid(id_: int) -> str:
    return f"{id_:08d}-0000-0000-0000-000000000000"


def follows(id_: int, status: str = "follow", **more: Any) -> Member:
    upstream = Upstream(status, f"user@127.0.0.1:330{id_}", **{"lag": 0.01, "idle": 0.1, **more})
    return Member(uuid(id_), id_, upstream=upstream)


def node(id_: int, *members: Member, **more: Any) -> Node:
    values = {
        "address": f"127.0.0.1:330{id_}",
        "uuid": uuid(id_),
        "version": "Headwater",
        "vclock": {1: 10},
        "id": id_,
        "replicaset_uuid": SET,
        "members": members,
    }
    return Node(**{**values, **more})


def pair(**second: Any) -> Picture:
    """1 feeds 2, and 2 is as told."""
    return Picture((node(1), node(2, follows(1), **second)))


def test_a_set_in_which_everybody_follows_is_healthy() -> None:
    mesh = Picture((node(1, follows(2), follows(3)), node(2, follows(1), follows(3)), node(3, follows(1), follows(2))))
    assert judge(mesh, mesh) == []
    assert not needs_second_look(mesh)


def test_a_single_node_is_healthy() -> None:
    assert judge(Picture((node(1),))) == []


def test_who_could_not_be_asked_is_named_with_the_reason() -> None:
    asked = Picture((node(1),), (Silent("h:1", "Connection refused"), Silent("h:2", "no answer", "127.0.0.1:3301")))
    assert judge(asked) == [
        "h:1 cannot be asked: Connection refused",
        "h:2, which 127.0.0.1:3301 follows, cannot be asked: no answer",
    ]


def test_a_node_that_may_not_be_looked_into_is_not_called_healthy() -> None:
    [reason] = judge(Picture((node(1, denied="Execute access is denied"),)))
    assert reason == "127.0.0.1:3301 does not say how it is: Execute access is denied"


def test_a_stopped_applier_with_its_message() -> None:
    stopped = Picture((node(1), node(2, follows(1, "stopped", message="Duplicate key exists"))))
    assert judge(stopped) == ["127.0.0.1:3302 does not follow 127.0.0.1:3301: stopped, Duplicate key exists"]


@pytest.mark.parametrize("status", ["connect", "auth", "disconnected", "loading", "off", "initial_join"])
def test_an_applier_that_has_not_come_to_follow(status: str) -> None:
    assert judge(Picture((node(1), node(2, follows(1, status))))) == [
        f"127.0.0.1:3302 does not follow 127.0.0.1:3301: {status}"
    ]


def test_a_lag_above_the_limit() -> None:
    late = Picture((node(1), node(2, follows(1, lag=12.34))))
    assert judge(late) == ["127.0.0.1:3302 follows 127.0.0.1:3301 with a lag of 12.3 s, more than 10 s"]
    assert judge(late, max_lag=20.0) == []


def test_an_orphan_says_whom_it_misses() -> None:
    orphan = Picture((node(1), node(2, follows(1), follows(3, "connect"), status="orphan", ro=True)))
    reasons = judge(orphan)
    assert reasons[0] == "127.0.0.1:3302 is an orphan: 127.0.0.1:3303 is connect"
    assert judge(pair(status="orphan", ro=True))[0].startswith("127.0.0.1:3302 is an orphan: it is not in sync")


def test_a_node_that_is_still_loading() -> None:
    assert judge(pair(status="loading")) == ["127.0.0.1:3302 is loading"]


def test_two_nodes_of_one_id() -> None:
    twins = Picture((node(1), replace(node(1), uuid=uuid(7), address="127.0.0.1:3307")))
    assert judge(twins) == ["127.0.0.1:3301 and 127.0.0.1:3307 both have the id 1"]


def test_anonymous_replicas_have_no_id_to_share() -> None:
    assert judge(Picture((node(1), node(2, follows(1), id=0), node(3, follows(1), id=0)))) == []


def test_nodes_of_two_replica_sets_are_no_set() -> None:
    other = "bbbbbbbb-0000-0000-0000-000000000000"
    [reason] = judge(pair(replicaset_uuid=other))
    assert reason == f"they are of 2 replica sets: {SET}: 127.0.0.1:3301; {other}: 127.0.0.1:3302"


def test_rows_of_another_set_are_not_missed() -> None:
    apart = pair(replicaset_uuid="bbbbbbbb-0000-0000-0000-000000000000", vclock={1: 3})
    assert not any("has not got" in reason for reason in judge(apart, apart))


def test_a_difference_that_shrinks_is_no_reason() -> None:
    before = pair(vclock={1: 4})
    assert needs_second_look(before)
    assert judge(before) == []
    assert judge(pair(vclock={1: 5}), before) == []


def test_a_follower_that_keeps_up_under_load_is_healthy_though_it_is_always_a_little_behind() -> None:
    before = Picture((node(1, vclock={1: 100}), node(2, follows(1), vclock={1: 90})))
    later = Picture((node(1, vclock={1: 200}), node(2, follows(1), vclock={1: 190})))
    assert judge(later, before) == []


def test_a_difference_that_does_not_shrink() -> None:
    before = pair(vclock={1: 4, 2: 3})
    assert judge(pair(vclock={1: 4, 2: 9}), before) == [
        "127.0.0.1:3301 has not got 3 rows of 127.0.0.1:3302, and none came between two looks",
        "127.0.0.1:3302 has not got 6 rows of 127.0.0.1:3301, and none came between two looks",
    ]


def test_rows_of_component_0_stay_where_they_are() -> None:
    local = pair(vclock={0: 55, 1: 10})
    assert not needs_second_look(local)
    assert judge(local, local) == []


def test_a_relay_that_failed_when_the_follower_was_not_asked() -> None:
    lost = Member(uuid(2), 2, downstream=Downstream("stopped", message="unexpected EOF"))
    assert judge(Picture((node(1, lost),))) == [
        "127.0.0.1:3301 does not feed replica 2 (00000002): stopped, unexpected EOF"
    ]


def test_a_relay_that_failed_long_ago_when_the_follower_follows_now() -> None:
    lost = Member(uuid(2), 2, downstream=Downstream("stopped", message="unexpected EOF"))
    assert judge(Picture((node(1, lost), node(2, follows(1))))) == []


def test_an_anonymous_replica_that_went_away_is_no_reason() -> None:
    gone = Member(uuid(2), 0, downstream=Downstream("stopped", message="unexpected EOF"))
    assert judge(Picture((node(1, gone),))) == []


def test_no_node_is_writable() -> None:
    frozen = Picture((node(1, ro=True, ro_reason="config"), node(2, follows(1), ro=True, ro_reason="election")))
    assert judge(frozen) == ["no node is writable (127.0.0.1:3301: config, 127.0.0.1:3302: election)"]


def test_two_leaders_of_one_term() -> None:
    leader = Election("leader", 4, 1)
    assert judge(Picture((node(1, election=leader), node(2, follows(1), election=leader)))) == [
        "127.0.0.1:3301 and 127.0.0.1:3302 are both leader of term 4"
    ]
    older = Election("leader", 3, 2)
    assert judge(Picture((node(1, election=leader), node(2, follows(1), election=older)))) == []


def test_why_a_node_is_read_only_where_the_version_does_not_tell() -> None:
    assert why_read_only(node(1, ro=True)) == "config"
    assert why_read_only(node(1, ro=True, election=Election("follower", 1, 0))) == "config or election"
    assert why_read_only(node(1, ro=True, status="orphan")) == "orphan"
    assert why_read_only(node(1, ro=True, ro_reason="synchro")) == "synchro"

"""What `box.info` of several versions says, as values."""

from __future__ import annotations

from headwater.cli.statusnode import Consumer, Downstream, Election, Member, Picture, Upstream, links, node_of

ONE = "d3a253d8-726e-42df-a02a-2ed4b349867f"
TWO = "1830cbae-fc10-4ff5-851f-c0547733d7da"

OF_2_6 = {
    "cluster": {"uuid": "0b87729a-e7f4-48c1-aff7-c366ad814a8b"},
    "gc": [],
    "id": 1,
    "lsn": 1121,
    "package": "Tarantool",
    "replication": {
        1: {"id": 1, "lsn": 1121, "uuid": ONE},
        2: {
            "downstream": {"idle": 0.0007, "status": "follow", "vclock": {1: 1121}},
            "id": 2,
            "lsn": 0,
            "upstream": {
                "idle": 0.5,
                "lag": 6e-05,
                "peer": "repl@127.0.0.1:4302",
                "status": "disconnected",
                "message": "connect, called on fd 15",
                "system_message": "Connection refused",
            },
            "uuid": TWO,
        },
    },
    "replication_anon": {"count": 0},
    "ro": False,
    "status": "running",
    "uuid": ONE,
    "vclock": {1: 1121},
    "version": "2.6.0-0-g47aa4e01e",
}


def test_an_answer_of_2_6() -> None:
    node = node_of("h:1", OF_2_6, {"consumers": [{"name": f"replica {TWO}", "signature": 7, "vclock": {1: 7}}]}, {})
    assert (node.address, node.version, node.id, node.lsn) == ("h:1", "Tarantool 2.6.0", 1, 1121)
    assert node.replicaset_uuid == "0b87729a-e7f4-48c1-aff7-c366ad814a8b"
    assert (node.ro, node.ro_reason, node.election) == (False, "", None)
    failure = "connect, called on fd 15: Connection refused"
    assert node.members == (
        Member(ONE, 1),
        Member(
            TWO,
            2,
            upstream=Upstream("disconnected", "repl@127.0.0.1:4302", 6e-05, 0.5, failure),
            downstream=Downstream("follow", {1: 1121}, None, 0.0007),
        ),
    )
    assert node.consumers == (Consumer(f"replica {TWO}", {1: 7}, 7),)


def test_an_answer_of_3_with_names_election_and_queue() -> None:
    info = {
        **OF_2_6,
        "package": "Tarantool",
        "version": "3.3.0-0-gabc",
        "name": "storage-a",
        "replicaset": {"uuid": "set-of-3", "name": "storage"},
        "cluster": {"name": None},
        "ro": True,
        "ro_reason": "election",
        "election": {"state": "follower", "term": 7, "vote": 2, "leader": 2},
        "synchro": {"quorum": 2, "queue": {"len": 3, "owner": 2}},
    }
    node = node_of("h:1", info)
    assert (node.version, node.label, node.replicaset_uuid) == ("Tarantool 3.3.0", "storage-a", "set-of-3")
    assert (node.ro, node.ro_reason) == (True, "election")
    assert node.election == Election("follower", 7, 2)
    assert (node.queue_length, node.queue_owner) == (3, 2)


def test_headwater_shows_its_own_version_and_the_one_it_speaks() -> None:
    assert node_of("h:1", {"package": "Headwater 0.4.0", "version": "3.8.0"}).version == "Headwater 0.4.0 (3.8.0)"


def test_tables_of_lua_with_keys_1_2_3_come_as_arrays() -> None:
    info = {"uuid": ONE, "vclock": [5, 6], "replication": [{"id": 1, "uuid": ONE}, {"id": 2, "uuid": TWO}]}
    node = node_of("h:1", info)
    assert node.vclock == {1: 5, 2: 6}
    assert [member.uuid for member in node.members] == [ONE, TWO]


def test_anonymous_replicas_by_uuid() -> None:
    node = node_of("h:1", {"uuid": ONE}, None, {TWO: {"lsn": 0, "downstream": {"status": "follow", "vclock": {1: 5}}}})
    assert node.members == (Member(TWO, 0, downstream=Downstream("follow", {1: 5})),)


def test_nonsense_leaves_the_defaults() -> None:
    info = {"uuid": 5, "vclock": "x", "replication": [7, "y"], "ro": "z", "id": None, "lsn": True}
    node = node_of("h:1", info, 5, "a")
    assert (node.vclock, node.members, node.ro, node.id, node.lsn) == ({}, (), False, 0, -1)


def test_a_link_seen_from_both_ends() -> None:
    leader = node_of("h:1", OF_2_6)
    follower = node_of(
        "h:2",
        {"uuid": TWO, "vclock": {1: 1100, 2: 4}, "replication": {1: {"uuid": ONE, "upstream": {"status": "follow"}}}},
    )
    found = {(link.follower, link.leader): link for link in links(Picture((leader, follower)))}
    assert set(found) == {(ONE, TWO), (TWO, ONE)}
    link = found[TWO, ONE]
    assert link.behind == {1: 21}
    assert link.upstream == Upstream("follow")
    assert link.downstream == Downstream("follow", {1: 1121}, None, 0.0007)
    assert found[ONE, TWO].behind == {2: 4}


def test_a_link_seen_from_the_leader_alone_is_behind_what_was_acknowledged() -> None:
    info = {
        "uuid": ONE,
        "vclock": {1: 50},
        "replication": {2: {"id": 2, "uuid": TWO, "downstream": {"status": "follow", "vclock": {1: 40}}}},
    }
    [link] = links(Picture((node_of("h:1", info),)))
    assert (link.follower, link.leader, link.upstream, link.behind) == (TWO, ONE, None, {1: 10})

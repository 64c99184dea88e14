"""box.info, box.cfg, box.session and kin, over CALL; and who may call what."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.procedures.node import CallNode

from headwater.errors import AccessDenied, BoxError, Er, er
from headwater.options import SETTINGS
from headwater.store.users import User
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack


@pytest.fixture
def alice(node: CallNode) -> User:
    node.call("box.schema.user.create", "alice")
    return node.schema.users.by_name("alice")


def test_info_has_the_keys_of_3x(node: CallNode) -> None:
    info = node.value("box.info")
    assert info["version"] == "3.8.0"
    assert info["uuid"] == "5ee27f1a-6eee-4d8c-8a31-0a4f0e0e2d6d"
    assert info["replicaset"] == {"uuid": "6ee27f1a-6eee-4d8c-8a31-0a4f0e0e2d6d", "name": None}
    assert (info["id"], info["status"], info["ro"], info["ro_reason"]) == (1, "running", False, None)
    assert info["election"] == {"state": "follower", "term": 1, "vote": 0, "leader": 0}
    assert info["synchro"]["quorum"] == 1
    assert info["synchro"]["queue"]["len"] == 0
    assert (info["listen"], info["uptime"], info["pid"], info["hostname"]) == ("127.0.0.1:3301", 11, 42, "here")
    keys = (
        "version package id uuid name lsn signature vclock ro ro_reason replication replication_anon replicaset status "
    )
    keys += "uptime pid cluster memory gc vinyl sql listen election synchro schema_version hostname config health"
    assert set(info) == set(keys.split())
    assert info["health"]["liveness"] == {"verdict": True, "checks": {}}
    assert info["health"]["readiness"] == {"status": True, "checks": {"box": {"status": "ready"}}}


def test_info_follows_the_node(shop: CallNode) -> None:
    info = shop.value("box.info")
    assert info["lsn"] == info["signature"] == info["vclock"][1] == shop.memtx.vclock[1] > 0
    shop.read_only.update(by_config=True)
    info = shop.value("box.info")
    assert (info["ro"], info["ro_reason"]) == (True, "config")


@pytest.mark.parametrize("name", ["box.info.memory", "box.info:memory"])
def test_memory(shop: CallNode, name: str) -> None:
    memory = shop.value(name)
    assert set(memory) == {"data", "index", "cache", "tx", "net", "lua"}
    assert memory["data"] > 0
    assert memory["index"] > 0


def test_gc(node: CallNode) -> None:
    gc = node.value("box.info.gc")
    assert gc["vclock"] == {1: 5}
    assert gc["checkpoints"] == [{"vclock": {1: 5}, "signature": 5, "references": ["backup"]}]
    assert gc["consumers"] == []


def test_slab_info(node: CallNode) -> None:
    info = node.value("box.slab.info")
    assert info["quota_size"] == node.options.memtx_memory
    assert info["quota_used_ratio"].endswith("%")
    assert 0 < info["arena_used"] <= info["arena_size"]


# ---- box.cfg ------------------------------------------------------------------------------------------


def test_cfg_without_arguments_tells_all_that_is_set(node: CallNode) -> None:
    cfg = node.value("box.cfg")
    assert cfg["wal_mode"] == "write"
    assert cfg["checkpoint_count"] == 2
    assert set(cfg) == {row.name for row in SETTINGS.values() if row.default is not None}


def test_cfg_sets_dynamic_options(node: CallNode) -> None:
    assert node.call("box.cfg", {"checkpoint_count": 3, "wal_mode": "write", "too_long_threshold": "2s"}) == []
    assert (node.options.checkpoint_count, node.options.too_long_threshold) == (3, 2)
    assert node.reconfigured == [{"checkpoint_count": 3, "too_long_threshold": 2}]


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"wal_mode": "none"}, Er.RELOAD_CFG, "Can't set option 'wal_mode' dynamically"),
        (
            {"checkpoint_count": 3, "read_ahead": 1},
            Er.CFG,
            "Incorrect value for option 'read_ahead': unexpected option",
        ),
        ({"checkpoint_count": 0}, Er.CFG, "the value must not be less than one"),
        (5, Er.PROC_LUA, "Error: cfg should be a table"),
    ],
)
def test_cfg_sets_all_or_nothing(node: CallNode, changes: Any, code: int, words: str) -> None:
    error = node.fails("box.cfg", changes)
    assert error.code == code
    assert words in error.message
    assert node.options.changed() == {}
    assert node.reconfigured == []


def test_what_the_node_refuses_is_taken_back(node: CallNode) -> None:
    node.refuse = er(Er.CFG, "listen", "the port is taken")
    assert node.fails("box.cfg", {"listen": 3301, "checkpoint_count": 9}).message.endswith("the port is taken")
    assert node.options.changed() == {}


def test_what_the_system_refuses_is_taken_back_too(node: CallNode) -> None:
    node.refuse = OSError(98, "address already in use")
    error = node.fails("box.cfg", {"listen": 3301})
    assert (error.type_name, error.message) == ("SystemError", "box.cfg: address already in use")
    assert node.options.changed() == {}


def test_changes_are_in_the_log_without_passwords(node: CallNode, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "headwater.cfg"):
        node.call("box.cfg", {"listen": "me:secret@127.0.0.1:3301", "checkpoint_count": 2, "too_long_threshold": 1})
    assert caplog.messages == [
        "set 'listen' configuration option to [\"me@127.0.0.1:3301\"]",
        "set 'too_long_threshold' configuration option to 1",
    ]


# ---- files, counters, control -------------------------------------------------------------------------


def test_snapshot(node: CallNode) -> None:
    assert node.value("box.snapshot") == "ok"
    assert node.checkpoints == 1


def test_backup(node: CallNode) -> None:
    assert node.call("box.backup.info") == []
    assert node.value("box.backup.start") == ["a.snap", "b.xlog"]
    assert node.backups.asked == (0, None, 0.0)
    assert node.value("box.backup.info")["type"] == "full"
    assert node.fails("box.backup.start").code == Er.BACKUP_IN_PROGRESS
    node.call("box.backup.stop")
    node.call("box.backup.start", {"from_vclock": {1: 5}, "ttl": 60})
    assert node.backups.asked == (0, {1: 5}, 60.0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (-1, "invalid checkpoint index"),
        ("x", "expected number or table as 1 argument"),
        ({"ttl": 0}, "invalid ttl"),
        ({"from_vclock": 5}, "invalid from_vclock"),
        ({"from_vclock": {"a": 1}}, "invalid from_vclock"),
    ],
)
def test_wrong_arguments_of_backup(node: CallNode, given: Any, words: str) -> None:
    assert node.fails("box.backup.start", given).message == words


def test_stat(node: CallNode) -> None:
    node.stats.requests.add("SELECT", 50)
    node.stats.tick()
    node.stats.net.add("SENT", 1000)
    node.stats.net.enter("CONNECTIONS")
    assert node.value("box.stat")["SELECT"] == {"rps": 25, "total": 50}
    net = node.value("box.stat.net")
    assert net["SENT"] == {"rps": 500, "total": 1000}
    assert net["CONNECTIONS"]["current"] == 1
    node.call("box.stat.reset")
    assert node.value("box.stat")["SELECT"] == {"rps": 0, "total": 0}
    assert node.value("box.stat.net")["CONNECTIONS"] == {"rps": 0, "total": 0, "current": 1}


def test_wait_rw(node: CallNode) -> None:
    assert node.call("box.ctl.wait_rw") == []
    assert node.fails("box.ctl.wait_ro", 0.01).code == Er.TIMEOUT
    assert node.call("box.ctl.wait_ro", 10, meanwhile=lambda: node.read_only.update(by_config=True)) == []
    assert node.value("box.ctl.is_recovery_finished") is True


def test_wal_sync(node: CallNode) -> None:
    assert node.call("box.ctl.wal_sync") == []
    assert node.settles == 1


def test_replica_gc(node: CallNode) -> None:
    uuid = "b5ee27f1-6eee-4d8c-8a31-0a4f0e0e2d6d"
    assert node.call("box.ctl.replica_gc", uuid) == []
    assert node.forgotten == [UUID(uuid)]
    assert node.fails("box.ctl.replica_gc").code == Er.ILLEGAL_PARAMS
    for wrong in ("", "me", uuid.replace("-", ""), "g" + uuid[1:]):
        assert node.fails("box.ctl.replica_gc", wrong).message == f"Invalid UUID: {wrong}"
    assert len(node.forgotten) == 1


def test_session(node: CallNode, alice: User) -> None:
    node.call("box.schema.user.grant", "alice", "execute", "universe")
    told = {
        name: node.value(f"box.session.{name}", user=alice)
        for name in ("id", "type", "uid", "euid", "user", "effective_user", "peer")
    }
    assert told == {
        "id": 7,
        "type": "binary",
        "uid": 32,
        "euid": 32,
        "user": "alice",
        "effective_user": "alice",
        "peer": "127.0.0.1:40000",
    }


def test_broadcast(node: CallNode) -> None:
    node.call("box.broadcast", "news", {"a": 1})
    assert node.watchers.once("news") == pack({"a": 1})
    assert node.fails("box.broadcast", "news").message == "Usage: box.broadcast(key, value)"


# ---- who may call ---------------------------------------------------------------------------------------


def test_who_may_call_nothing_learns_nothing(node: CallNode, alice: User) -> None:
    for name in ("box.info", "nope", "box.nope"):
        error = node.fails(name, user=alice)
        assert isinstance(error, AccessDenied)
        assert error.message == f"Execute access to function '{name}' is denied for user 'alice'"


def test_all_of_lua_call_does_not_reach_the_built_ins(node: CallNode, alice: User) -> None:
    node.call("box.schema.user.grant", "alice", "execute", "lua_call")
    assert node.fails("nope", user=alice).code == Er.NO_SUCH_PROC
    assert isinstance(node.fails("box.info", user=alice), AccessDenied)
    node.call("box.schema.user.grant", "alice", "execute", "lua_call", "box.info")
    assert node.value("box.info", user=alice)["status"] == "running"
    assert isinstance(node.fails("box.stat", user=alice), AccessDenied)


def test_a_built_in_has_the_rights_of_who_calls_it(shop: CallNode) -> None:
    shop.call("box.schema.user.create", "alice")
    shop.call("box.schema.user.grant", "alice", "execute", "universe")
    alice = shop.schema.users.by_name("alice")
    error = shop.fails("box.space.t:select", user=alice)
    assert error.message == "Read access to space 't' is denied for user 'alice'"
    error = shop.fails("box.schema.space.create", "u", user=alice)
    assert error.message == "Write access to space '_space' is denied for user 'alice'"
    error = shop.fails("box.space.t:truncate", user=alice)
    assert error.message == "Write access to space 't' is denied for user 'alice'"


def test_a_setuid_function_has_the_rights_of_its_owner(shop: CallNode) -> None:
    shop.call("box.schema.user.create", "alice")
    alice = shop.schema.users.by_name("alice")
    shop.call("box.schema.func.create", "box.space.t:len", {"setuid": True})
    assert isinstance(shop.fails("box.space.t:len", user=alice), AccessDenied)
    shop.call("box.schema.user.grant", "alice", "execute", "function", "box.space.t:len")
    assert shop.value("box.space.t:len", user=alice) == 3
    shop.call("box.schema.func.create", "box.session.euid", {"setuid": True})
    shop.call("box.schema.user.grant", "alice", "execute", "function", "box.session.euid")
    assert shop.value("box.session.euid", user=alice) == 1
    assert shop.value("box.session.euid", user=alice, type=Type.CALL_16) == [1]


def test_a_read_only_node_says_why(shop: CallNode) -> None:
    shop.read_only.update(by_config=True)
    error: BoxError = shop.fails("box.space.t:insert", [5, "x", 1])
    assert error.code == Er.READONLY
    assert shop.value("box.space.t:len") == 3

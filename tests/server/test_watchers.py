"""Keys, values, and who is told (watcher.c)."""

from __future__ import annotations

from typing import Any

from tests.server.box import UUID_1, Box, Client, in_simulation

from headwater.box.events import BALLOT, ELECTION, ID, NIL_UUID, SCHEMA, SHUTDOWN, STATUS, WAL_ERROR
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import pack


def watch(client: Client, key: str, sync: int | None = None) -> None:
    client.say(client.packet(Type.WATCH, {Key.EVENT_KEY: key}, sync=sync))


async def told(client: Client) -> list[tuple[str, Any]]:
    """Events since the last look; '-' for a key without a value."""
    for _ in range(3):
        await client.box.world.tasks.sleep(0)
    events = client.replies()
    assert all(event.type == Type.EVENT for event in events)
    return [(event.body[Key.EVENT_KEY], event.body.get(Key.EVENT_DATA, "-")) for event in events]


def test_a_watcher_is_told_at_once_and_then_once_for_each_time_it_asks() -> None:
    async def test(box: Box) -> None:
        client = box.connect()
        watch(client, "k")
        assert await told(client) == [("k", "-")]
        box.watchers.broadcast("k", pack(1))
        assert await told(client) == [], "it has not said that it is done"
        box.watchers.broadcast("k", pack(2))
        watch(client, "k")
        assert await told(client) == [("k", 2)], "the newest value, none between"
        watch(client, "k")
        assert await told(client) == [], "nothing has changed"
        box.watchers.broadcast("k", pack(2))
        assert await told(client) == [("k", 2)], "another broadcast counts, with the same value too"
        watch(client, "k")
        box.watchers.broadcast("k", None)
        assert await told(client) == [("k", "-")]

    in_simulation(test)


def test_an_event_carries_the_sync_of_the_last_watch() -> None:
    async def test(box: Box) -> None:
        client = box.connect()
        watch(client, "k", sync=5)
        watch(client, "k", sync=7)
        for _ in range(3):
            await box.world.tasks.sleep(0)
        (event,) = client.replies()
        assert (event.sync, event.schema_version) == (7, 0)

    in_simulation(test)


def test_who_no_longer_watches_is_not_told() -> None:
    async def test(box: Box) -> None:
        one, two = box.connect(), box.connect()
        for client in (one, two):
            watch(client, "k")
        await told(one)
        await told(two)
        for client in (one, two):
            watch(client, "k")
        one.send(Type.UNWATCH, {Key.EVENT_KEY: "k"})
        one.send(Type.UNWATCH, {Key.EVENT_KEY: "never"})
        two.disconnect()
        box.watchers.broadcast("k", pack(1))
        assert await told(one) == []
        box.watchers.broadcast("k", None)
        assert not box.watchers._nodes.keys() - {ID, STATUS, ELECTION, SCHEMA, WAL_ERROR, BALLOT}

    in_simulation(test)


def test_watch_once(box: Box) -> None:
    client = box.connect()
    assert client.ask(Type.WATCH_ONCE, {Key.EVENT_KEY: "k"}).data == []
    box.watchers.broadcast("k", pack([1, 2]))
    assert client.ask(Type.WATCH_ONCE, {Key.EVENT_KEY: "k"}).data == [[1, 2]]


def test_built_in_keys(box: Box) -> None:
    client = box.connect()

    def value(key: str) -> Any:
        return client.ask(Type.WATCH_ONCE, {Key.EVENT_KEY: key}).data

    for key in (ID, STATUS, ELECTION, SCHEMA, WAL_ERROR, BALLOT):
        assert value(key) == [{}]
    assert value(SHUTDOWN) == []
    box.events.id(
        id=1, instance_uuid=UUID_1, instance_name="", replicaset_uuid=None, replicaset_name="rs", cluster_name=""
    )
    assert list(value(ID)[0].items()) == [
        ("id", 1),
        ("instance_uuid", UUID_1),
        ("instance_name", None),
        ("replicaset_uuid", NIL_UUID),
        ("replicaset_name", "rs"),
        ("cluster_name", None),
    ]
    box.events.status(is_ro=False, is_ro_cfg=False, status="running", dd_version=(3, 8, 0))
    assert value(STATUS) == [{"is_ro": False, "is_ro_cfg": False, "status": "running", "dd_version": "3.8.0"}]
    box.events.election(term=1, role="follower", is_ro=False, leader=0)
    assert value(ELECTION) == [{"term": 1, "role": "follower", "is_ro": False, "leader": 0}]
    box.events.schema(80)
    assert value(SCHEMA) == [{"version": 80}]
    box.events.wal_error(3)
    assert value(WAL_ERROR) == [{"count": 3}]
    box.events.ballot(box.ballot())
    assert value(BALLOT)[0][Key.BALLOT][2] == {1: 7}
    box.events.shutdown()
    assert value(SHUTDOWN) == [True]

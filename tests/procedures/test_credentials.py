"""Users of the configuration, and the open guest of `dev`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.procedures.node import CallNode

from headwater.box.credentials import create_credentials, grant_guest, open_guest
from headwater.env import run
from headwater.errors import AccessDenied, BoxError
from headwater.world import World

PRIV, USER = 312, 304


def apply(node: CallNode, credentials: dict[str, Any], *, then: Callable[[], object] | None = None) -> None:
    async def main(world: World) -> None:
        node.world = world
        create_credentials(node, credentials)  # type: ignore[arg-type]
        if then is not None:
            then()
            await world.tasks.sleep(0)
            await world.tasks.sleep(0)

    run(main)


def privileges(node: CallNode, name: str) -> list[list[Any]]:
    return [row[2:] for row in node.select(PRIV, [node.schema.users.role_or_user(name).id])]  # type: ignore[union-attr]


WANTED = {
    "roles": {"reader": {"privileges": [{"permissions": ["read"], "spaces": ["t"]}]}},
    "users": {
        "guest": {"roles": ["reader"]},
        "alice": {
            "password": "secret",
            "roles": ["reader", "replication"],
            "privileges": [
                {"permissions": ["execute"], "lua_call": ["all"]},
                {"permissions": ["write"], "spaces": ["t"], "universe": False},
                {"permissions": ["create"], "universe": True},
            ],
        },
    },
}


def test_users_and_roles_are_made_once(shop: CallNode) -> None:
    apply(shop, WANTED)
    alice = privileges(shop, "alice")
    for row in (["role", 3, 4], ["lua_call", "", 4], ["space", 512, 2], ["universe", 0, 56]):
        assert row in alice
    assert privileges(shop, "reader") == [["space", 512, 1]]
    shop.rows()
    apply(shop, WANTED)
    assert shop.rows() == []


def test_another_password_is_written(node: CallNode) -> None:
    apply(node, {"users": {"alice": {"password": "one"}}})
    before = node.select(USER, [32])[0][4]
    apply(node, {"users": {"alice": {"password": "two"}}})
    assert node.select(USER, [32])[0][4] != before


def test_nothing_is_taken_away(node: CallNode) -> None:
    apply(node, {"users": {"alice": {"roles": ["super"]}}})
    apply(node, {"users": {"alice": None}})
    assert ["role", 31, 4] in privileges(node, "alice")


def test_a_grant_waits_for_its_space(node: CallNode) -> None:
    def create() -> None:
        node.insert(280, 600, 1, "late", "memtx", 0, {}, [])

    apply(node, {"users": {"alice": {"privileges": [{"permissions": ["read"], "spaces": ["late"]}]}}}, then=create)
    assert ["space", 600, 1] in privileges(node, "alice")


def test_what_can_never_be_is_an_error(node: CallNode) -> None:
    with pytest.raises(BoxError, match="Unsupported space privilege"):
        apply(node, {"users": {"alice": {"privileges": [{"permissions": ["session"], "spaces": ["_space"]}]}}})


def test_dev_opens_the_guest_at_once_and_writes_it_once(shop: CallNode) -> None:
    guest = shop.schema.users.guest
    assert isinstance(shop.fails("box.info", user=guest), AccessDenied)
    shop.rows()
    open_guest(shop.schema)
    assert shop.value("box.space.t:len", user=guest) == 3
    assert shop.rows() == []
    grant_guest(shop)  # type: ignore[arg-type]
    assert len(shop.rows()) == 1
    assert shop.select(PRIV, [0, "role", 31]) == [[1, 0, "role", 31, 4]]
    grant_guest(shop)  # type: ignore[arg-type]
    assert shop.rows() == []

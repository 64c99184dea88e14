"""The data that the suites find on their server, made once a run as a template directory.

Names, shapes and privileges are those that asynctnt's tests/files/app.lua and tarantool-python's box.lua make.
"""

from __future__ import annotations

from pathlib import Path

from tests.support import iproto
from tests.support.headwater import HeadwaterServer

ADMIN_PASSWORD = "launcher"

TESTER = [("f1", "unsigned"), ("f2", "string"), ("f3", "unsigned"), ("f4", "unsigned"), ("f5", "*")]


def _format(fields: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"type": type_, "name": name} for name, type_ in fields]


def asynctnt(connection: iproto.Connection) -> None:
    call = connection.call
    call("box.schema.user.create", "t1", {"password": "t1"})
    for user in ("t1", "guest"):
        call("box.schema.user.grant", user, "read,write,execute,create,drop,alter", "universe")
    call("box.schema.space.create", "tester", {"format": _format(TESTER), "id": 512})
    call("box.space.tester:create_index", "primary")
    call("box.space.tester:create_index", "txt", {"unique": False, "parts": [2, "string"]})
    call("box.schema.space.create", "no_schema_space", {"id": 513})
    call("box.space.no_schema_space:create_index", "primary")
    call("box.space.no_schema_space:create_index", "primary_hash", {"type": "hash", "parts": [1, "unsigned"]})
    for kind, name in (("decimal", "dec"), ("uuid", "uuid"), ("datetime", "datetime")):
        fields = [("id", "unsigned"), ("dt", kind)] if kind == "datetime" else [("f1", "unsigned"), ("f2", kind)]
        call("box.schema.space.create", f"tester_ext_{name}", {"format": _format(fields)})
        call(f"box.space.tester_ext_{name}:create_index", "primary")


def tarantool_python(connection: iproto.Connection) -> None:
    """Its spaces are made by the tests themselves, over the console."""


FIXTURES = {"asynctnt": asynctnt, "tarantool-python": tarantool_python}


def make_templates(directory: Path) -> None:
    """One directory a suite: its data, admin with a password, and guest without the grant that `--dev` writes."""
    for name, fixture in FIXTURES.items():
        with HeadwaterServer(directory / name).start() as server:
            with iproto.Connection(*server.address) as connection:
                connection.call("box.schema.user.passwd", "admin", ADMIN_PASSWORD)
            with iproto.Connection(*server.address) as connection:
                connection.auth("admin", ADMIN_PASSWORD)
                connection.call("box.schema.user.revoke", "guest", "super")
                fixture(connection)
                connection.call("box.snapshot")
            server.stop()

"""Which server is under test, and what differs in how it is driven.

`HARNESS_SUBJECT=tarantool` puts the real Tarantool in Headwater's place: how the harness itself is proved.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support import iproto
from tests.support.headwater import HeadwaterServer
from tests.support.process import Server
from tests.support.tarantool import TarantoolServer, version

STAND_IN = os.environ.get("HARNESS_SUBJECT", "headwater") == "tarantool"


def old_tarantool() -> bool:
    """Is the installed one from before elections, names and all that came with them?"""
    return version() < (2, 11, 0)


def subject(work_dir: Path, options: Mapping[str, object] | None = None, port: int | None = None) -> Server:
    """The server under test; guest may do everything."""
    if STAND_IN:
        known = {name: value for name, value in (options or {}).items() if name not in ("schema_version",)}
        return TarantoolServer(work_dir, options=known, port=port)
    return HeadwaterServer(work_dir, options=options, port=port)


def speaks_lua(connection: iproto.Connection) -> bool:
    """Is it the real one? 2.6.0 has neither streams nor procedures for everything; a Lua call does there."""
    return "Tarantool {}.{}.{} ".format(*version()).encode() in connection.greeting


def transaction(
    connection: iproto.Connection, requests: Sequence[tuple[int, Mapping[int, object]]], stream: int = 1
) -> None:
    """Several requests as one transaction; raises if it is not committed."""
    for reply in send_transaction(connection, requests, stream):
        assert reply.data is not None or reply.type == 0


def send_transaction(
    connection: iproto.Connection, requests: Sequence[tuple[int, Mapping[int, object]]], stream: int = 1
) -> list[iproto.Reply]:
    """All packets of a transaction at once, then all replies. 2.6.0 knows no streams: one Lua call there."""
    if speaks_lua(connection):
        rows = [list(body[iproto.TUPLE]) for _, body in requests]  # type: ignore[call-overload]
        space = requests[0][1][iproto.SPACE_ID]
        text = (
            "local s, rows = ... box.begin() for _, row in ipairs(rows) do box.space[s]:replace(row) end box.commit()"
        )
        return [connection.ask(iproto.EVAL, {iproto.EXPR: text, iproto.TUPLE: [space, rows]})]
    packets = [(iproto.BEGIN, {}), *requests, (iproto.COMMIT, {})]
    out = bytearray()
    for type_, body in packets:
        out += iproto.request(type_, body, connection.next_sync(), stream)
    connection.send(bytes(out))
    return [connection.read_reply() for _ in packets]


def snapshot(connection: iproto.Connection) -> None:
    """Make a checkpoint now."""
    if speaks_lua(connection):
        connection.eval("box.snapshot()")
    else:
        connection.call("box.snapshot")

"""Rows of files as text: JSON as Tarantool's `xlog.pairs` shows them (lua/xlog.c), and one line of a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from headwater.errors import BoxError, MsgPackError
from headwater.wire.constants import DML_TYPES, Flag, Key, Type, key_name, type_name
from headwater.wire.msgpack import Datetime, Ext, FrozenMap, Interval, unpack
from headwater.wire.xrow import Row

TABLE_HEAD = f"{'LSN':>10}  {'REPLICA':>7}  {'TIME':<26}  {'TYPE':<13}  {'SPACE':<16}  CONTENTS"
_CONTENTS_MAX = 200
_DEPTH_MAX = 128
"""As Tarantool's json module has it: nesting beyond it is shown as an ellipsis."""


def row_value(row: Row) -> dict[str, Any]:
    """`{HEADER: {…}, BODY: {…}}`. As `xlog.pairs`, it shows TSN and COMMIT for transactions of several rows only, and
    names the keys of DML bodies; other bodies keep their numbers."""
    header: dict[str, Any] = {}
    if row.lsn:
        header["lsn"] = row.lsn
    if row.replica_id:
        header["replica_id"] = row.replica_id
    if row.group_id:
        header["group_id"] = row.group_id
    header["type"] = type_name(row.type) or row.type
    if row.timestamp:
        header["timestamp"] = row.timestamp
    if row.tsn != row.lsn or not row.is_commit:
        header["tsn"] = row.tsn
        if row.is_commit and row.tsn != row.lsn:
            header["commit"] = True
    value: dict[str, Any] = {"HEADER": header}
    if row.body:
        value["BODY"] = body_value(row)
    return value


def body_value(row: Row) -> Any:
    try:
        body = unpack(row.body)
    except MsgPackError as error:
        return {"unreadable": str(error), "data": row.body.hex()}
    if not isinstance(body, dict):
        return plain(body)
    named = row.type in DML_TYPES
    return {_body_key(key, named): plain(value) for key, value in body.items()}


def _body_key(key: object, named: bool) -> str:
    name = key_name(key) if named and isinstance(key, int) else None
    if name is None:
        return str(plain(key))
    return "operations" if name == Key.OPS.name else name.lower()


def json_line(row: Row) -> str:
    return json.dumps(row_value(row), ensure_ascii=False, separators=(",", ":"))


def plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON knows them. Decimals, uuids, moments and intervals become text, as Tarantool shows them; bytes
    that are no text keep their numbers behind backslashes; what is nested too deep is cut."""
    if isinstance(value, (Mapping, FrozenMap, list, tuple)) and not isinstance(value, Ext):
        return _plain_container(value, depth) if depth < _DEPTH_MAX else "…"
    if isinstance(value, Ext):
        return {"ext": value.type, "data": value.data.hex()}
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, (Decimal, UUID, Datetime, Interval)):
        return str(value)
    if isinstance(value, BoxError):
        return {"type": value.type_name, "code": value.code, "message": _text(value.message)}
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


def _plain_container(value: Any, depth: int) -> Any:
    if isinstance(value, (Mapping, FrozenMap)):
        pairs = value.items() if isinstance(value, Mapping) else value
        return {str(plain(key, depth + 1)): plain(item, depth + 1) for key, item in pairs}
    return [plain(item, depth + 1) for item in value]


def _text(value: str) -> str:
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def table_line(row: Row, spaces: Mapping[int, str]) -> str:
    """One line: who wrote what when, and the beginning of the contents."""
    when = datetime.fromtimestamp(row.timestamp, UTC).isoformat(" ")[:26] if row.timestamp else ""
    space, contents = _contents(row, spaces)
    marks = _marks(row)
    if len(contents) > _CONTENTS_MAX:
        contents = contents[: _CONTENTS_MAX - 1] + "…"
    name = type_name(row.type) or str(row.type)
    who = "local" if row.is_local else str(row.replica_id or "")
    return f"{row.lsn:>10}  {who:>7}  {when:<26}  {name:<13}  {space:<16}  {contents}{marks}".rstrip()


def _contents(row: Row, spaces: Mapping[int, str]) -> tuple[str, str]:
    """Name of the space, and the rest of the body."""
    body = body_value(row) if row.body else None
    if not isinstance(body, dict):
        return "", "" if body is None else json.dumps(body, ensure_ascii=False)
    space_id = body.pop("space_id", None)
    space = "" if space_id is None else spaces.get(space_id, str(space_id))
    if list(body) == ["tuple"] or (list(body) == ["key"] and row.type == Type.DELETE):
        (body,) = body.values()
    return space, json.dumps(body, ensure_ascii=False)


def _marks(row: Row) -> str:
    """What a transaction's flags say, for people."""
    marks = []
    if row.tsn != row.lsn or not row.is_commit:
        marks.append(f"tx {row.tsn}{' ends' if row.is_commit else ''}")
    if row.flags & Flag.WAIT_ACK:
        marks.append("sync")
    elif row.flags & Flag.WAIT_SYNC:
        marks.append("waits")
    return f"  [{', '.join(marks)}]" if marks else ""

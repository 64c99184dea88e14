"""Files of a real 3.9: every row in columns equals what Tarantool's own xlog.pairs printed of it, however the rows are
cut into batches."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.kernels.batches import ENVELOPE, columns, values
from tests.wire.golden import log_files, needs_golden
from tests.xlog.test_golden_files import same

from headwater.wire.constants import type_name
from headwater.wire.values import unpack_datetime, unpack_interval
from headwater.xlog import BytesFile, Reader

pytestmark = needs_golden

EACH_FILE = pytest.mark.parametrize("path", log_files(), ids=lambda path: f"{path.parent.name}/{path.name}")
NAMES = [source.name.lower() for source, _ in ENVELOPE]


def as_tarantool_shows(kind: int, contents: bytes) -> str:
    return str({4: unpack_datetime, 6: unpack_interval}[kind](contents))


def rows_of(path: Path) -> bytes:
    return b"".join(block.rows for block in Reader(BytesFile(path.read_bytes(), str(path))))


def decoded(c: ModuleType, data: bytes, row_limit: int) -> list[dict[str, Any]]:
    types = {number: name for number in range(64) if (name := type_name(number)) is not None}
    batch = c.Columns([(*column, 0, 0) for column in ENVELOPE], types, as_tarantool_shows, row_limit, 1 << 20, 2)
    out: list[dict[str, Any]] = []
    at = 0
    while at < len(data):
        at = batch.decode(data, at)
        out += [dict(zip(NAMES, one, strict=True)) for one in zip(*values(batch), strict=True)]
    return out


def shown(found: dict[str, Any]) -> dict[str, Any]:
    """A row of columns as xlog.pairs shows it."""
    header: dict[str, Any] = {"type": found["op"]}
    for name in ("lsn", "replica_id", "group_id"):
        if found[name]:
            header[name] = found[name]
    if found["timestamp"] is not None:
        header["timestamp"] = found["timestamp"] / 1e6
    if found["tsn"] != found["lsn"] or not found["is_commit"]:
        header["tsn"] = found["tsn"]
        if found["is_commit"]:
            header["commit"] = True
    value: dict[str, Any] = {"HEADER": header}
    body = _body(found)
    if body:
        value["BODY"] = body
    return value


def _body(found: dict[str, Any]) -> dict[str, Any]:
    if found["body"] is not None:
        return plain(found["body"].python)  # type: ignore[no-any-return]
    parts = {"space_id": found["space_id"], "index_id": found["index_id"] or None}
    parts["index_base"] = found["index_base"]
    parts["key"] = None if found["key"] is None else plain(found["key"].python)
    after = None if found["after"] is None else plain(found["after"].python)
    ops = None if found["ops"] is None else plain(found["ops"].python)
    parts |= {
        "tuple": ops if found["op"] == "UPDATE" else after,
        "operations": ops if found["op"] == "UPSERT" else None,
    }
    return {name: value for name, value in parts.items() if value is not None}


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


@EACH_FILE
def test_columns_equal_the_json_beside_the_file(c: ModuleType, path: Path) -> None:
    theirs = [json.loads(line) for line in path.with_name(path.name + ".json").read_text().splitlines()]
    ours = [json.loads(json.dumps(shown(row), default=int)) for row in decoded(c, rows_of(path), 100_000)]
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        if not other["HEADER"].get("replica_id") and one["BODY"].get("index_id") is None:
            other.get("BODY", {}).pop("index_id", None)
        assert same(one, other), f"\n{one}\n{other}"


@EACH_FILE
def test_batches_of_any_size_hold_the_same_rows(c: ModuleType, path: Path) -> None:
    data = rows_of(path)
    whole = decoded(c, data, 100_000)
    for row_limit in (1, 7, 1000):
        assert decoded(c, data, row_limit) == whole


@EACH_FILE
def test_packets_hold_the_same_rows(c: ModuleType, path: Path) -> None:
    data = rows_of(path)
    batch = columns(c, *ENVELOPE, row_limit=100_000, utf8=2)
    framed, plain_ = bytearray(), columns(c, *ENVELOPE, row_limit=1, utf8=2)
    at = 0
    while at < len(data):
        end = plain_.decode(data, at)
        plain_.take()
        framed += b"\xce" + (end - at).to_bytes(4, "big") + data[at:end]
        at = end
    assert batch.decode(bytes(framed), 0, framed=True) == len(framed)
    whole = columns(c, *ENVELOPE, row_limit=100_000, utf8=2)
    whole.decode(data, 0)
    assert batch.take() == whole.take()
    assert c.unframe(bytes(framed), 0, len(framed)) == (data, len(framed))

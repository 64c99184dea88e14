"""The same UPDATE and UPSERT requests to a real Tarantool 2.6.0: the same bytes, or the same error.

What 3.x does otherwise is told in `is_newer`; everything else must agree to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.test_update_model import any_ops, documents, flat_ops, overlap, places, values
from tests.support.fixtures import module_servers, needs_tarantool
from tests.support.iproto import (
    INDEX_BASE,
    KEY,
    LIMIT,
    OPS,
    REPLACE,
    SELECT,
    SPACE_ID,
    TUPLE,
    UPDATE,
    UPSERT,
    Connection,
    create_space,
)

from headwater.errors import BoxError, Er
from headwater.kernels import KeyDef, KeyPart, mp_next
from headwater.store.update import apply_update, apply_upsert, keeps_key
from headwater.typing import FieldType
from headwater.wire.msgpack import pack

__all__ = ["module_servers"]

pytestmark = [pytest.mark.interop, needs_tarantool]

SPACE = 512
FORMAT = [
    {"name": "id", "type": "unsigned"},
    {"name": "name", "type": "any", "is_nullable": True},
    {"name": "data", "type": "any", "is_nullable": True},
]
NAMES = {"id": 0, "name": 1, "data": 2}
PRIMARY = KeyDef([KeyPart(0, FieldType.UNSIGNED)])
NO_KEY = (Er.CANT_UPDATE_PRIMARY_KEY, Er.FIELD_TYPE, Er.FIELD_MISSING)
"""What becomes of a tuple that operations left without its primary key."""


@pytest.fixture(scope="module")
def server(module_servers: Any) -> Iterator[Connection]:
    started = module_servers.tarantool().start()
    with Connection(*started.address) as connection:
        create_space(connection, SPACE, "t", format=FORMAT)
        yield connection


def body(fields: dict[int, object], raw: dict[int, bytes]) -> bytes:
    """A map whose `raw` values are MessagePack already."""
    out = bytes([0x80 | (len(fields) + len(raw))])
    out += b"".join(bytes([key]) + pack(value) for key, value in fields.items())
    return out + b"".join(bytes([key]) + value for key, value in raw.items())


def tuple_of(raw: bytes) -> bytes:
    """The only tuple of a DATA reply: behind the header, and 81 30 dd <count>."""
    return raw[mp_next(raw, 5) + 7 :]


def real_update(server: Connection, row: bytes, ops: bytes, base: int) -> bytes | int:
    server.ask(REPLACE, body({SPACE_ID: SPACE}, {TUPLE: row})).data
    reply = server.ask(UPDATE, body({SPACE_ID: SPACE, INDEX_BASE: base, KEY: [1]}, {TUPLE: ops}))
    return reply.code if reply.failed else tuple_of(reply.raw)


def real_upsert(server: Connection, row: bytes, ops: bytes, base: int) -> bytes | int:
    server.ask(REPLACE, body({SPACE_ID: SPACE}, {TUPLE: row})).data
    reply = server.ask(UPSERT, body({SPACE_ID: SPACE, INDEX_BASE: base}, {TUPLE: pack([1]), OPS: ops}))
    if reply.failed:
        return reply.code
    return tuple_of(server.ask(SELECT, body({SPACE_ID: SPACE, LIMIT: 1, KEY: [1]}, {})).raw)


def our_update(row: bytes, ops: bytes, base: int) -> bytes | int:
    try:
        new = apply_update(ops, row, NAMES, base)
    except BoxError as error:
        return error.code
    return new if has_key(new) else Er.CANT_UPDATE_PRIMARY_KEY


def has_key(row: bytes) -> bool:
    return keeps_key(PRIMARY, pack([1]), row)


def is_newer(ours: bytes | int, theirs: bytes | int, ops: list[Any]) -> bool:
    """Does 3.x differ here from 2.6.0 on purpose?"""
    codes = {op[0] for op in ops if isinstance(op, list) and op}
    if theirs in (Er.NO_SUCH_FIELD_NO, Er.NO_SUCH_FIELD_NAME):
        # 2.8: a gap before a new field is filled with nils. 3.x: what is beyond the end is deleted already.
        return bool(codes & {"=", "!", "#"})
    if theirs == Er.UPDATE_FIELD:
        # 3.x: a field may be changed more than once.
        return len(ops) > 1
    # 3.x: binaries can be spliced.
    return theirs == Er.UPDATE_ARG_TYPE and ":" in codes


def agree(ours: bytes | int, theirs: bytes | int, ops: list[Any]) -> bool:
    if ours == theirs or (ours in NO_KEY and theirs in NO_KEY):
        return True
    return is_newer(ours, theirs, ops)


rows = st.lists(values, max_size=5).map(lambda rest: pack([1, *rest]))
bases = st.integers(0, 1)


@settings(max_examples=600, deadline=None)
@given(row=rows, ops=st.lists(flat_ops, max_size=5), base=bases)
def test_operations_on_fields_are_the_real_ones(server: Connection, row: bytes, ops: list[Any], base: int) -> None:
    ours, theirs = our_update(row, pack(ops), base), real_update(server, row, pack(ops), base)
    assert agree(ours, theirs, ops), (ours, theirs)


@settings(max_examples=600, deadline=None)
@given(row=rows, ops=st.lists(any_ops, min_size=1, max_size=1), base=bases)
def test_any_single_operation_is_the_real_one(server: Connection, row: bytes, ops: list[Any], base: int) -> None:
    ours, theirs = our_update(row, pack(ops), base), real_update(server, row, pack(ops), base)
    assert agree(ours, theirs, ops), (ours, theirs)


def steps_beside(document: Any, path: str = "[3]") -> list[str]:
    """Paths of what could be added: a key that no map has, the element behind the last."""
    out = []
    if isinstance(document, list):
        out.append(f"{path}[{len(document) + 1}]")
        for number, item in enumerate(document):
            out += steps_beside(item, f"{path}[{number + 1}]")
    elif isinstance(document, dict):
        out += [f"{path}.x", f"{path}['y z']"]
        for key, item in document.items():
            out += steps_beside(item, f"{path}.{key}")
    return out


@st.composite
def inner_operations(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    """A document, and operations inside it no path of which is the beginning of another."""
    document = draw(documents)
    there, beside = places(document, "[3]")[1:], steps_beside(document)
    chosen: list[str] = []
    ops = []
    for path in draw(st.lists(st.sampled_from(there + beside), max_size=6)) if there + beside else []:
        if any(overlap(path, other) for other in chosen):
            continue
        chosen.append(path)
        code = draw(st.sampled_from("=!" if path in beside else "=+-&|^:#!"))
        argument: list[Any] = {"#": [draw(st.integers(1, 3))], ":": [1, 1, "X"]}.get(code, [draw(st.integers(0, 9))])
        ops.append([code, path, *(argument if code not in "=!" else [draw(documents)])])
    return document, ops


@settings(max_examples=1000, deadline=None)
@given(case=inner_operations())
def test_operations_inside_a_field_are_the_real_ones(server: Connection, case: tuple[Any, list[Any]]) -> None:
    document, ops = case
    row = pack([1, "n", document, "end"])
    ours, theirs = our_update(row, pack(ops), 0), real_update(server, row, pack(ops), 0)
    assert agree(ours, theirs, ops), (ours, theirs)


@settings(max_examples=400, deadline=None)
@given(row=rows, ops=st.lists(flat_ops, max_size=5, unique_by=lambda op: op[1] % 9), base=bases)
def test_upserts_are_the_real_ones(server: Connection, row: bytes, ops: list[Any], base: int) -> None:
    """Each field is changed once, and none moves: 2.6.0 skips the second change of a field."""
    ops = [op for op in ops if op[0] not in "!#" and 0 <= op[1] - base < 4 and op[0] != ":"]
    try:
        ours: bytes | int = apply_upsert(pack(ops), row, NAMES, base).tuple
        ours = ours if has_key(ours) else row
    except BoxError as error:
        ours = error.code
    theirs = real_upsert(server, row, pack(ops), base)
    beyond = any(op[0] == "=" and op[1] - base > row[0] - 0x90 for op in ops)
    assert ours == theirs or beyond or theirs == Er.FIELD_TYPE, (ours, theirs)


MESSAGES: list[tuple[list[Any], list[Any]]] = [
    ([1], [["+", 7, 1]]), ([1], [["=", -7, 1]]), ([1], [["+", "nope", 1]]), ([1, "a"], [["+", 1, 1]]),
    ([1, 1], [["+", 1, "x"]]), ([1, 1], [["&", 1, -1]]), ([1, -1], [["|", 1, 1]]), ([1, 2**64 - 1], [["+", 1, 1]]),
    ([1, "a"], [[":", 1, -9, 0, ""]]), ([1, "a"], [[":", 1, "x", 0, ""]]), ([1], [["?", 1, 1]]), ([1], [["=", 1]]),
    ([1], [5]), ([1], [[]]), ([1], [[1, 2, 3]]), ([1], [["=", None, 1]]), ([1], [["#", 0, 0]]), ([1], [["#", 0, -1]]),
    ([1, 1, {"a": 1}], [["!", "data.a", 1]]), ([1, 1, {"a": 1}], [["#", "data.a", 2]]),
    ([1, 1, {"a": 1}], [["=", "data..a", 1]]),
    ([1, 1, {"a": 1}], [["=", "data.a.b", 1]]), ([1, 1, {"a": 1}], [["=", "data[1]", 1]]),
    ([1, 1, [1]], [["=", "data.a", 1]]),
    ([1, 1, [1]], [["=", "data[*]", 1]]), ([1, 1, [1]], [["=", "data[3]", 1]]),
    ([1, 1, {"a": 1}], [["+", "data.a", "x"]]),
    ([1, 1, {"a": 1}], [["+", "data.x", 1]]), ([1, 1, {"a": 1}], [["#", "data.x", 1]]),
    ([1, 1, {"я": 1}], [["=", "data.я.", 1]]),
]  # fmt: skip


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize(("row", "ops"), MESSAGES)
def test_errors_have_the_real_words(server: Connection, row: list[Any], ops: list[Any], base: int) -> None:
    server.replace(SPACE, row)
    reply = server.ask(UPDATE, body({SPACE_ID: SPACE, INDEX_BASE: base, KEY: [1]}, {TUPLE: pack(ops)}))
    # 2.6.0 puts its name before each illegal parameter, and splices no binaries.
    words = reply.message.removeprefix("Illegal parameters, ").replace(
        "expected a string", "expected a string or varbinary"
    )
    ours = (0, "")
    try:
        apply_update(pack(ops), pack(row), NAMES, base)
    except BoxError as error:
        ours = (error.code, error.message)
    assert ours == (reply.code, words) or (reply.code == Er.CANT_UPDATE_PRIMARY_KEY and not ours[0])

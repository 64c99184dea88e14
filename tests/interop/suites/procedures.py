"""The procedures that asynctnt's suite calls, natively; a node loads them by its option `procedures`."""

from __future__ import annotations

import asyncio
from typing import Any

from headwater.box.procedures import Context, procedure
from headwater.errors import BoxError, Packed

EMPTIED = ("tester", "no_schema_space", "tester_ext_dec", "tester_ext_uuid", "tester_ext_datetime")


@procedure
def truncate(ctx: Context) -> None:
    """Row by row, as the fixture does it: `truncate` would change the schema version."""
    for name in EMPTIED:
        space = ctx.space(name)
        for row in list(space.select()):
            space.delete(row[0])


@procedure
def change_format(ctx: Context) -> None:
    types = ["unsigned", "string", "unsigned", "unsigned", "*", "*"]
    ctx.call("box.space.tester:format", [{"type": type_, "name": f"f{n}"} for n, type_ in enumerate(types, 1)])


@procedure
def make_third_index(ctx: Context, name: str) -> Any:
    index = ctx.call("box.space.tester:create_index", name, {"unique": True, "parts": [3, "unsigned"]})
    return [index["id"]]


@procedure
async def func_long(ctx: Context, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "ok"


@procedure
def func_param(ctx: Context, value: Any = None, *_: Any) -> list[Any]:
    return [value]


@procedure
def func_param_bare(ctx: Context, value: Any = None, *_: Any) -> Any:
    return value


@procedure
def func_hello_bare(ctx: Context, *_: Any) -> str:
    return "hello"


@procedure
def func_hello(ctx: Context, *_: Any) -> list[str]:
    return ["hello"]


@procedure
def func_load_bin_str(ctx: Context) -> Any:
    return ctx.space("tester").insert([100, Packed(b"\xb0" + bytes(range(240, 256))), 12, 15, "hello"])


@procedure(name="raise")
def raise_(ctx: Context) -> None:
    raise BoxError(0, "my reason")


@procedure
def async_action(ctx: Context) -> str:
    """Without the pushes: 3.x has deprecated them."""
    return "ret"

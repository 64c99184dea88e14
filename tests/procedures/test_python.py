"""Procedures that a user writes."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.procedures.node import CallNode

from headwater.box.procedures import Context, procedure, registry
from headwater.errors import AccessDenied, BoxError, Er
from headwater.wire.constants import Type


def node_with(*functions: Callable[..., Any], **named: Callable[..., Any]) -> CallNode:
    node = CallNode({**{function.__name__: function for function in functions}, **named})
    node.call("box.schema.space.create", "t", {"format": [["id", "unsigned"], ["name", "string"], ["n", "integer"]]})
    node.call("box.space.t:create_index", "pk")
    node.call("box.space.t:create_index", "by_name", {"parts": ["name"], "unique": False})
    node.rows()
    return node


# ---- values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "values", "tuples"),
    [
        (None, [], []),
        (5, [5], [[5]]),
        ((1, "a"), [1, "a"], [[1], ["a"]]),
        ((None,), [None], [[None]]),
        ([1, 2], [[1, 2]], [[1, 2]]),
        ([[1], [2]], [[[1], [2]]], [[1], [2]]),
        ([[1], 2], [[[1], 2]], [[1], [2]]),
        ([], [[]], [[]]),
        ({"a": 1}, [{"a": 1}], [[{"a": 1}]]),
        (([1], 2), [[1], 2], [[1], [2]]),
        ((), [], []),
    ],
)
def test_what_a_procedure_returns(returned: object, values: list[Any], tuples: list[Any]) -> None:
    node = node_with(f=lambda ctx: returned)
    assert node.call("f") == values
    assert node.call("f", type=Type.CALL_16) == tuples


def test_what_cannot_be_sent_is_an_error() -> None:
    assert node_with(f=lambda ctx: object()).fails("f").code == Er.PROC_LUA


# ---- data -----------------------------------------------------------------------------------------------


def test_the_whole_of_a_space() -> None:
    def work(ctx: Context) -> dict[str, Any]:
        t = ctx.space("t")
        first = t.insert([1, "a", 10])
        t.replace((2, "b", 20))
        t.upsert([2, "x", 0], [("+", 2, 1)])
        t.upsert([3, "b", 30], [("+", "n", 1)])
        updated = t.update(1, [("=", "name", "z"), ("-", 2, 1)])
        by_name = t.index("by_name")
        return {
            "first": first,
            "updated": updated,
            "get": t.get(1),
            "missing": t.get(9),
            "all": t.select(),
            "some": t.select(2, "GE", limit=1),
            "after": t.select(after=[1, "z", 9]),
            "pairs": [row[0] for row in t],
            "backwards": [row[0] for row in t.pairs(None, "LE")],
            "counts": [len(t), t.count(2, "GE"), by_name.count("b")],
            "extremes": [by_name.min(), by_name.max(), by_name.max("q")],
            "deleted": t.delete(3),
            "gone": t.delete(3),
            "fields": list(t.fields),
            "named": by_name.select("b"),
            "names": [t.name, t.id, by_name.name],
        }

    assert node_with(work).value("work") == {
        "first": [1, "a", 10],
        "updated": [1, "z", 9],
        "get": [1, "z", 9],
        "missing": None,
        "all": [[1, "z", 9], [2, "b", 21], [3, "b", 30]],
        "some": [[2, "b", 21]],
        "after": [[2, "b", 21], [3, "b", 30]],
        "pairs": [1, 2, 3],
        "backwards": [3, 2, 1],
        "counts": [3, 2, 2],
        "extremes": [[2, "b", 21], [1, "z", 9], None],
        "deleted": [3, "b", 30],
        "gone": None,
        "fields": ["id", "name", "n"],
        "named": [[2, "b", 21]],
        "names": ["t", 512, "by_name"],
    }


def test_pairs_walk_over_more_than_one_page() -> None:
    def fill(ctx: Context, count: int) -> list[int]:
        with ctx.atomic():
            for number in range(count):
                ctx.space("t").insert([number, "x", 0])
        return [sum(1 for _ in ctx.space("t")), len({row[0] for row in ctx.space("t").index("by_name").pairs("x")})]

    assert node_with(fill).value("fill", 2500) == [2500, 2500]


def test_what_is_not_there_is_an_error_that_the_procedure_may_catch() -> None:
    def look(ctx: Context) -> list[str]:
        said = []
        for ask in (lambda: ctx.space("u"), lambda: ctx.space("t").index("zz"), lambda: ctx.call("nope")):
            try:
                ask()
            except BoxError as error:
                said.append(error.message)
        return said

    assert node_with(look).value("look") == [
        "Space 'u' does not exist",
        "No index 'zz' is defined in space 't'",
        "Procedure 'nope' is not defined",
    ]


def test_procedures_call_procedures() -> None:
    def inner(ctx: Context, a: int, b: int) -> int:
        ctx.space("t").insert([a, "inner", b])
        return a + b

    def outer(ctx: Context) -> list[Any]:
        with ctx.atomic():
            return [ctx.call("inner", 1, 2), ctx.call("box.space.t:len"), ctx.user]

    assert node_with(inner, outer).value("outer") == [3, 1, "admin"]


def test_a_procedure_has_the_rights_of_who_calls_it() -> None:
    def peek(ctx: Context) -> int:
        return len(ctx.space("t"))

    node = node_with(peek)
    node.call("box.schema.user.create", "alice")
    alice = node.schema.users.by_name("alice")
    assert isinstance(node.fails("peek", user=alice), AccessDenied)
    node.call("box.schema.user.grant", "alice", "execute", "lua_call", "peek")
    assert node.fails("peek", user=alice).message == "Read access to space 't' is denied for user 'alice'"
    node.call("box.schema.func.create", "peek", {"setuid": True})
    node.call("box.schema.user.grant", "alice", "execute", "function", "peek")
    assert node.value("peek", user=alice) == 0


# ---- transactions ---------------------------------------------------------------------------------------


def test_atomic_is_one_transaction_in_the_journal() -> None:
    def pay(ctx: Context) -> None:
        with ctx.atomic():
            ctx.space("t").insert([1, "a", 1])
            ctx.space("t").insert([2, "b", 2])

    node = node_with(pay)
    node.call("pay")
    rows = node.rows()
    assert [row.tsn for row in rows] == [rows[0].lsn] * 2


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("x")])
def test_an_error_undoes_atomic_and_tells_the_log(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    def pay(ctx: Context) -> None:
        with ctx.atomic():
            ctx.space("t").insert([1, "a", 1])
            raise error

    node = node_with(pay)
    with caplog.at_level(logging.ERROR, "headwater.call"):
        told = node.fails("pay")
    assert told.code == Er.PROC_LUA
    assert told.message.startswith(f"pay: {type(error).__name__}: ")
    assert "Traceback" in caplog.text
    assert node.rows() == []
    assert node.value("box.space.t:len") == 0


def test_a_failing_statement_undoes_itself_alone() -> None:
    def work(ctx: Context) -> None:
        with ctx.atomic():
            ctx.space("t").insert([1, "a", 1])
            try:
                ctx.space("t").insert([1, "b", 1])
            except BoxError as error:
                ctx.space("t").insert([2, error.message[:13], 1])

    node = node_with(work)
    node.call("work")
    assert node.value("box.space.t:select") == [[1, "a", 1], [2, "Duplicate key", 1]]


def test_by_hand_begin_commit_rollback() -> None:
    def work(ctx: Context) -> int:
        ctx.begin()
        ctx.space("t").insert([1, "a", 1])
        ctx.rollback()
        ctx.begin()
        ctx.space("t").insert([2, "a", 1])
        ctx.commit()
        ctx.commit()
        ctx.rollback()
        return len(ctx.space("t"))

    assert node_with(work).value("work") == 1


def test_a_transaction_left_open_is_undone_and_an_error() -> None:
    def forget(ctx: Context) -> None:
        ctx.begin()
        ctx.space("t").insert([1, "a", 1])

    node = node_with(forget)
    assert node.fails("forget").message == "Transaction is active at return from function"
    assert node.value("box.space.t:len") == 0


def test_begin_twice() -> None:
    def twice(ctx: Context) -> None:
        ctx.begin()
        ctx.begin()

    assert node_with(twice).fails("twice").code == Er.ACTIVE_TRANSACTION


def test_in_the_transaction_of_a_stream() -> None:
    def add(ctx: Context, key: int) -> int:
        with ctx.atomic():
            ctx.space("t").insert([key, "a", 1])
        return len(ctx.space("t"))

    def end(ctx: Context) -> None:
        ctx.commit()

    node = node_with(add, end)
    txn = node.begin()
    assert node.value("add", 1, txn=txn) == 1
    assert node.value("box.space.t:len") == 0
    assert node.fails("add", 1, txn=txn).code == Er.TUPLE_FOUND
    assert node.fails("end", txn=txn).code == Er.UNSUPPORTED
    assert node.value("box.space.t:len", txn=txn) == 1
    node.statements.commit(txn)
    assert node.value("box.space.t:len") == 1


# ---- procedures that wait ---------------------------------------------------------------------------------


def test_a_procedure_that_waits() -> None:
    async def work(ctx: Context) -> tuple[int, bool]:
        ctx.space("t").insert([1, "a", 1])
        await ctx.settled()
        await asyncio.sleep(0)
        return len(ctx.space("t")), ctx.txn is None

    assert node_with(work).call("work") == [1, True]


def test_it_calls_others_that_wait() -> None:
    async def inner(ctx: Context) -> str:
        await asyncio.sleep(0)
        return ctx.user

    async def outer(ctx: Context) -> list[Any]:
        return [await ctx.call("inner"), await ctx.call("box.snapshot"), ctx.call("box.space.t:len")]

    node = node_with(inner, outer)
    assert node.value("outer") == ["admin", "ok", 0]
    node.call("box.schema.func.create", "inner", {"setuid": True})
    node.call("box.schema.user.create", "alice")
    node.call("box.schema.user.grant", "alice", "execute,read", "universe")
    assert node.value("outer", user=node.schema.users.by_name("alice"))[0] == "admin"


def test_waiting_inside_atomic_loses_it() -> None:
    async def work(ctx: Context) -> list[Any]:
        try:
            with ctx.atomic():
                ctx.space("t").insert([1, "a", 1])
                await asyncio.sleep(0)
                ctx.space("t").insert([2, "a", 1])
        except BoxError as error:
            return [error.message, len(ctx.space("t"))]
        return []

    assert node_with(work).value("work") == ["Transaction has been aborted by a fiber yield", 0]


def test_a_transaction_over_waits() -> None:
    async def work(ctx: Context) -> list[int]:
        seen = []
        async with ctx.transaction():
            ctx.space("t").insert([1, "a", 1])
            await asyncio.sleep(0)
            seen.append(len(ctx.space("t")))
        seen.append(len(ctx.space("t")))
        return seen

    node = node_with(work)
    others: list[int] = []
    count = lambda: others.append(len(node.select(512)))  # noqa: E731
    assert node.value("work", meanwhile=count) == [1, 1]
    assert others == [0]


def test_a_conflict_dooms_it() -> None:
    async def work(ctx: Context) -> None:
        async with ctx.transaction("best-effort"):
            found = ctx.space("t").get(1)
            await asyncio.sleep(0)
            ctx.space("t").replace([1, "a", (found or [0, 0, 0])[2] + 1])

    node = node_with(work)
    node.call("box.space.t:insert", [1, "a", 5])
    error = node.fails("work", meanwhile=lambda: node.update(512, [1], [["=", 2, 50]]))
    assert error.message == "Transaction has been aborted by conflict"
    assert node.value("box.space.t:get", 1) == [1, "a", 50]


def test_an_error_undoes_a_transaction_over_waits() -> None:
    async def work(ctx: Context) -> None:
        async with ctx.transaction():
            ctx.space("t").insert([1, "a", 1])
            await asyncio.sleep(0)
            raise RuntimeError("no")

    node = node_with(work)
    assert node.fails("work").message == "work: RuntimeError: no"
    assert node.value("box.space.t:len") == 0


def test_read_confirmed_waits_for_the_journal_first() -> None:
    async def work(ctx: Context) -> int:
        async with ctx.transaction("read-confirmed"):
            return len(ctx.space("t"))

    node = node_with(work)
    node.insert(512, 1, "a", 1)
    assert node.value("work") == 1
    assert node.settles == 1


def test_a_level_that_is_none() -> None:
    async def work(ctx: Context) -> None:
        async with ctx.transaction("perfect"):
            pass

    assert node_with(work).fails("work").message == (
        "txn_isolation must be one of box.txn_isolation_level (keys or values)"
    )


# ---- modules --------------------------------------------------------------------------------------------

MODULE = '''
from headwater.box.procedures import Context, procedure

@procedure
def hello(ctx: Context, who: str = "you") -> str:
    return f"hello {who}"

@procedure(name="shop.buy")
async def buy(ctx: Context) -> int:
    return 1

def helper(ctx: Context) -> None:
    """Nobody can call it."""
'''


def test_a_file_of_procedures(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    node = CallNode(registry.load([str(tmp_path / "mine.py")]))
    assert node.value("hello", "world") == "hello world"
    assert node.value("shop.buy") == 1
    assert node.fails("helper").code == Er.NO_SUCH_PROC


def test_a_module_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_on_path.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert sorted(registry.load(["mine_on_path"])) == ["hello", "shop.buy"]
    finally:
        sys.modules.pop("mine_on_path", None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = (", "cannot be loaded: SyntaxError"),
        ("raise ValueError('boom')", "cannot be loaded: ValueError: boom"),
        ("import no_such_module_at_all", "cannot be loaded: ModuleNotFoundError"),
        ("def f(ctx): pass", "has no function marked with @procedure"),
        (
            "from headwater.box.procedures import procedure\n@procedure(name='box.info')\ndef f(ctx): pass",
            "names under 'box' are built in",
        ),
    ],
)
def test_a_module_that_cannot_be_had_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text)
    with pytest.raises(BoxError) as caught:
        registry.load([str(path)])
    assert caught.value.code == Er.CFG
    assert words in caught.value.message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BoxError, match="cannot be loaded: FileNotFoundError"):
        registry.load([str(tmp_path / "none.py")])


def test_one_name_in_two_modules(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(MODULE)
    with pytest.raises(BoxError, match="procedure 'hello' is in two modules"):
        registry.load([str(tmp_path / "a.py"), str(tmp_path / "b.py")])


def test_the_mark_keeps_the_function() -> None:
    @procedure
    def f(ctx: Context) -> int:
        return 1

    assert f(None) == 1  # type: ignore[arg-type]
    assert registry.collect({"f": f, "other": 5}) == {"f": f}

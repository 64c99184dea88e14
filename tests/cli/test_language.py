"""Lines of the prompt."""

from __future__ import annotations

import pytest

from headwater.cli.shell.language import Call, Command, Meta, Read, Write, parse
from headwater.cli.shell.literals import ParseError


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("t.select", Read("t", None, [])),
        ("t.select 1", Read("t", None, [1])),
        ("t.select(1)", Read("t", None, [1])),
        ("t.select [1, 'a'];", Read("t", None, [1, "a"])),
        ("t.select 1, a", Read("t", None, [1, "a"])),
        ("t.by_name.select a limit=5 iterator=ge", Read("t", "by_name", ["a"], {"limit": 5, "iterator": "ge"})),
        ("t.select a index=by_name offset=2", Read("t", "by_name", ["a"], {"offset": 2})),
        ("_space.get 280", Read("_space", None, [280], single=True)),
        ("t.insert 1 a", Write("insert", "t", None, [1, "a"])),
        ("t.insert [1, a]", Write("insert", "t", None, [1, "a"])),
        ("t.replace {id: 1}", Write("replace", "t", None, {"id": 1})),
        ("t.insert id=1 name='b'", Write("insert", "t", None, {"id": 1, "name": "b"})),
        ("t.delete 1", Write("delete", "t", None, [1])),
        ("t.by_name.delete a", Write("delete", "t", "by_name", ["a"])),
        ("t.update 1 n+=2 name=b", Write("update", "t", None, [1], [["+", "n", 2], ["=", "name", "b"]])),
        ("t.update 1 [['#', 2, 1]]", Write("update", "t", None, [1], [["#", 2, 1]])),
        ("t.upsert [1, a] n-=1", Write("upsert", "t", None, [1, "a"], [["-", "n", 1]])),
        ("t.count", Call("box.space.t:count", [])),
        ("t.pk.max 5", Call("box.space.t.index.pk:max", [5])),
        ("t.create_index sk unique=false", Call("box.space.t:create_index", ["sk", {"unique": False}])),
        ("box.info", Call("box.info", [])),
        ("box.space.t:select(1)", Call("box.space.t:select", [1])),
        ("box.cfg {checkpoint_count: 3}", Call("box.cfg", [{"checkpoint_count": 3}])),
        ("f(1, 'a')", Call("f", [1, "a"])),
        ("shop.buy 1 item=2", Call("shop.buy", [1, {"item": 2}])),
        ("f", Call("f", [])),
        (r"\d t", Meta("d", "t")),
        (r"\q", Meta("q")),
        ("exit", Meta("q")),
        ("help", Meta("help")),
        ("", None),
        ("# nothing", None),
        ("-- nothing", None),
    ],
)
def test_line(line: str, command: Command | None) -> None:
    assert parse(line) == command


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("t.select 1 limt=3", "no option 'limt'"),
        ("t.select limit=x", "limit is a whole number"),
        ("t.insert", "takes a tuple"),
        ("t.insert 1 name=b", "either values in their order or field=value"),
        ("t.update 1", "needs operations"),
        ("t.delete 1 n=2", "delete takes a key"),
        ("f n+=1", "only '=' names an option"),
        (r"\zz", r"\zz is not known"),
        ("(1)", "a line begins with"),
        ("t.select [1", "missing"),
    ],
)
def test_a_wrong_line_says_what_is_wrong(line: str, words: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(line)
    assert words in str(caught.value)

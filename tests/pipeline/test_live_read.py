"""A live space read without Spark: pages, ranges, members."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from hypothesis import given as given_that
from hypothesis import settings
from hypothesis import strategies as st
from pyspark.sql import datasource as ds
from tests.pipeline.sinks import make_space, options
from tests.support.cluster import Cluster, kinds
from tests.support.fixtures import Servers, module_servers, needs_tarantool
from tests.support.iproto import BEGIN, COMMIT, DELETE, INDEX_ID, KEY, REPLACE, SPACE_ID, TUPLE, UPDATE, Connection
from tests.support.process import Server

from headwater.pipeline import livesource
from headwater.pipeline.errors import NotThere, OptionError, PipelineError, ValueUnfit
from headwater.pipeline.livesource import LivePart

__all__ = ["module_servers"]

BOOKS = [("id", "unsigned", False), ("shelf", "string", False), ("n", "integer", True)]
COUNT = 3000


@pytest.fixture(scope="module", params=["node", pytest.param("old", marks=needs_tarantool)])
def server(request: pytest.FixtureRequest, module_servers: Servers) -> Server:
    """Each kind with the same books: ids 0, 3, 6, …; ten shelves."""
    made = module_servers.subject("node") if request.param == "node" else module_servers.tarantool("old")
    made.start()
    fill(made, make_space(made, "books", BOOKS), range(0, 3 * COUNT, 3))
    return made


def fill(server: Server, space: int, ids: Iterable[int]) -> None:
    with Connection("127.0.0.1", server.port) as conn:
        conn.pipeline((REPLACE, {SPACE_ID: space, TUPLE: [id, f"shelf {id % 10}", -id]}) for id in ids)


def parts_of(given: dict[str, str], *filters: ds.Filter) -> tuple[livesource.LiveReader, list[LivePart]]:
    reader = livesource.reader(given, livesource.schema(given))
    assert isinstance(reader, livesource.LiveReader)
    if filters:
        assert isinstance(reader, livesource.PushDownLiveReader)
        assert list(reader.pushFilters(list(filters))) == list(filters)
    return reader, list(reader.partitions())  # type: ignore[arg-type]


def read(given: dict[str, str], *filters: ds.Filter) -> list[list[Any]]:
    """Ids of each partition."""
    reader, parts = parts_of(given, *filters)
    return [[id for batch in reader.read(part) for id in batch.column("id").to_pylist()] for part in parts]


def test_all_tuples_come_once_in_pages_of_any_size(server: Server) -> None:
    for rows, size in ((1, "1k"), (7, "1k"), (1000, "100"), (10_000, "1m")):
        limit = {"keyTo": "300"} if rows == 1 else {}
        found = read(options(server, space="books", pageRows=rows, pageBytes=size, **limit))
        assert found == [list(range(0, 300 if limit else 3 * COUNT, 3))]


def test_several_partitions_share_the_space_in_ranges_of_its_key(server: Server) -> None:
    found = read(options(server, space="books", numPartitions=4))
    assert [id for part in found for id in part] == list(range(0, 3 * COUNT, 3))
    assert len(found) == 4
    assert all(len(part) > COUNT / 8 for part in found)


def test_options_name_a_stretch_of_the_key(server: Server) -> None:
    assert read(options(server, space="books", keyFrom=10, keyTo=21)) == [[12, 15, 18]]
    assert read(options(server, space="books", keyFrom="[8991]")) == [[8991, 8994, 8997]]
    with pytest.raises(OptionError, match="has 1 parts; a key of 2 is given"):
        read(options(server, space="books", keyFrom="[1, 2]"))
    with pytest.raises(OptionError, match="'keyFrom' should be a value of the key in JSON"):
        read(options(server, space="books", keyFrom="{}"))


def test_filters_become_ranges_of_the_key(server: Server) -> None:
    given = options(server, space="books", pushDownFilters="true")
    cases: list[tuple[list[ds.Filter], list[int]]] = [
        ([ds.EqualTo(("id",), 30)], [30]),
        ([ds.EqualTo(("id",), 31)], []),
        ([ds.In(("id",), (9, 3, 10, 3))], [3, 9]),
        ([ds.GreaterThan(("id",), 8990), ds.IsNotNull(("id",))], [8991, 8994, 8997]),
        ([ds.GreaterThanOrEqual(("id",), 6), ds.LessThan(("id",), 12)], [6, 9]),
        ([ds.LessThanOrEqual(("id",), 3), ds.GreaterThan(("id",), -5)], [0, 3]),
        ([ds.LessThan(("n",), -8990)], list(range(0, 3 * COUNT, 3))),
    ]
    for filters, wanted in cases:
        assert [id for part in read(given, *filters) for id in part] == wanted


@settings(max_examples=60, deadline=None)
@given_that(data=st.data())
def test_what_filters_leave_out_they_would_have_thrown_away(data: st.DataObject) -> None:
    """By values, on a key of two parts: a range is never too narrow."""
    from headwater.pipeline.dictionary import FieldFacts, IndexFacts, PartFacts, SpaceFacts
    from headwater.pipeline.keyrange import Cutter, Narrower, Order, option_range
    from headwater.pipeline.types import TypeSettings, typed_schema
    from headwater.wire.msgpack import pack

    fields = (FieldFacts("a", "integer", nullable=False), FieldFacts("b", "string", nullable=False))
    index = IndexFacts(0, "primary", "tree", True, (PartFacts(0, "integer"), PartFacts(1, "string")))
    space = SpaceFacts(512, "t", fields, (0, 1), "memtx", False, 0, False, False, (index,))
    order = Order(space, index)
    numbers, words = st.integers(-2, 2), st.sampled_from(["", "a", "b", "é"])
    kinds_ = {
        "==": ds.EqualTo,
        ">": ds.GreaterThan,
        ">=": ds.GreaterThanOrEqual,
        "<": ds.LessThan,
        "<=": ds.LessThanOrEqual,
    }
    drawn = data.draw(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(list(kinds_))), max_size=4))
    narrower = Narrower(order, typed_schema(space, TypeSettings()))
    conditions = []
    for column, operator in drawn:
        value = data.draw(numbers if column == "a" else words)
        narrower.push(kinds_[operator]((column,), value))
        conditions.append(f"{column} {operator} {value!r}")
    for a in range(-3, 4):
        for b in ("", "a", "aa", "b", "é"):
            if not all(eval(condition, {"a": a, "b": b}) for condition in conditions):
                continue
            packed = pack([a, b])
            assert any(
                Cutter(order, each).inside(1, lambda _, packed=packed: packed) == 1
                and (
                    each.begin is None
                    or order.key_def().compare_with_key(packed, each.first_key) >= (not each.with_begin)
                )
                for each in narrower.ranges(option_range(None, None))
            ), (conditions, a, b)


def test_a_secondary_index_is_read_where_the_server_can_go_on_behind_a_tuple(server: Server) -> None:
    space = make_space(server, "indexed", BOOKS)
    with Connection("127.0.0.1", server.port) as conn:
        conn.insert(288, [space, 1, "shelf", "tree", {"unique": False}, [[1, "string"]]])
    fill(server, space, range(2000))
    given = options(server, space="indexed", index="shelf", pageRows=150)
    if "tarantool" in server.name:
        with pytest.raises(PipelineError, match=r"whose keys do not say which tuple it is: servers from 2\.11 on can"):
            read(given)
        given = options(server, space="indexed", index="shelf", keyFrom='"shelf 7"', keyTo='"shelf 8"')
        assert read(given) == [list(range(7, 2000, 10))]
        return
    assert read(given) == [[id for shelf in range(10) for id in range(shelf, 2000, 10)]]
    assert read({**given, "keyFrom": '"shelf 7"', "keyTo": '"shelf 8"'}) == [list(range(7, 2000, 10))]


def test_a_hash_is_read_by_one_request_or_by_a_tree_beside_it(server: Server) -> None:
    space = make_space(server, "hashed", BOOKS)
    with Connection("127.0.0.1", server.port) as conn:
        conn.ask(DELETE, {SPACE_ID: 288, INDEX_ID: 0, KEY: [space, 0]})
        conn.insert(288, [space, 0, "primary", "hash", {"unique": True}, [[0, "unsigned"]]])
        fill(server, space, range(2500))
        assert [sorted(part) for part in read(options(server, space="hashed", numPartitions=3))] == [list(range(2500))]
        conn.insert(288, [space, 1, "tree", "tree", {"unique": True}, [[0, "unsigned"], [1, "string"]]])
    assert sum(map(len, read(options(server, space="hashed", numPartitions=3)))) == 2500
    assert len(parts_of(options(server, space="hashed", numPartitions=3))[1]) == 3


def test_tuples_that_stay_come_once_while_others_come_and_go(server: Server) -> None:
    """Between any two pages something is inserted and deleted, before and behind the reader."""
    space = make_space(server, "busy", BOOKS)
    fill(server, space, range(0, 4000, 2))
    reader, parts = parts_of(options(server, space="busy", numPartitions=2, pageRows=100, pageBytes="4k"))
    chance = random.Random(7)
    found: Counter[int] = Counter()
    with Connection("127.0.0.1", server.port) as conn:
        for part in parts:
            for page in _pages(reader, part):
                found.update(each[0] for each in page)
                odd = [chance.randrange(1, 4000, 2) for _ in range(20)]
                conn.pipeline((REPLACE, {SPACE_ID: space, TUPLE: [id, "s", 0]}) for id in odd)
                conn.pipeline((DELETE, {SPACE_ID: space, INDEX_ID: 0, KEY: [id]}) for id in odd[:10])
    assert all(found[id] == 1 for id in range(0, 4000, 2))


def _pages(reader: livesource.LiveReader, part: LivePart) -> Iterator[list[Any]]:
    """Page by page, as they come from the wire."""
    from headwater.pipeline.leader import Seeker
    from headwater.pipeline.livepages import Pages
    from headwater.wire.msgpack import unpack

    for wanted in part.ranges:
        for page in Pages(part.reading, wanted, Seeker(part.members, 5.0)):
            yield [unpack(page.tuple(number)) for number in range(page.count)]


def test_a_read_view_shows_one_moment(server: Server) -> None:
    """Money moves from tuples that were read to others that were not, each time in one transaction."""
    space = make_space(server, "money", BOOKS)
    with Connection("127.0.0.1", server.port) as conn:
        conn.pipeline((REPLACE, {SPACE_ID: space, TUPLE: [id, "", 10]}) for id in range(3000))
    given = options(server, space="money", pageRows=100, pageBytes="4k")
    if "tarantool" in server.name:
        with pytest.raises(PipelineError, match="has no read views over a connection"):
            read({**given, "readView": "true"})
        return

    def sum_of(**more: str) -> int:
        reader, (part,) = parts_of({**given, **more})
        total = 0
        with Connection("127.0.0.1", server.port) as conn:
            for tuples in _pages(reader, part):
                total += sum(each[2] for each in tuples)
                last = tuples[-1][0]
                if last < 2700:
                    move(conn, space, tuples[0][0], last + 250)
        return total

    assert sum_of() > 30_000
    assert sum_of(readView="true") == 30_000


def move(conn: Connection, space: int, giver: int, taker: int) -> None:
    conn.ask(BEGIN, stream=1)
    for id, change in ((giver, -5), (taker, 5)):
        conn.ask(UPDATE, {SPACE_ID: space, INDEX_ID: 0, KEY: [id], TUPLE: [["+", 2, change]]}, stream=1)
    assert not conn.ask(COMMIT, stream=1).failed


def test_a_value_without_a_place_is_told_by_the_key_of_its_tuple(server: Server) -> None:
    space = make_space(server, "great", [("id", "unsigned", False), ("u", "unsigned", True)])
    with Connection("127.0.0.1", server.port) as conn:
        conn.replace(space, [1, 5])
        conn.replace(space, [7, 2**63])
    given = options(server, space="great")
    with pytest.raises(ValueUnfit, match=r"Space 'great' at 127.0.0.1:\d+, key \[7\].*column 'u'.*unsignedAs=decimal"):
        read(given)
    assert read({**given, "unsignedAs": "decimal"}) == [[1, 7]]
    assert read({**given, "mode": "PERMISSIVE"}) == [[1, 7]]


def test_what_does_not_exist_is_named(server: Server) -> None:
    with pytest.raises(NotThere, match=r"There is no space 'bokos'.*books"):
        read(options(server, space="bokos"))
    with pytest.raises(NotThere, match=r"Space 'books' has no index 'zz'\. There are: primary"):
        read(options(server, space="books", index="zz"))
    with pytest.raises(NotThere, match="Space 'books' has no column 'titel'"):
        read(options(server, space="books", columns="titel"))
    with pytest.raises(OptionError, match="Is 'numPartitions' meant"):
        read(options(server, space="books", numpartition=2))


# ---- members and sets -----------------------------------------------------------------------------


@kinds("hh", "tt")
def test_another_member_goes_on_when_the_one_that_is_read_is_killed(tmp_path: Path, kinds: str) -> None:
    with Cluster(tmp_path, kinds).start() as pair:
        fill(pair[0].server, make_space(pair[0].server, "books", BOOKS), range(3000))
        pair.settle()
        given = options(
            *[node.server for node in pair], space="books", pageRows=100, pageBytes="4k", retryTimeout="20s"
        )
        reader, (part,) = parts_of(given)
        found: list[int] = []
        for page in _pages(reader, part):
            if not found:
                pair[0].kill()
            found += [each[0] for each in page]
        assert found == list(range(3000))


def test_several_replica_sets_are_read_at_once(module_servers: Servers) -> None:
    sets = [module_servers.subject(f"set{number}").start() for number in range(2)]
    for number, each in enumerate(sets):
        fill(each, make_space(each, "books", BOOKS), range(number, 1000, 2))
    hosts = ";".join(f"127.0.0.1:{each.port}" for each in sets)
    found = read({"hosts": hosts, "space": "books", "numPartitions": "2"})
    assert len(found) == 4
    assert sorted(id for part in found for id in part) == list(range(1000))
    make_space(sets[0], "odd", [("id", "unsigned", False)])
    make_space(sets[1], "odd", [("id", "string", False)])
    with pytest.raises(
        PipelineError, match=f"space 'odd' of 127.0.0.1:{sets[1].port} does not suit.*'id' \\(string\\)"
    ):
        read({"hosts": hosts, "space": "odd"})
    make_space(sets[0], "other", [("id", "unsigned", False)])
    with pytest.raises(NotThere, match="There is no space 'other'"):
        read({"hosts": hosts, "space": "other"})

"""Rows of a master that do not fit: skipped, kept out, replaced, taken over, refused."""

from __future__ import annotations

import base64
import json
import textwrap
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.replication.applierhost import SmallHost
from tests.replication.fakemaster import MASTER, Stage, dml, insert, replace
from tests.replication.test_applier import SPACE, follower, ready
from tests.support.headwater import ROOT

from headwater.errors import BoxError, Er
from headwater.replication.applier import Applier
from headwater.replication.conflict import KEEP, TAKE, TAKE_OVER, Hook, PeerRow, Put, Stop
from headwater.replication.hook import Asking
from headwater.replication.states import ApplierState, Mission
from headwater.wire.constants import Key, Type
from headwater.wire.xrow import Row, decode_row
from headwater.xlog import Reader, rows

S = ApplierState


def delete(key: int, lsn: int, **more: Any) -> Row:
    return dml(Type.DELETE, SPACE, lsn, {int(Key.KEY): [key]}, **more)


def update(key: int, lsn: int, ops: list[object], **more: Any) -> Row:
    return dml(Type.UPDATE, SPACE, lsn, {int(Key.KEY): [key], int(Key.TUPLE): ops}, **more)


def ask(host: SmallHost, hook: Hook) -> list[PeerRow]:
    """Let this function decide. What it is shown."""
    shown: list[PeerRow] = []

    def seeing(row: PeerRow) -> Any:
        shown.append(row)
        return hook(row)

    clock = host.world.clock
    host.conflicts.judge = Asking(host.options, "test:hook", seeing, lambda: host.schema.cluster, clock.time)
    return shown


def follow(applier: Applier) -> None:
    applier.start()
    applier.release(Mission.FOLLOW)


def journal(stage: Stage) -> list[tuple[int, int, int]]:
    """Type, replica id and LSN of each row of data that is written, local rows left out."""
    host, found = stage.host, []
    for name in host.world.disk.listdir("/data"):
        if name.endswith(".xlog"):
            reader = Reader(host.world.disk.open(f"/data/{name}"), force=True)
            found += [row for block in reader for row in rows(block) if row.replica_id]
    return [(row.type, row.replica_id, row.lsn) for row in found]


def quarantine(stage: Stage) -> list[dict[str, Any]]:
    disk = stage.host.world.disk
    found: list[dict[str, Any]] = []
    for name in disk.listdir("/data"):
        if name.startswith("quarantine."):
            file = disk.open(f"/data/{name}")
            found += [json.loads(line) for line in file.read_at(0, file.size()).decode().splitlines()]
    return found


# ---- stop ---------------------------------------------------------------------------------------------


def test_nothing_is_asked_where_replication_stops_at_a_conflict() -> None:
    """The compiled path has all of it."""
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.script = follower([insert(SPACE, 11, [1]), replace(SPACE, 12, [1]), delete(1, 13)])
        applier, host = ready(stage), stage.host
        host.statements.apply = None  # type: ignore[assignment, method-assign]
        follow(applier)
        await host.wait(lambda: host.vclock == {1: 13})

    stage.run(main)


# ---- skip ---------------------------------------------------------------------------------------------


def test_skipped_rows_are_nops_and_in_the_quarantine() -> None:
    stage = Stage(replication_conflict="skip")
    rows = [
        insert(SPACE, 11, [1, "first"]),
        insert(SPACE, 12, [2, "two"], tsn=12, last=False),
        insert(SPACE, 13, [1, b"\xff\x00"], tsn=12, last=False),
        insert(SPACE, 14, ["no number"], tsn=12, last=False),
        insert(SPACE, 15, [3], tsn=12),
        update(2, 16, [["+", 1, 1]]),
    ]

    async def main(stage: Stage) -> None:
        stage.master.script = follower(rows)
        applier, host = ready(stage), stage.host
        follow(applier)
        await host.wait(lambda: host.vclock == {1: 16})
        assert host.rows("t") == [[1, "first"], [2, "two"], [3]]
        assert [type for type, _, _ in journal(stage)] == [2, 2, 12, 12, 2, 12]
        first, second, third = quarantine(stage)
        assert (first["origin"], first["origin_uuid"], first["lsn"]) == (1, str(MASTER), 13)
        assert (first["space"], first["kind"], first["code"]) == ("t", "INSERT", Er.TUPLE_FOUND)
        assert first["tuple"] == [1, "ff00"]
        assert first["timestamp"] == rows[2].timestamp
        packet = base64.b64decode(first["row"])
        assert decode_row(packet, 5)[0] == rows[2], "byte by byte"
        assert (second["lsn"], second["code"]) == (14, Er.FIELD_TYPE)
        assert (third["lsn"], third["kind"], third["key"]) == (16, "UPDATE", [2])

    stage.run(main)


def test_skipping_does_not_pass_over_definitions() -> None:
    stage = Stage(replication_conflict="skip")

    async def main(stage: Stage) -> None:
        again = [SPACE, 1, "t", "memtx", 0, {}, []]
        stage.master.script = follower([insert(280, 11, again), insert(SPACE, 12, [1])])
        applier, host = ready(stage), stage.host
        follow(applier)
        await host.reach(applier, S.STOPPED)
        assert host.vclock == {1: 10}
        assert quarantine(stage) == []

    stage.run(main)


def test_a_row_is_not_skipped_while_the_quarantine_cannot_be_written() -> None:
    """The applier comes again, and goes on when there is room."""
    stage = Stage(replication_conflict="skip")

    async def main(stage: Stage) -> None:
        stage.master.script = follower(
            [insert(SPACE, 11, [1]), insert(SPACE, 12, [1, "again"]), insert(SPACE, 13, [2])]
        )
        applier, host = ready(stage), stage.host
        full = host.world.disk.create
        is_full = True

        def create(path: str, **more: Any) -> Any:
            if "quarantine" in path and is_full:
                raise OSError(28, "No space left on device")
            return full(path, **more)

        host.world.disk.create = create  # type: ignore[method-assign]
        follow(applier)
        await host.wait(lambda: applier.state is S.DISCONNECTED)
        assert applier.error is not None
        assert "quarantine" in applier.error.message
        await host.wait(lambda: host.vclock == {1: 11})
        assert host.rows("t") == [[1]]
        is_full = False
        await host.wait(lambda: host.vclock == {1: 13})
        assert host.rows("t") == [[1], [2]]
        assert [record["lsn"] for record in quarantine(stage)] == [12]

    stage.run(main)


def test_the_journal_fails_while_a_row_goes_into_the_quarantine() -> None:
    """What came before it is undone meanwhile: nothing may be applied behind the gap."""
    stage = Stage(replication_conflict="skip")

    async def main(stage: Stage) -> None:
        rows = [insert(SPACE, 11, [1]), insert(SPACE, 12, [1, "again"]), insert(SPACE, 13, [2])]
        stage.master.script = follower(rows, rows)
        applier, host = ready(stage), stage.host
        keep = host.conflicts.do_first

        async def fail_meanwhile(first: Any) -> None:
            platter = stage.node_machine.platter
            await keep(first)
            if not host.errors():
                platter.capacity = platter.used()
                host.journal.settle(host.followed)
                await host.wait(lambda: bool(host.errors()))
                platter.capacity = None

        host.conflicts.do_first = fail_meanwhile  # type: ignore[method-assign]
        follow(applier)
        await host.wait(lambda: host.vclock == {1: 13})
        assert host.rows("t") == [[1], [2]]
        assert [type for type, _, _ in journal(stage)] == [2, 12, 2]
        assert {record["lsn"] for record in quarantine(stage)} == {12}

    stage.run(main)


def test_skip_conflict_is_as_in_tarantool_and_skip_goes_before_it() -> None:
    stage = Stage(replication_conflict="skip", replication_skip_conflict=True)

    async def main(stage: Stage) -> None:
        stage.master.script = follower([insert(SPACE, 11, [1]), insert(SPACE, 12, [1, "again"])])
        applier, host = ready(stage), stage.host
        follow(applier)
        await host.wait(lambda: host.vclock == {1: 12})
        assert [record["lsn"] for record in quarantine(stage)] == [12]

    stage.run(main)


# ---- a hook -------------------------------------------------------------------------------------------


def test_a_hook_sees_every_row_before_it_is_applied() -> None:
    stage = Stage()
    definition = [601, 1, "u", "memtx", 0, {}, []]
    stream = [
        insert(SPACE, 11, [1, 1]),
        replace(SPACE, 12, [1, 2]),
        update(1, 13, [["+", 1, 5]]),
        delete(1, 14),
        delete(1, 15),
        insert(280, 16, definition),
    ]

    async def main(stage: Stage) -> None:
        stage.master.script = follower(stream)
        applier, host = ready(stage), stage.host
        shown = ask(host, lambda row: TAKE)
        follow(applier)
        await host.wait(lambda: host.vclock == {1: 16})
        assert [(row.kind, row.key, row.old, row.new) for row in shown] == [
            ("INSERT", (1,), None, [1, 1]),
            ("REPLACE", (1,), [1, 1], [1, 2]),
            ("UPDATE", (1,), [1, 2], [1, 7]),
            ("DELETE", (1,), [1, 7], None),
            ("DELETE", (1,), None, None),
        ], "no definitions"
        first = shown[0]
        assert (first.space_id, first.space, first.origin, first.origin_uuid) == (SPACE, "t", 1, MASTER)
        assert (first.lsn, first.timestamp, first.rivals) == (11, stream[0].timestamp, ())
        assert abs(first.now - host.world.clock.time()) < 60
        assert [type for type, _, _ in journal(stage)] == [2, 3, 4, 5, 5, 2]

    stage.run(main)


def test_a_hook_keeps_takes_and_replaces() -> None:
    stage = Stage()
    answers = {12: KEEP, 13: TAKE, 14: Put([1, "made here"]), 15: KEEP, 16: KEEP}
    stream = [
        insert(SPACE, 11, [1, "a"]),
        replace(SPACE, 12, [1, "kept out"], tsn=12, last=False),
        insert(SPACE, 13, [1, "taken"], tsn=12, last=False),
        delete(1, 14, tsn=12),
        insert(SPACE, 15, [2]),
        delete(9, 16),
    ]

    async def main(stage: Stage) -> None:
        stage.master.script = follower(stream)
        applier, host = ready(stage), stage.host
        shown = ask(host, lambda row: answers.get(row.lsn, TAKE))
        follow(applier)
        await host.wait(lambda: host.vclock == {1: 16})
        assert [row.old for row in shown][1:4] == [[1, "a"], [1, "a"], [1, "taken"]]
        assert host.rows("t") == [[1, "made here"]]
        assert journal(stage) == [(2, 1, 11), (12, 1, 12), (3, 1, 13), (3, 1, 14), (12, 1, 15), (12, 1, 16)]

    stage.run(main)


def wrong_type(row: PeerRow) -> Any:
    return "take"


def wrong_key(row: PeerRow) -> Any:
    return Put([2])


def no_tuple(row: PeerRow) -> Any:
    return Put("text")


def stops(row: PeerRow) -> Any:
    return Stop("ask Anna")


def raises(row: PeerRow) -> Any:
    raise KeyError("colour")


def packs_nothing(row: PeerRow) -> Any:
    return Put([1, object()])


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (wrong_type, "answered 'take', not Take, Keep, Put or Stop"),
        (wrong_key, "which has not the primary key [1]"),
        (no_tuple, "gave 'text' for a tuple"),
        (packs_nothing, "gave a tuple that cannot be packed"),
        (stops, "ask Anna"),
        (raises, "raised KeyError: 'colour' ("),
    ],
)
def test_a_hook_at_fault_stops_the_applier_and_is_named(hook: Hook, words: str) -> None:
    """Nothing is left of the transaction."""
    stage = Stage()
    stream = [
        insert(SPACE, 11, [7]),
        insert(SPACE, 12, [8], tsn=12, last=False),
        insert(SPACE, 13, [1], tsn=12),
    ]

    async def main(stage: Stage) -> None:
        stage.master.script = follower(stream)
        applier, host = ready(stage), stage.host
        ask(host, lambda row: hook(row) if row.key == (1,) else TAKE)
        follow(applier)
        await host.reach(applier, S.STOPPED)
        assert applier.error is not None
        assert applier.error.code == Er.PROC_LUA
        assert words in applier.error.message
        assert "conflict hook 'test:hook', row {1: 13} of space 't'" in applier.error.message
        await host.wait(lambda: host.vclock == {1: 11})
        assert host.rows("t") == [[7]]

    stage.run(main)


def test_what_a_hook_takes_and_does_not_fit_stops_or_is_skipped_as_the_other_option_says() -> None:
    for skips in (False, True):
        stage = Stage(replication_skip_conflict=skips)

        async def main(stage: Stage, skips: bool = skips) -> None:
            stage.master.script = follower([insert(SPACE, 11, [1, 5]), insert(SPACE, 12, [2, 5])])
            applier, host = ready(stage, secondary=True), stage.host
            ask(host, lambda row: TAKE)
            follow(applier)
            if skips:
                await host.wait(lambda: host.vclock == {1: 12})
            else:
                await host.reach(applier, S.STOPPED)
                assert applier.error is not None
                assert applier.error.code == Er.TUPLE_FOUND
            assert host.rows("t") == [[1, 5]]

        stage.run(main)


def test_gh_12727_a_conflict_of_a_secondary_index_is_seen_and_resolved() -> None:
    """A before_replace trigger is shown what is under the primary key and cannot help here. A hook is shown what stands
    in the way, and may let it give way: by a row of our own, so that the master deletes it, too."""
    stage = Stage()
    stream = [
        insert(SPACE, 11, [1, 5]),
        insert(SPACE, 12, [3, 3], tsn=12, last=False),
        insert(SPACE, 13, [2, 5], tsn=12),
    ]

    async def main(stage: Stage) -> None:
        stage.master.script = follower(stream)
        applier, host = ready(stage, secondary=True), stage.host
        shown = ask(host, lambda row: TAKE_OVER)
        follow(applier)
        await host.wait(lambda: host.vclock == {1: 13, 3: 1})
        seen = [row.rivals for row in shown if row.lsn == 13]
        assert seen == [(("sk", [1, 5]),), ()], "asked again when nothing is in the way any more"
        assert host.rows("t") == [[2, 5], [3, 3]]
        assert journal(stage) == [(2, 1, 11), (5, 3, 1), (2, 1, 12), (2, 1, 13)]

    stage.run(main)


def test_a_hook_that_changes_the_field_in_question() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.script = follower([insert(SPACE, 11, [1, 5]), insert(SPACE, 12, [2, 5])])
        applier, host = ready(stage, secondary=True), stage.host

        def hook(row: PeerRow) -> Any:
            assert row.new is not None
            return Put([row.new[0], 1000]) if row.rivals else TAKE

        ask(host, hook)
        follow(applier)
        await host.wait(lambda: host.vclock == {1: 12})
        assert host.rows("t") == [[1, 5], [2, 1000]]

    stage.run(main)


def test_a_tuple_of_the_same_transaction_does_not_give_way_for_ever() -> None:
    stage = Stage()
    stream = [insert(SPACE, 11, [1, 5], tsn=11, last=False), insert(SPACE, 12, [2, 5], tsn=11)]

    async def main(stage: Stage) -> None:
        stage.master.script = follower(stream)
        applier, host = ready(stage, secondary=True), stage.host
        ask(host, lambda row: TAKE_OVER)
        follow(applier)
        await host.reach(applier, S.STOPPED)
        assert host.rows("t") == []
        assert host.vclock.get(1) == 10

    stage.run(main)


def test_a_failed_write_takes_back_what_a_hook_decided() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        rows = [insert(SPACE, 11, [1, 5]), insert(SPACE, 12, [2, 5])]
        stage.master.script = follower(rows)
        applier, host = ready(stage, secondary=True), stage.host
        shown = ask(host, lambda row: TAKE_OVER)
        platter = stage.node_machine.platter
        platter.capacity = platter.used()
        follow(applier)
        await host.wait(lambda: bool(host.errors()))
        assert host.rows("t") == []
        platter.capacity = None
        await host.wait(lambda: host.vclock == {1: 12, 3: 1})
        assert host.rows("t") == [[2, 5]]
        assert len(shown) > 3, "asked once more"

    stage.run(main)


# ---- where hooks come from ----------------------------------------------------------------------------


MODULE = """
from headwater.box.procedures import Keep, PeerRow, Take

def mine(row: PeerRow):
    return Keep() if row.old else Take()

async def waits(row):
    return Take()
"""


def test_a_function_of_a_file_is_a_policy(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(MODULE)
    stage = Stage(replication_conflict=f"{tmp_path}/rules.py:mine")

    async def main(stage: Stage) -> None:
        stage.master.script = follower([insert(SPACE, 11, [1, "first"]), replace(SPACE, 12, [1, "second"])])
        applier, host = ready(stage), stage.host
        follow(applier)
        await host.wait(lambda: host.vclock == {1: 12})
        assert host.rows("t") == [[1, "first"]]

    stage.run(main)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rules.py:other", "has no function other"),
        ("rules.py:waits", "asynchronous: a conflict hook cannot wait"),
        ("none.py:mine", "FileNotFoundError"),
    ],
)
def test_a_function_that_cannot_be_had_is_refused(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "rules.py").write_text(MODULE)
    with pytest.raises(BoxError, match="Incorrect value for option 'replication_conflict'") as caught:
        Stage(replication_conflict=f"{tmp_path}/{name}")
    assert words in caught.value.message


def test_the_origin_need_not_be_known() -> None:
    stage = Stage()

    async def main(stage: Stage) -> None:
        stage.master.script = follower([insert(SPACE, 1, [1], id=9)])
        applier, host = ready(stage), stage.host
        shown = ask(host, lambda row: TAKE)
        follow(applier)
        await host.wait(lambda: host.vclock.get(9) == 1)
        uuid: UUID | None = shown[0].origin_uuid
        assert (shown[0].origin, uuid) == (9, None)

    stage.run(main)


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "replication.md").read_text()
    begin = text.index("    from headwater.box.procedures import")
    example = textwrap.dedent(text[begin : text.index("\n\n", text.index("def mine", begin))])
    (tmp_path / "rules.py").write_text(example.replace('"stock"', '"t"'))
    stage = Stage(replication_conflict=f"{tmp_path}/rules.py:mine")

    async def main(stage: Stage) -> None:
        rows = [
            insert(SPACE, 11, [1, 5]),
            insert(SPACE, 12, [1, 3]),
            insert(SPACE, 13, [1, 9]),
            insert(SPACE, 14, [2, 7]),
        ]
        stage.master.script = follower(rows)
        applier, host = ready(stage), stage.host
        follow(applier)
        await host.wait(lambda: host.vclock == {1: 14})
        assert host.rows("t") == [[1, 3], [2, 7]]

    stage.run(main)

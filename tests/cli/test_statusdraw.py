"""How a set is drawn, as text and as JSON."""

from __future__ import annotations

import io
import json

from rich.console import Console
from tests.cli.test_statusjudge import follows, node, uuid

from headwater.cli.statusdraw import as_json, draw
from headwater.cli.statusnode import Consumer, Downstream, Election, Member, Picture, Silent


def drawn(picture: Picture, *reasons: str) -> list[list[str]]:
    """Lines, each as its columns."""
    out = io.StringIO()
    Console(file=out, width=250, highlight=False).print(draw(picture, reasons))
    return [[cell.strip() for cell in line.split("  ") if cell] for line in out.getvalue().splitlines()]


def fed(id_: int, **relay: object) -> Member:
    return Member(uuid(id_), id_, downstream=Downstream("follow", **relay))  # type: ignore[arg-type]


def test_who_follows_whom_with_lag_in_time_rows_and_bytes() -> None:
    leader = node(1, fed(2, lag=0.25, row_bytes=100.5), vclock={1: 1030}, lsn=1030)
    follower = node(2, follows(1, lag=0.0625, idle=1.5), vclock={1: 1000, 0: 7})
    lines = drawn(Picture((leader, follower)))
    assert lines[1] == ["1", "00000001", "127.0.0.1:3301", "Headwater", "running", "yes", "1030", "{1: 1030}"]
    assert lines[2][-1] == "{0: 7, 1: 1000 (-30)}"
    behind = "30 rows, about 3,015 bytes (30 of replica 1)"
    assert lines[4] == ["2 00000002", "1 00000001", "follow", "62 ms", "1500 ms", behind, "follow", "250 ms"]
    assert lines[-1] == ["healthy"]


def test_rows_of_a_replica_of_which_a_node_has_nothing() -> None:
    lines = drawn(Picture((node(1, vclock={1: 5, 2: 3}), node(2, vclock={2: 3}))))
    assert lines[2][-1] == "{1: 0 (-5), 2: 3}"


def test_rows_of_another_set_are_no_difference() -> None:
    stranger = node(2, vclock={1: 2}, replicaset_uuid="bbbbbbbb-0000-0000-0000-000000000000")
    assert drawn(Picture((node(1), stranger)))[2][-1] == "{1: 2}"


def test_why_a_node_takes_no_writes() -> None:
    stopped = follows(1, "stopped", message="Duplicate key")
    elected = Election("follower", 7, 1)
    nodes = (node(1, ro=True, ro_reason="election", election=elected), node(2, stopped, status="orphan", ro=True))
    text = "\n".join("  ".join(line) for line in drawn(Picture(nodes), "one", "two"))
    assert "no: election" in text
    assert "follower, term 7" in text
    assert "no: orphan" in text
    assert "127.0.0.1:3302 is an orphan, and takes no writes: 127.0.0.1:3301 is stopped." in text
    assert "Duplicate key" in text
    assert text.endswith("not healthy:\n- one\n- two")


def test_who_keeps_journal_files_who_is_silent_and_who_was_not_asked() -> None:
    consumer = Consumer(f"replica {uuid(2)}", {1: 4}, 4)
    lost = Member(uuid(3), 3, "cellar")
    keeper = node(1, lost, consumers=(consumer,), queue_length=2)
    picture = Picture((keeper,), (Silent("h:9", "Connection refused"),), (Silent("h:8", "", "h:7"),))
    text = "\n".join("  ".join(line) for line in drawn(picture, "one"))
    assert "unreachable: Connection refused" in text
    assert f"keeps its journal from {{1: 4}} on for replica {uuid(2)}, which is not connected: 6 rows." in text
    assert "127.0.0.1:3301: 2 synchronous transactions wait for their quorum." in text
    assert "Replica 3 (cellar) is registered, and nobody here knows where it is." in text
    assert "h:8, which h:7 follows, was not asked." in text
    assert text.endswith("not healthy: one")


def test_texts_of_a_peer_are_not_taken_for_markup() -> None:
    assert "[bold]x" in drawn(Picture((node(1, name="[bold]x"),)))[1]


def test_json_has_what_the_tables_have() -> None:
    leader = node(1, fed(2, row_bytes=10.0), vclock={1: 1030}, consumers=(Consumer("replica", {1: 4}, 4),))
    shown = json.loads(json.dumps(as_json(Picture((leader, node(2, follows(1)))), ["late"])))
    assert (shown["healthy"], shown["reasons"]) == (False, ["late"])
    assert shown["nodes"][0]["vclock"] == {"1": 1030}
    assert shown["nodes"][0]["gc_consumers"] == [{"name": "replica", "vclock": {"1": 4}, "signature": 4}]
    [link] = shown["links"]
    assert (link["behind"], link["rows_behind"], link["bytes_behind"]) == ({"1": 1020}, 1020, 10200)
    assert link["upstream"]["status"] == link["downstream"]["status"] == "follow"
    assert (shown["unreachable"], shown["not_asked"]) == ([], [])

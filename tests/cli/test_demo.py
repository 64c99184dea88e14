"""`headwater demo`, which is `make run`: a replica set of child processes, and what becomes of them."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.headwater import ROOT, HeadwaterServer
from tests.support.iproto import Connection, ServerError
from tests.support.process import Output, free_port
from tests.support.waiting import wait_until

from headwater.cli.demodata import FORMAT, ROWS, SPACE, fill
from headwater.cli.demoset import DemoError, DemoSet, is_ready
from headwater.cli.statusnode import Member, Node, Upstream
from headwater.uri import Uri

TIME = 90.0


def free_ports(count: int) -> int:
    """The first of so many in a row."""
    while True:
        first = free_port()
        sockets = [socket.socket() for _ in range(count)]
        try:
            for number, each in enumerate(sockets):
                each.bind(("127.0.0.1", first + number))
            return first
        except (OSError, OverflowError):
            continue
        finally:
            for each in sockets:
                each.close()


class Demo:
    """The command as a process."""

    def __init__(self, directory: Path, *args: str) -> None:
        self.port = free_ports(3)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headwater.cli", "demo", "--port", str(self.port), "--work-dir", "run", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"},
        )
        assert self.process.stdout is not None
        self.output = Output(os.dup(self.process.stdout.fileno()))

    def until(self, pattern: str, start: int = 0) -> str:
        line = self.output.wait_for(pattern, TIME, start)
        assert line is not None, f"never said {pattern!r}:\n{self.output.tail(100)}"
        return line

    def pids(self) -> list[int]:
        """Of the nodes, as the demo tells them."""
        return [int(found) for found in re.findall(r"node\d .* process (\d+) ", "\n".join(self.output.lines))]

    def connect(self, number: int) -> Connection:
        return Connection("127.0.0.1", self.port + number)

    def end(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(TIME)


@pytest.fixture
def demos(tmp_path: Path) -> Iterator[Any]:
    made: list[Demo] = []

    def start(*args: str) -> Demo:
        made.append(Demo(tmp_path, *args))
        return made[-1]

    yield start
    for demo in made:
        if demo.process.poll() is None:
            demo.end(signal.SIGTERM)
        assert demo.process.stdout is not None
        demo.process.stdout.close()


def has(demo: Demo, number: int, key: int) -> bool:
    """Does this node have this river? False while it is away."""
    try:
        with demo.connect(number) as connection:
            return bool(connection.call(f"box.space.{SPACE}:get", key))
    except (OSError, ServerError):
        return False


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_three_nodes_of_which_one_is_killed_and_all_go_on_the_next_time(demos: Any) -> None:
    demo = demos("--away", "0")
    demo.until("Three nodes are ready")
    demo.until("asyncio.run")
    pids = demo.pids()
    assert len(pids) == 3
    with demo.connect(0) as connection:
        connection.call(f"box.space.{SPACE}:insert", [100, "Headwater", 1, None])
    wait_until(lambda: has(demo, 2, 100), TIME, "the third node has what the first one was told")
    os.kill(pids[2], signal.SIGKILL)
    demo.until("node3 .* has ended; it is started again")
    with demo.connect(1) as connection:
        connection.call(f"box.space.{SPACE}:insert", [101, "Backwater", 1, None])
    revived = int(demo.until("node3 .* is started again, process").rpartition(" ")[2])
    wait_until(lambda: has(demo, 2, 101), TIME, "the third node has caught up")
    assert demo.end() == 0
    assert not any(map(is_running, [*pids, revived]))

    again = demos("--traffic")
    again.until("9 tuples")
    assert [has(again, number, 101) for number in range(3)] == [True] * 3

    def levels() -> bool:
        with again.connect(1) as connection, suppress(ServerError):  # the space is on its way
            return len({row[0] for row in connection.call("box.space.gauges:select")[0]}) == 3
        return False

    wait_until(levels, TIME, "each of the three writes, and the second one has it")
    assert again.end(signal.SIGTERM) == 0


def test_the_directory_of_a_single_node_becomes_the_first_one_of_three(demos: Any, tmp_path: Path) -> None:
    with HeadwaterServer(tmp_path / "run").start() as node:
        fill(Uri("127.0.0.1", str(node.port)))
        with Connection(*node.address) as connection:
            connection.call(f"box.space.{SPACE}:insert", [100, "Headwater", 1, None])
        node.stop()
    demo = demos()
    demo.until("The data of the node in run is now in run/node1; the other nodes join it.")
    demo.until("8 tuples")
    assert has(demo, 2, 100)
    assert demo.end() == 0
    assert not list((tmp_path / "run").glob("*.snap"))


def test_a_second_demo_in_the_same_place_says_how_to_have_one_elsewhere(demos: Any) -> None:
    demo = demos("--nodes", "1")
    demo.until("One node is ready")
    other = demos("--nodes", "1")
    assert other.process.wait(TIME) == 1
    other.until("node1 at .* could not start: .*")
    other.until("--work-dir var/run2")
    assert demo.end() == 0


def test_a_demo_that_is_killed_leaves_no_nodes_behind(demos: Any) -> None:
    demo = demos("--nodes", "1")
    demo.until("One node is ready")
    [pid] = demo.pids()
    demo.end(signal.SIGKILL)
    wait_until(lambda: not is_running(pid), TIME, "the node has ended, too")


# ---- without processes


def make_set(directory: Path, **more: Any) -> DemoSet:
    return DemoSet(directory, more.get("host", "127.0.0.1"), more.get("port", 3301), 3, say=lambda text: None)


def test_a_single_node_that_is_still_running_is_left_alone(tmp_path: Path) -> None:
    with HeadwaterServer(tmp_path).start(), pytest.raises(DemoError, match=r"a node is running in .*: end it first"):
        make_set(tmp_path).start()
    assert list(tmp_path.glob("*.snap"))


def test_data_in_both_places_is_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "node1").mkdir()
    for place in (tmp_path, tmp_path / "node1"):
        (place / "00000000000000000000.snap").touch()
    with pytest.raises(DemoError, match="move one of them away"):
        make_set(tmp_path).start()


@pytest.mark.parametrize(
    ("more", "words"), [({"host": "0.0.0.0"}, "no loopback|not a loopback"), ({"port": 65534}, "no 3 ports")]
)
def test_places_that_are_refused(tmp_path: Path, more: dict[str, Any], words: str) -> None:
    with pytest.raises(DemoError, match=words):
        make_set(tmp_path, **more)


def feeding(*states: str) -> Node:
    members = tuple(Member(str(number), number, upstream=Upstream(state)) for number, state in enumerate(states, 1))
    return Node("h:1", "1", "", {}, members=members)


def test_who_is_ready() -> None:
    assert is_ready(feeding("follow", "sync"), 2)
    assert not is_ready(feeding("follow", "connect"), 2)
    assert not is_ready(feeding("follow"), 2)
    assert not is_ready(None, 0)
    assert not is_ready(Node("h:1", "1", "", {}, status="orphan", ro=True), 0)
    assert not is_ready(Node("h:1", "1", "", {}, ro=True), 0)


def test_a_sample_space_that_was_left_half_made_is_finished(tmp_path: Path) -> None:
    with HeadwaterServer(tmp_path).start() as node, closing(Connection(*node.address)) as connection:
        connection.call("box.schema.space.create", SPACE, {"format": FORMAT})
        connection.call(f"box.space.{SPACE}:create_index", "id", {"parts": ["id"]})
        connection.call(f"box.space.{SPACE}:insert", ROWS[0])
        assert fill(Uri("127.0.0.1", str(node.port))) == len(ROWS)
        connection.call(f"box.space.{SPACE}:delete", 1)
        assert fill(Uri("127.0.0.1", str(node.port))) == len(ROWS) - 1, "what is whole is left as it is"

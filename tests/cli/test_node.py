"""`headwater node` as its users meet it: a process that is started, asked, and ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import tarantool
from tests.support.process import free_port

from headwater.cli.connect import _connected
from headwater.cli.shell.language import Call, Meta
from headwater.cli.shell.runner import RefusedError, Rows, Runner
from headwater.options import SETTINGS
from headwater.uri import parse_uri

ROOT = Path(__file__).resolve().parents[2]
TIME = 30.0


class Node:
    """A process of `headwater`, with its log on its error stream."""

    def __init__(self, directory: Path, *args: str, env: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.log: list[str] = []
        where = {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headwater.cli", "node", *args],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            cwd=directory,
            env={**os.environ, **where, **(env or {})},
        )

    def until(self, words: str) -> str:
        """The line of the log that has these words."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            if words in line:
                return line
        raise AssertionError(f"ended with {self.process.wait(TIME)} and never said '{words}':\n{''.join(self.log)}")

    def address(self) -> str:
        return self.until("bound to").split("bound to ")[1].strip()

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        _, rest = self.process.communicate(timeout=TIME)
        self.log.append(rest)
        return self.process.returncode

    def code(self) -> int:
        """Of a process that ends by itself."""
        _, rest = self.process.communicate(timeout=TIME)
        self.log.append(rest)
        return self.process.returncode

    @property
    def said(self) -> str:
        return "".join(self.log)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Any]:
    made: list[Node] = []

    def start(*args: str, directory: Path = tmp_path, **more: Any) -> Node:
        made.append(Node(directory, *args, **more))
        return made[-1]

    yield start
    for node in made:
        if node.process.poll() is None:
            node.process.kill()
        node.process.communicate(timeout=TIME)


def client(address: str, **more: Any) -> tarantool.Connection:
    host, _, port = address.rpartition(":")
    return tarantool.Connection(host, int(port), **more)


def connect(address: str, text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headwater.cli", "connect", address, *flags],
        input=text,
        capture_output=True,
        text=True,
        timeout=TIME,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_starts_serves_and_ends(nodes: Any, number: int) -> None:
    node = nodes("--listen", "127.0.0.1:0", "--work-dir", "new/data")
    address = node.address()
    node.until("ready to accept requests")
    assert client(address).ping(notime=True)
    assert node.end(number) == 0
    assert "shutting down" in node.said
    assert (node.directory / "new" / "data" / ("0" * 20 + ".snap")).is_file()


def test_data_is_there_again(nodes: Any) -> None:
    args = ("--listen", "127.0.0.1:0", "--dev")
    node = nodes(*args)
    address = node.address()
    node.until("ready to accept requests")
    done = connect(address, "box.schema.space.create t\nt.create_index pk\nt.insert 1 a\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert node.end() == 0
    again = nodes(*args)
    address = again.address()
    again.until("ready to accept requests")
    done = connect(address, "t.select\nt.count\nbox.space._priv:count [0]\n")
    assert (done.stdout, done.stderr, done.returncode) == ('[1, "a"]\n1\n3\n', "", 0)
    assert again.end() == 0


def test_a_snapshot_by_signal(nodes: Any) -> None:
    node = nodes("--listen", "127.0.0.1:0", "--dev")
    address = node.address()
    node.until("ready to accept requests")
    connect(address, "box.schema.space.create t\n")
    node.process.send_signal(signal.SIGUSR1)
    node.until("snapshot done")
    assert node.end() == 0
    assert len(list(node.directory.glob("*.snap"))) == 2


def test_without_dev_the_guest_may_do_nothing(nodes: Any) -> None:
    node = nodes("--listen", "127.0.0.1:0")
    address = node.address()
    node.until("ready to accept requests")
    done = connect(address, "box.info\n_space.get 280\n")
    assert done.returncode == 1
    assert "Execute access to function 'box.info' is denied for user 'guest'" in done.stderr


def test_what_dev_granted_is_told_when_others_may_come(nodes: Any) -> None:
    node = nodes("--listen", "127.0.0.1:0", "--dev")
    node.until("ready to accept requests")
    assert node.end() == 0
    at_home = nodes("--listen", "127.0.0.1:0")
    at_home.until("ready to accept requests")
    assert at_home.end() == 0
    assert "W> guest has the role super" not in at_home.said
    nodes("--listen", "0.0.0.0:0").until("W> guest has the role super: whoever reaches 0.0.0.0:0 may do everything")


def test_flags_go_before_the_environment_and_that_before_the_file(nodes: Any, tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(
        "iproto: {listen: [{uri: '127.0.0.1:0'}]}\n"
        "wal: {mode: fsync}\n"
        "snapshot: {count: 7, by: {interval: 77}}\n"
        "headwater: {dev: true}\n"
    )
    env = {"HEADWATER_WAL_MODE": "none", "HEADWATER_CHECKPOINT_COUNT": "8", "HEADWATER_CONFIG": "node.yaml"}
    node = nodes("--wal-mode", "write", env=env)
    address = node.address()
    node.until("ready to accept requests")
    cfg = json.loads(connect(address, "box.cfg\n").stdout)
    assert (cfg["wal_mode"], cfg["checkpoint_count"], cfg["checkpoint_interval"]) == ("write", 8, 77)
    assert cfg["readahead"] == SETTINGS["readahead"].default


def test_users_of_the_file(nodes: Any, tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(
        "credentials:\n"
        "  users:\n"
        "    alice: {password: secret, roles: [super]}\n"
        "    bob:\n"
        "      password: pw\n"
        "      privileges: [{permissions: [execute], lua_call: [box.info]}]\n"
    )
    node = nodes("--config", "node.yaml", "--listen", "127.0.0.1:0")
    address = node.address()
    node.until("ready to accept requests")
    assert client(address, user="alice", password="secret").call("box.session.user").data == ["alice"]
    bob = client(address, user="bob", password="pw")
    assert bob.call("box.info").data[0]["status"] == "running"
    with pytest.raises(tarantool.error.DatabaseError, match="denied"):
        bob.call("box.stat")


def test_procedures_are_found_where_the_node_was_started(nodes: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from headwater.box.procedures import procedure\n\n@procedure\ndef twice(ctx, n):\n    return 2 * n\n"
    )
    for name, work_dir in (("mine.py", "a"), ("mine", "b")):
        node = nodes("--procedures", name, "--listen", "127.0.0.1:0", "--work-dir", work_dir, "--dev")
        address = node.address()
        node.until("ready to accept requests")
        assert connect(address, "twice(21)\n").stdout == "42\n"
        assert node.end() == 0


def test_box_cfg_moves_the_listener_and_the_log_level(nodes: Any) -> None:
    node = nodes("--listen", "127.0.0.1:0", "--dev", "--log", "node.log")
    log = node.directory / "node.log"
    while not (log.exists() and "ready to accept" in log.read_text()):
        assert node.process.poll() is None
    address = log.read_text().split("bound to ")[1].split()[0]
    connection = client(address)
    connection.call("box.cfg", [{"log_level": 7, "checkpoint_count": 5}])
    assert connection.call("box.cfg").data[0]["log_level"] == 7
    with pytest.raises(tarantool.error.DatabaseError, match="Can't set option 'wal_mode' dynamically"):
        connection.call("box.cfg", [{"wal_mode": "none"}])
    with pytest.raises(tarantool.error.DatabaseError, match="Incorrect value for option 'listen'"):
        connection.call("box.cfg", [{"listen": "nowhere"}])


# ---- what does not start ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--wal-mode", "fast"], 2, "headwater: Incorrect value for option 'wal_mode': fast\n"),
        (["--checkpoint-count", "few"], 2, "headwater: flag --checkpoint-count: should be convertible to a number\n"),
        (["--no-such-flag"], 2, "--no-such-flag"),
        (["--dev", "--listen", "0.0.0.0:3301"], 2, "only loopback may be listened on"),
        (["--config", "none.yaml"], 2, "headwater: none.yaml: No such file or directory\n"),
        (["--procedures", "no_such_module"], 1, "module no_such_module cannot be loaded"),
        (["--work-dir", "file/below"], 1, "file/below: Not a directory"),
        (["--work-dir", "file"], 1, "file: Not a directory"),
        (["--listen", "unix/:/no/such/directory/a.sock"], 1, "a.sock: No such file or directory"),
    ],
)
def test_what_keeps_a_node_from_starting_is_said_in_plain_words(
    nodes: Any, tmp_path: Path, args: list[str], code: int, words: str
) -> None:
    (tmp_path / "file").write_text("not a directory")
    node = nodes(*args)
    assert node.code() == code
    assert words in node.said
    assert "Traceback" not in node.said


def test_a_taken_port_and_a_taken_directory(nodes: Any, tmp_path: Path) -> None:
    first = nodes("--listen", "127.0.0.1:0", "--work-dir", "a")
    address = first.address()
    first.until("ready to accept requests")
    second = nodes("--listen", address, "--work-dir", "b")
    assert second.code() == 1
    assert f"cannot listen at {address}: Address already in use\n" in second.said
    third = nodes("--listen", "127.0.0.1:0", "--work-dir", "a")
    assert third.code() == 1
    assert "in use by another process" in third.said
    assert first.end() == 0


def test_an_unknown_variable_is_named(nodes: Any) -> None:
    node = nodes(env={"HEADWATER_WAL_MOD": "write"})
    assert node.code() == 2
    assert "environment variable HEADWATER_WAL_MOD: there is no option 'wal_mod'" in node.said


def test_a_node_that_listens_nowhere_says_so(nodes: Any) -> None:
    node = nodes()
    node.until("W> nobody can connect: the option listen is not set")
    assert node.end() == 0


def test_the_file_of_the_process_id(nodes: Any) -> None:
    node = nodes("--pid-file", "run/node.pid")
    node.until("ready to accept requests")
    file = node.directory / "run" / "node.pid"
    assert int(file.read_text()) == node.process.pid
    assert node.end() == 0
    assert not file.exists()


def test_a_node_imports_nothing_of_web_pipeline_or_tables() -> None:
    code = (
        "import sys, headwater.cli.arguments, headwater.cli.serve, headwater.server.node, headwater.env\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    loaded = set(subprocess.check_output([sys.executable, "-c", code], text=True, env=env).split())
    heavy = {
        "typer",
        "rich",
        "pydantic",
        "prompt_toolkit",
        "asynctnt",
        "yaml",
        "icu",
        "starlette",
        "uvicorn",
        "pyspark",
    }
    assert loaded & (heavy | {"pyarrow", "deltalake", "prometheus_client", "numpy", "pandas"}) == set()


# ---- the prompt -------------------------------------------------------------------------------------------


def test_commands_come_from_the_standard_input_or_the_command_line(nodes: Any) -> None:
    node = nodes("--listen", "127.0.0.1:0", "--dev")
    address = node.address()
    node.until("ready to accept requests")
    done = connect(
        address,
        "box.schema.space.create t {format: [[id, unsigned], [name, string], {name: n, type: integer}]}\n"
        "t.create_index pk\n"
        "t.create_index by_name {parts: [name], unique: false}\n"
        "\n"
        "t.insert id=1 name=a n=1\n"
        "t.insert 2 b 2\n"
        "t.by_name.select b\n"
        "t.update 1 n+=5\n"
        "t.insert 1 dup 0\n"
        "nope\n"
        "t.select [\n"
        "\\d t\n"
        "t.delete 1\n"
        "\\q\n"
        "t.delete 2\n",
    )
    assert done.returncode == 1
    assert done.stdout.split("\n")[4:] == [
        '[1, "a", 1]',
        '[2, "b", 2]',
        '[2, "b", 2]',
        '[1, "a", 6]',
        '["field", "id", "unsigned", ""]',
        '["field", "name", "string", ""]',
        '["field", "n", "integer", ""]',
        '["index", "pk", "tree", "unique"]',
        '["index", "by_name", "tree", ""]',
        '[1, "a", 6]',
        "",
    ]
    errors = done.stderr.strip().split("\n")
    assert [line.split(":")[0] for line in errors] == ["line 9", "line 10", "line 11"]
    assert "Duplicate key" in errors[0]
    command = [sys.executable, "-m", "headwater.cli", "connect", address, "-e", "t.count", "-e", "t.len"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    assert subprocess.check_output(command, text=True, timeout=TIME, env=env) == "1\n1\n"


def test_a_node_that_is_not_there() -> None:
    done = connect("127.0.0.1:1", "box.info\n")
    assert done.returncode == 1
    assert done.stderr == "headwater: cannot connect to 127.0.0.1:1: Connection refused\n"
    assert connect("nowhere", "").returncode == 2


def test_a_node_that_is_just_being_started_is_waited_for(nodes: Any) -> None:
    address = f"127.0.0.1:{free_port()}"
    nodes("--listen", address, "--dev")
    done = connect(address, "box.ctl.wait_rw\nbox.info\n", "--wait", "30")
    assert (done.returncode, done.stderr) == (0, "")
    assert '"status": "running"' in done.stdout


def test_a_prompt_finds_a_node_again_that_was_started_again(nodes: Any) -> None:
    first = nodes("--listen", "127.0.0.1:0", "--dev")
    address = first.address()
    first.until("ready to accept requests")

    async def typed() -> None:
        connection = await _connected(parse_uri(address), "", TIME)
        runner = Runner(connection)
        await runner.run(Call("box.schema.space.create", ["t"]))
        first.end()
        while connection.is_connected:
            await asyncio.sleep(0)
        for line in (Meta("spaces"), Meta("d", "t"), Call("box.info", [])):
            with pytest.raises(RefusedError, match=r"^the connection failed: Connection refused$"):
                await runner.run(line)
        nodes("--listen", address, "--dev").until("ready to accept requests")
        assert await runner.run(Meta("spaces")) == Rows(["id", "name", "engine"], [[512, "t", "memtx"]])
        await connection.disconnect()

    asyncio.run(asyncio.wait_for(typed(), TIME))


def test_users_are_made_when_the_node_is_first_writable(nodes: Any, tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text("credentials: {users: {alice: {password: secret}}}\n")
    node = nodes("--config", "node.yaml", "--listen", "127.0.0.1:0", "--read-only", "--dev")
    address = node.address()
    node.until("ready to accept requests")
    done = connect(
        address,
        "box.info\nbox.schema.user.exists alice\n_priv.get [0, role, 31]\nbox.cfg {read_only: false}\n"
        "box.schema.user.exists alice\n_priv.get [0, role, 31]\n",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n")[1:] == ["false", "true", '[1, 0, "role", 31, 4]', ""]

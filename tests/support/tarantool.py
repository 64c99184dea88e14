"""A real Tarantool (Debian's 2.6.0) as a child process, and Lua scripts run by one.

`HEADWATER_TEST_TARANTOOL=/path/to/tarantool` takes another one; the tests of replication ask for its version.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.process import Server

EXECUTABLE = os.environ.get("HEADWATER_TEST_TARANTOOL") or shutil.which("tarantool")


@functools.cache
def version() -> tuple[int, int, int]:
    """Of the installed one; (0, 0, 0) if there is none."""
    if EXECUTABLE is None:
        return 0, 0, 0
    text = subprocess.run([EXECUTABLE, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", text)
    assert found is not None, text
    major, minor, patch = map(int, found.groups())
    return major, minor, patch


GUEST_IS_SUPER = "box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})\n"


def lua(value: object) -> str:
    """A Python value as a Lua literal."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, bytes):
        return '"' + "".join(f"\\{byte:03d}" for byte in value) + '"'
    if isinstance(value, str):
        return lua(value.encode())
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"[{lua(key)}] = {lua(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "{" + ", ".join(lua(item) for item in value) + "}"
    raise TypeError(f"no Lua literal for {type(value).__name__}")


class TarantoolServer(Server):
    """Runs `box.cfg` with `options`, then `setup` (Lua), and is ready after that.

    `setup` runs at every start: it should use if_not_exists, or not be given for a second start.
    """

    name = "tarantool 2.6.0"
    ready_pattern = r"harness: ready$"

    def __init__(
        self,
        work_dir: Path,
        *,
        options: Mapping[str, object] | None = None,
        setup: str = GUEST_IS_SUPER,
        port: int | None = None,
    ) -> None:
        super().__init__(work_dir, port)
        self.options = dict(options or {})
        self.setup = setup

    def command(self) -> list[str]:
        assert EXECUTABLE is not None, "tarantool is not installed"
        return [EXECUTABLE, str(self.work_dir / "init.lua")]

    def prepare(self) -> None:
        options: dict[str, object] = {
            "work_dir": str(self.work_dir),
            "listen": f"127.0.0.1:{self.port}",
            "log_level": 5,
            "memtx_memory": 512 << 20,
            "checkpoint_interval": 0,
            **self.options,
        }
        text = f"box.cfg({lua(options)})\n{self.setup}\nrequire('log').info('harness: ready')\n"
        (self.work_dir / "init.lua").write_text(text)


def run_lua(script: str, *, cwd: Path, argument: object = None, timeout: float = 60.0) -> Any:
    """Run `script` in a tarantool of its own; it finds `argument` in the global of that name and calls
    `answer(value)` with what comes back as JSON."""
    assert EXECUTABLE is not None, "tarantool is not installed"
    cwd.mkdir(parents=True, exist_ok=True)
    prelude = (
        "local json = require('json')\n"
        "json.cfg{encode_use_tostring = true, encode_invalid_numbers = true, encode_max_depth = 128}\n"
        f"argument = json.decode({lua(json.dumps(argument))})\n"
        "function answer(value) io.stdout:write('\\nANSWER ' .. json.encode(value) .. '\\n') end\n"
    )
    path = cwd / "script.lua"
    path.write_text(prelude + script + "\nos.exit(0)\n")
    done = subprocess.run(
        [EXECUTABLE, str(path)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    for line in done.stdout.splitlines():
        if line.startswith("ANSWER "):
            return json.loads(line[7:])
    raise AssertionError(f"the Lua script gave no answer (exit code {done.returncode}):\n{done.stdout}\n{done.stderr}")

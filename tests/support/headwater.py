"""Headwater as a child process, started as its users start it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.process import Server

ROOT = Path(__file__).resolve().parents[2]


def flags(options: Mapping[str, object]) -> list[str]:
    """Options of box.cfg as flags of `headwater node`."""
    out: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            out.append(flag)
        elif value is False or value is None:
            continue
        elif isinstance(value, list | tuple):
            out += [flag, ",".join(map(str, value))]
        else:
            out += [flag, str(value)]
    return out


class HeadwaterServer(Server):
    """`headwater node --work-dir … --listen …`. `dev` makes guest count as super, as in the other server's setup."""

    name = "headwater"
    ready_pattern = r"ready to accept requests"

    def __init__(
        self, work_dir: Path, *, options: Mapping[str, object] | None = None, dev: bool = True, port: int | None = None
    ) -> None:
        super().__init__(work_dir, port)
        self.options = dict(options or {})
        self.dev = dev

    def command(self) -> list[str]:
        options: dict[str, object] = {
            "work_dir": str(self.work_dir),
            "listen": f"127.0.0.1:{self.port}",
            "checkpoint_interval": 0,
            **self.options,
        }
        base = [sys.executable, "-m", "headwater.cli", "node", *flags(options)]
        return [*base, "--dev"] if self.dev else base

    def env(self) -> Mapping[str, str]:
        path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
        return {**super().env(), "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}

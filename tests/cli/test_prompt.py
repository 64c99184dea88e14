"""The line editor of the prompt."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from headwater.cli.shell.prompt import _PROCEDURES, completions, make_session


@dataclass
class Index:
    name: str


@dataclass
class Space:
    name: str
    indexes: dict[str, Index] = field(default_factory=dict)


class Schema:
    """As much of a runner as completion needs."""

    def spaces(self, *, system: bool = False) -> list[Space]:
        user = [Space("rivers", {"id": Index("id"), "by_km": Index("by_km")}), Space("towns")]
        return [*user, Space("_space")] if system else user

    def fields(self, name: str) -> list[str]:
        return ["id", "name", "km"] if name == "rivers" else []


def offered(text: str) -> list[str]:
    return list(completions(Schema(), text))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("riv", ["rivers."]),
        ("_sp", ["_space."]),
        ("rivers.sel", ["rivers.select"]),
        ("rivers.by", ["rivers.by_km.select", "rivers.by_km.get", "rivers.by_km.update", "rivers.by_km.delete",
                       "rivers.by_km.count", "rivers.by_km.len", "rivers.by_km.min", "rivers.by_km.max",
                       "rivers.by_km.random"]),
        ("box.sn", ["box.snapshot"]),
        ("", ["rivers.", "towns.", *_PROCEDURES]),
        ("rivers.select 1 l", ["limit="]),
        ("rivers.update 1 na", ["name="]),
        ("\\s", ["\\spaces"]),
        ("\\d to", ["towns"]),
        ("zzz", []),
    ],
)  # fmt: skip
def test_completion(text: str, found: list[str]) -> None:
    assert offered(text) == found


async def _until(session: Any, text: str) -> None:
    while session.default_buffer.text != text:
        await asyncio.sleep(0)


def typed(history: Path, *keys: tuple[str, str]) -> str:
    """Type keys, each time until the line reads as given, then return."""

    async def ask() -> str:
        with create_pipe_input() as keyboard, create_app_session(input=keyboard, output=DummyOutput()):
            session: Any = make_session(Schema(), str(history))  # type: ignore[arg-type]
            asked = asyncio.ensure_future(session.prompt_async("> "))
            for press, text in keys:
                keyboard.send_text(press)
                await _until(session, text)
            keyboard.send_text("\r")
            line: str = await asked
            return line

    return asyncio.run(asyncio.wait_for(ask(), 20))


def test_a_line_is_typed_completed_and_remembered(tmp_path: Path) -> None:
    history = tmp_path / "history"
    keys = ("rivers.sel", "rivers.sel"), ("\t", "rivers.select"), (" 1", "rivers.select 1")
    assert typed(history, *keys) == "rivers.select 1"
    assert typed(history, ("\x1b[A", "rivers.select 1"), ("2", "rivers.select 12")) == "rivers.select 12"

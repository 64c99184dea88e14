"""Options of the node on the command line."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from headwater.cli.arguments import parse
from headwater.cli.commands import COMMANDS, app
from headwater.cli.flags import flag_of, is_flag, values_of
from headwater.cli.options import with_option_flags
from headwater.config import ConfigError
from headwater.options import SETTINGS, Setting

runner = CliRunner()


def parsed(*args: str) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []
    probe = typer.Typer(add_completion=False)
    probe.command()(with_option_flags(lambda given: seen.append(dict(given)), {}))
    result = runner.invoke(probe, list(args))
    assert result.exit_code == 0, result.output
    assert parse(args) == (seen[0], None)
    return seen[0]


@pytest.mark.parametrize("row", SETTINGS.values(), ids=lambda row: row.name)
def test_every_option_is_a_flag_with_dashes(row: Setting) -> None:
    if is_flag(row):
        assert parsed(flag_of(row.name)) == {row.name: True}
        assert parsed("--no-" + flag_of(row.name)[2:]) == {row.name: False}
    else:
        assert parsed(flag_of(row.name), "7") == {row.name: "7"}


def test_the_yaml_file() -> None:
    assert parse(["--config", "a.yaml", "--dev"]) == ({"dev": True}, "a.yaml")


@pytest.mark.parametrize("args", [["--wal-mod", "x"], ["--list", "1"], ["--wal-mode"], ["extra"]])
def test_a_wrong_command_line_ends_with_2(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(args)
    assert caught.value.code == 2
    assert args[0] in capsys.readouterr().err


def test_no_flag_is_no_value() -> None:
    assert parsed() == {}


def test_texts_become_values() -> None:
    given = {"listen": "127.0.0.1:3301,3302", "checkpoint_count": "3", "wal_mode": "fsync", "dev": True}
    assert values_of(given) == {
        "listen": ["127.0.0.1:3301", 3302],
        "checkpoint_count": 3,
        "wal_mode": "fsync",
        "dev": True,
    }


def test_a_wrong_flag_is_named() -> None:
    with pytest.raises(ConfigError, match="flag --checkpoint-count: should be convertible to a number"):
        values_of({"checkpoint_count": "many"})


def test_version() -> None:
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("headwater ")


def test_help_lists_the_commands() -> None:
    result = runner.invoke(app, ["--help"])
    assert result.exit_code == 0
    for name in ("node", "connect"):
        assert name in result.output
        assert COMMANDS[name].split()[0] in result.output.lower()


def test_help_tells_the_defaults_with_their_units() -> None:
    text = " ".join(runner.invoke(app, ["node", "--help"], env={"COLUMNS": "400"}).output.split())
    for words in ("(default: 256 MiB)", "(default: 3600 s)", "(default: chap-sha1)"):
        assert words in text


def test_an_unknown_command_is_named() -> None:
    result = runner.invoke(app, ["nod"])
    assert result.exit_code == 2
    assert "nod" in result.output

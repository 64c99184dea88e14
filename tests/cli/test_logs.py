"""Log lines."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.cli.logs import start_logging
from headwater.options import Options


@pytest.fixture(autouse=True)
def keep_logging() -> Iterator[None]:
    root = logging.getLogger("headwater")
    before = root.handlers[:], root.level, root.propagate
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers[:], root.propagate = before[0], before[2]
    root.setLevel(before[1])
    logging.getLogger("headwater.journal").setLevel(logging.NOTSET)


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_a_plain_line_has_time_process_part_and_level(tmp_path: Path) -> None:
    start_logging(Options.load({"work_dir": str(tmp_path), "log": "file:logs/a.log"}))
    logging.getLogger("headwater.journal").warning("slow: %d\nmore", 5)
    first, second = lines(tmp_path / "logs" / "a.log")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \[\d+\] journal W> slow: 5", first)
    assert second == "\tmore"


def test_a_json_line_is_one_object(tmp_path: Path) -> None:
    start_logging(Options.load({"log": str(tmp_path / "a.log"), "log_format": "json"}))
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("headwater.call").exception("procedure %s failed", "f")
    (line,) = lines(tmp_path / "a.log")
    told = json.loads(line)
    assert (told["level"], told["module"]) == ("ERROR", "call")
    assert told["message"].startswith("procedure f failed\nTraceback")


def test_levels_of_the_whole_and_of_parts(tmp_path: Path) -> None:
    options = {"log": str(tmp_path / "a.log"), "log_level": "warn", "log_modules": {"journal": "debug"}}
    start_logging(Options.load(options))
    logging.getLogger("headwater.box").info("not said")
    logging.getLogger("headwater.journal").debug("said")
    assert [line.split("> ")[1] for line in lines(tmp_path / "a.log")] == ["said"]


def test_a_moved_file_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    start_logging(Options.load({"log": str(path)}))
    logging.getLogger("headwater.box").info("one")
    path.rename(tmp_path / "a.log.1")
    logging.getLogger("headwater.box").info("two")
    assert len(lines(path)) == 1

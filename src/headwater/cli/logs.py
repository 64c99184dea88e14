"""Where log lines go and how they look: `2026-01-31 12:00:00.000 [pid] name L> text`, as Tarantool writes them (say.c),
or one JSON object a line. Levels are Tarantool's, 0 fatal to 7 debug."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from datetime import datetime
from logging.handlers import WatchedFileHandler
from typing import Any

from headwater.options import Options
from headwater.options.checks import LOG_LEVELS

VERBOSE = 15
"""Between debug and info."""
_PYTHON = {
    0: logging.CRITICAL,
    1: logging.ERROR,
    2: logging.ERROR,
    3: logging.ERROR,
    4: logging.WARNING,
    5: logging.INFO,
    6: VERBOSE,
    7: logging.DEBUG,
}
"""Tarantool's level → the least of Python's that is still said."""
_LETTERS = {logging.CRITICAL: "F", logging.ERROR: "E", logging.WARNING: "W", logging.INFO: "I", VERBOSE: "V"}
_NAMES = {
    logging.CRITICAL: "FATAL",
    logging.ERROR: "ERROR",
    logging.WARNING: "WARN",
    logging.INFO: "INFO",
    VERBOSE: "VERBOSE",
}
ROOT = "headwater"


class Plain(logging.Formatter):
    """Lines for people."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).astimezone()
        head = (
            f"{when:%Y-%m-%d %H:%M:%S}.{int(record.msecs):03d} [{record.process}] {_part(record)} {_letter(record)}> "
        )
        return head + _message(self, record).replace("\n", "\n\t")


class Json(logging.Formatter):
    """One object a line (say.c, say_format_json)."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).astimezone()
        line = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": _NAMES.get(record.levelno, "DEBUG"),
            "message": _message(self, record),
            "pid": record.process,
            "module": _part(record),
            "file": record.filename,
            "line": record.lineno,
        }
        return json.dumps(line, ensure_ascii=False)


def _part(record: logging.LogRecord) -> str:
    return record.name.removeprefix(f"{ROOT}.")


def _letter(record: logging.LogRecord) -> str:
    return _LETTERS.get(record.levelno, "D")


def _message(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    text = record.getMessage()
    return f"{text}\n{formatter.formatException(record.exc_info)}" if record.exc_info else text


def log_path(options: Options) -> str | None:
    """The file that the option `log` names, relative to the working directory of the node; None for the terminal."""
    if not options.log:
        return None
    return os.path.join(options.work_dir or ".", options.log.removeprefix("file:"))


def start_logging(options: Options) -> None:
    """Say what the options ask for. A log file that was moved away is begun anew with the next line."""
    logging.addLevelName(VERBOSE, "VERBOSE")
    path = log_path(options)
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if path is not None:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        handler = WatchedFileHandler(path, encoding="utf-8")
    handler.setFormatter(Json() if options.log_format == "json" else Plain())
    root = logging.getLogger(ROOT)
    root.handlers[:] = [handler]
    root.propagate = False
    set_levels(options.log_level_number, options.log_modules)


def set_levels(level: int, modules: Mapping[str, Any] | None) -> None:
    """The level, and those of parts of the program that have their own."""
    logging.getLogger(ROOT).setLevel(_PYTHON[min(max(level, 0), 7)])
    for name, of_module in (modules or {}).items():
        number = LOG_LEVELS[of_module] if isinstance(of_module, str) else int(of_module)
        logging.getLogger(f"{ROOT}.{name}").setLevel(_PYTHON[min(max(number, 0), 7)])

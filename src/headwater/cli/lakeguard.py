"""What the commands of `headwater lake` share: errors as sentences, sizes and times for people."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_ERROR = 1
EXIT_USAGE = 2
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(m|h|d|w)")
_HOURS = {"m": 1 / 60, "h": 1.0, "d": 24.0, "w": 168.0}


@contextmanager
def guarded(command: str) -> Iterator[None]:
    """Errors of the user's making are a sentence; a package that is not there says how to get it."""
    try:
        from headwater.errors import HeadwaterError
    except ImportError:
        raise
    try:
        yield
    except ModuleNotFoundError as error:
        fail(command, f"the package '{error.name}' is not here: pip install 'headwater[spark]'")
    except HeadwaterError as error:
        fail(command, str(getattr(error, "message", error)))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@contextmanager
def spark_session(name: str, master: str = "", conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Spark, which says nothing that the command does not say. `conf` has the last word."""
    from headwater import pipeline
    from headwater.pipeline.session import session

    if not master or master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # or Spark complains about the machine's name
    for logger in ("py4j", "SQLQueryContextLogger"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    quiet = Path(pipeline.__file__).with_name("log4j2.properties")
    settings = {
        "spark.log.level": "FATAL",
        # Where a query is stopped, Spark looks through the error by an expression that needs much stack.
        "spark.driver.extraJavaOptions": f"-Xss4m -Dlog4j2.configurationFile={quiet.as_uri()}",
        "spark.sql.streaming.stopTimeout": "60s",
    }
    spark = session(name, master=master or None, config=settings | dict(conf or {}))
    try:
        yield spark
    finally:
        spark.stop()


def fail(command: str, words: str, code: int = EXIT_ERROR) -> NoReturn:
    print(f"headwater lake {command}: {words}", file=sys.stderr)
    raise typer.Exit(code) from None


def hours_of(command: str, option: str, text: str) -> float:
    """`7d`, `12h`, `30m`, `0h`."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        fail(command, f"{option} is '{text}'; it should be a time like 7d, 12h or 30m", EXIT_USAGE)
    return float(found[1]) * _HOURS[found[2]]


def size(count: float) -> str:
    """`1.5 MiB`"""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def ago(moment: float | None) -> str:
    """`12 s ago`"""
    from headwater.pipeline.progress import span

    return "never" if moment is None else f"{span(max(0.0, time.time() - moment))} ago"

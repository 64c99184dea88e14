"""A Spark session with the settings that measurements call for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.pipeline.errors import NotThere

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
_GET_JAVA = (
    "Spark needs Java 17 or newer. On Debian or Ubuntu: apt install openjdk-17-jre-headless; on others take a build "
    "from adoptium.net. Then set JAVA_HOME, or have `java` in the PATH."
)
_GET_SPARK = "pyspark is not installed here: pip install 'headwater[spark]'."
_VERSION = re.compile(r'version "(\d+)')
_FILES_BY_RENAME = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Halves the time of a micro-batch where checkpoints lie on a disk of this machine; not for object stores."""


def java_version() -> int:
    """Of the Java that Spark will start. NotThere says how to get one."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}, and there is no bin/java in it. " if home else "There is no Java here. "
        raise NotThere(where + _GET_JAVA)
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = _VERSION.search(told.stderr + told.stdout)
    if found is None or int(found[1]) < JAVA_MIN:
        has = f"version {found[1]}" if found is not None else "nothing that tells its version"
        raise NotThere(f"{java} is {has}. {_GET_JAVA}")
    return int(found[1])


def check() -> None:
    """NotThere, with the remedy, if Spark cannot be started here."""
    java_version()
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise NotThere(_GET_SPARK) from None


def settings(master: str) -> dict[str, str]:
    """What every session of ours has. An executor of ours runs the Python that the driver runs."""
    python = sys.executable
    local = master.startswith("local")
    found = {
        "spark.pyspark.python": python,
        "spark.pyspark.driver.python": python,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    if local:
        found["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
        found["spark.driver.host"] = "127.0.0.1"
        found["spark.driver.bindAddress"] = "127.0.0.1"
        found["spark.sql.streaming.checkpointFileManagerClass"] = _FILES_BY_RENAME
    return found


def session(
    name: str = "headwater", *, master: str | None = None, config: Mapping[str, str] | None = None
) -> SparkSession:
    """The session that is there, or a new one. Without `master` it is what spark-submit or SPARK_MASTER says, else all
    cores of this machine. `config` has the last word."""
    check()
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # Spark asks this variable, not its settings, which Python knows the format `tarantool`.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Under spark-submit what was submitted is known in its JVM, which a new configuration asks once it is linked.
        SparkContext._ensure_initialized()  # noqa: SLF001
    given = SparkConf()
    chosen = master or given.get("spark.master") or os.environ.get("SPARK_MASTER") or "local[*]"
    builder = SparkSession.builder.appName(name).master(chosen)
    for key, value in (settings(chosen) | dict(config or {})).items():
        if key in (config or {}) or not given.contains(key):
            builder = builder.config(key, value)
    made: SparkSession = builder.getOrCreate()
    made.sparkContext.setLogLevel((config or {}).get("spark.log.level", "WARN"))
    return made

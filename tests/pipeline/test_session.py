"""Starting Spark: what is said where it cannot be started, and the settings that a session of ours has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.pipeline import session
from headwater.pipeline.errors import NotThere

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def java(directory: Path, text: str) -> Path:
    """A home of Java whose `java` says this of itself."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    program.chmod(0o755)
    return directory


def test_no_java_is_told_with_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotThere, match=r"There is no Java here\. Spark needs Java 17.*apt install openjdk-17"):
        session.check()


def test_a_home_of_java_that_is_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NotThere, match=rf"JAVA_HOME is {tmp_path}, and there is no bin/java in it\."):
        session.check()


def test_a_java_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "old", 'openjdk version "11.0.2" 2019-01-15')))
    with pytest.raises(NotThere, match=r"bin/java is version 11\. Spark needs Java 17"):
        session.check()
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "odd", "coffee")))
    with pytest.raises(NotThere, match="nothing that tells its version"):
        session.check()
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "new", 'openjdk version "21.0.1" 2023-10-17')))
    assert session.java_version() == 21


def test_settings_for_one_machine_are_not_those_of_a_cluster() -> None:
    local, cluster = session.settings("local[*]"), session.settings("spark://master:7077")
    assert cluster.keys() < local.keys()
    assert "spark.sql.streaming.checkpointFileManagerClass" in local.keys() - cluster.keys()
    assert all(found["spark.pyspark.python"] == sys.executable for found in (local, cluster))


def test_the_format_is_found_without_being_registered(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="no file of that name or pattern"):
        spark.read.format("tarantool").load(str(tmp_path / "nowhere")).count()
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"

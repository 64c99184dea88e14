"""One Spark session for all tests of the pipeline: starting it takes seconds, the first Python source seconds more."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.fixtures import module_servers, servers

from headwater.pipeline.errors import NotThere

__all__ = ["module_servers", "servers", "spark"]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

if any(importlib.util.find_spec(name) is None for name in ("pyspark", "pyarrow")):
    # They come with the extra `spark`; without it there is nothing to test here.
    collect_ignore_glob = ["test_*.py"]

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"
"""Starts sooner; what it compiles is slower, which no test is about."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from headwater.pipeline import session

    try:
        session.check()
    except NotThere as error:
        pytest.skip(str(error))
    directory: Path = tmp_path_factory.mktemp("spark")
    made = session.session(
        "tests",
        master="local[2]",
        config={
            "spark.driver.extraJavaOptions": f"{QUICK_JVM} -Dderby.system.home={directory}",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.local.dir": str(directory / "local"),
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.log.level": "ERROR",
        },
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    yield made
    made.stop()

"""A sync whose tasks run in other processes: Spark's own small cluster, and a standalone master with two workers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.pipeline.lakeprocess import SyncProcess
from tests.pipeline.lakes import Workload, assert_bronze_whole, assert_equal, replicaset_of
from tests.support.fixtures import Servers, servers
from tests.support.iproto import Connection
from tests.support.process import Output, free_port

from headwater.pipeline.lake.layout import Lake

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")

__all__ = ["servers"]

TIME = 120.0


@contextmanager
def daemon(directory: Path, ready: str, name: str, *args: str) -> Iterator[None]:
    """A master or worker of Spark in the foreground of a process of ours."""
    home = Path(pyspark.__file__).parent
    env = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    env["SPARK_DAEMON_MEMORY"] = "256m"
    process = subprocess.Popen(
        [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *args],
        cwd=directory,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    output = Output(os.dup(process.stdout.fileno()))
    try:
        assert output.wait_for(ready, TIME) is not None, output.tail(50)
        yield
    finally:
        os.killpg(process.pid, 9)
        process.wait()
        process.stdout.close()


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    quiet = ("--host", "127.0.0.1", "--webui-port", "0")
    worker = ("worker.Worker", *quiet, "--cores", "1", "--memory", "1g", "--work-dir", str(directory / "work"), url)
    with (
        daemon(directory, "I have been elected leader", "master.Master", *quiet, "--port", str(port)),
        daemon(directory, "Successfully registered", *worker),
        daemon(directory, "Successfully registered", *worker),
    ):
        yield url


@contextmanager
def small_cluster(directory: Path) -> Iterator[str]:
    yield "local-cluster[2,1,1024]"


@pytest.mark.slow
@pytest.mark.parametrize("master", [small_cluster, standalone])
def test_executors_in_processes_of_their_own(servers: Servers, tmp_path: Path, master: object) -> None:
    assert callable(master)
    server = servers.subject()
    server.start()
    connection = Connection(*server.address)
    work = Workload(connection, seed=3)
    work.write(100)
    lake = Lake(tmp_path / "lake")
    hosts = f"127.0.0.1:{server.port}"
    with master(tmp_path) as url:
        conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
        for _ in range(2):  # the snapshot, and then what came behind it
            with SyncProcess(lake, hosts, "--once", "--master", url, conf=conf) as process:
                process.wait()
            work.write(300, ddl=0.03)
        with SyncProcess(lake, hosts, "--once", "--master", url, conf=conf) as process:
            process.wait()
    assert_equal(lake, connection)
    assert_bronze_whole(lake, {replicaset_of(connection): connection})

"""One node in the real world, until a signal ends it: what `headwater node` does.

Exit codes: 0 it was asked to end and did; 1 it could not start or go on; 2 the command line, a variable or the YAML
file is wrong. Nothing of the pipeline or the web is imported here.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from headwater.cli.flags import values_of
from headwater.cli.logs import set_levels, start_logging
from headwater.config import Config, ConfigError, configure
from headwater.errors import BoxError, HeadwaterError
from headwater.options import Options

log = logging.getLogger("headwater.node")

EXIT_FAILED = 1
EXIT_USAGE = 2


def run_node(given: Mapping[str, Any], config_path: str | None = None) -> int:
    """The exit code."""
    try:
        config = read_config(given, config_path)
        start_logging(config.options)
    except (ConfigError, BoxError, OSError) as error:
        print(f"headwater: {_plain(error)}", file=sys.stderr)
        return EXIT_USAGE
    return serve(config)


def read_config(given: Mapping[str, Any], config_path: str | None) -> Config:
    """From flags, environment and the YAML file."""
    path = config_path or os.environ.get("HEADWATER_CONFIG") or None
    text = None
    if path is not None:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    return configure(values_of(given), os.environ, text, path or "")


def serve(config: Config) -> int:
    """Until a signal."""
    from headwater.env import run

    try:
        with _work_dir(config.options), _pid_file(config.options):
            run(lambda world: _main(world, config))
    except (HeadwaterError, OSError) as error:
        log.critical("%s", _plain(error))
        return EXIT_FAILED
    return 0


async def _main(world: Any, config: Config) -> None:
    from headwater.server.node import make_node

    for note in config.notes:
        log.warning("%s", note)
    box = make_node(world, config.options)
    box.pid = os.getpid()
    box.hostname = os.uname().nodename
    box.credentials = config.credentials
    box.on_log_options = lambda: set_levels(config.options.log_level_number, config.options.log_modules)
    ended = world.tasks.event()
    with _signals(world, box, ended):
        starting = world.tasks.spawn(box.start(), "start")
        ending = world.tasks.spawn(ended.wait(), "signals")
        await _first_of(world, starting, ending)
        if starting.done():
            await starting
            log.info("ready to accept requests")
            await ending
        else:
            starting.cancel()
        log.info("shutting down")
        await box.stop()
    log.info("bye")


async def _first_of(world: Any, *tasks: Any) -> None:
    """Until one of them is done."""
    while not any(task.done() for task in tasks):
        await world.tasks.sleep(0.01)


@contextmanager
def _signals(world: Any, box: Any, ended: Any) -> Iterator[None]:
    """SIGTERM and SIGINT end the node, SIGUSR1 makes a snapshot, as in Tarantool (main.cc)."""
    import asyncio

    loop = asyncio.get_running_loop()

    def end(name: str) -> None:
        log.info("got signal %s", name)
        ended.set()

    def checkpoint() -> None:
        world.tasks.spawn(box.checkpoint(), "checkpoint by signal")

    loop.add_signal_handler(signal.SIGTERM, end, "SIGTERM")
    loop.add_signal_handler(signal.SIGINT, end, "SIGINT")
    loop.add_signal_handler(signal.SIGUSR1, checkpoint)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            loop.remove_signal_handler(number)


@contextmanager
def _work_dir(options: Options) -> Iterator[None]:
    """The node works in it; it is made if it is missing."""
    before = os.getcwd()
    if options.work_dir:
        os.makedirs(options.work_dir, exist_ok=True)
        os.chdir(options.work_dir)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _pid_file(options: Options) -> Iterator[None]:
    if not options.pid_file:
        yield
        return
    os.makedirs(os.path.dirname(options.pid_file) or ".", exist_ok=True)
    with open(options.pid_file, "w", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")
    try:
        yield
    finally:
        os.unlink(options.pid_file)


def _plain(error: BaseException) -> str:
    """An error for people: what, where, and for a few what to do."""
    if isinstance(error, BoxError):
        return error.message
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)

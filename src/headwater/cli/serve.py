"""One node in the real world, until a signal ends it: what `headwater node` does.

Exit codes: 0 it was asked to end and did; 1 it could not start or go on; 2 the command line, a variable or the YAML
file is wrong. Nothing of the pipeline or the web is imported here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headwater import __version__
from headwater.cli.flags import values_of
from headwater.cli.logs import set_levels, start_logging
from headwater.config import Config, ConfigError, configure
from headwater.errors import BoxError, HeadwaterError
from headwater.options import Options

if TYPE_CHECKING:
    from headwater.box.instance import Box
    from headwater.world import World

log = logging.getLogger("headwater.node")

EXIT_FAILED = 1
EXIT_USAGE = 2


def run_node(given: Mapping[str, Any], config_path: str | None = None) -> int:
    """The exit code."""
    try:
        config = read_config(given, config_path)
        start_logging(config.options)
    except (ConfigError, BoxError, OSError) as error:
        print(f"headwater: {plain(error)}", file=sys.stderr)
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


def serve(config: Config, on_ready: Callable[[Box], None] | None = None) -> int:
    """Until a signal. `on_ready` is called when clients are served."""
    from headwater.env import run

    options = config.options
    try:
        _find_procedures(options)
        with _work_dir(options), _pid_file(options):
            log.info("headwater %s, process %d, working in %s", __version__, os.getpid(), os.getcwd())
            return run(lambda world: _main(world, config, on_ready))
    except (HeadwaterError, OSError) as error:
        log.critical("%s", plain(error))
        return EXIT_FAILED


async def _main(world: World, config: Config, on_ready: Callable[[Box], None] | None) -> int:
    from headwater.server.node import make_node

    for note in config.notes:
        log.warning("%s", note)
    box = make_node(world, config.options)
    box.pid = os.getpid()
    box.hostname = os.uname().nodename
    box.credentials = config.credentials
    box.on_log_options = lambda: set_levels(config.options.log_level_number, config.options.log_modules)
    life = Life(world, box)
    with life.signals():
        await life.start()
        if life.is_started:
            log.info("ready to accept requests")
            if not config.options.addresses:
                log.warning("nobody can connect: the option listen is not set")
            if on_ready is not None:
                on_ready(box)
            await life.ended.wait()
        log.info("shutting down")
        await box.stop()
    log.info("bye")
    return 0


class Life:
    """When a node starts and ends. A signal may come while it is still starting."""

    def __init__(self, world: World, box: Box) -> None:
        self.ended = world.tasks.event()
        self.is_started = False
        self._world = world
        self._box = box
        self._error: BaseException | None = None
        self._news = world.tasks.event()
        """It has started, has failed to, or is to end."""

    async def start(self) -> None:
        """Until it has started or is to end. Raises what kept it from starting."""
        starting = self._world.tasks.spawn(self._start(), "start")
        await self._news.wait()
        if self._error is not None:
            raise self._error
        if not self.is_started:
            starting.cancel()

    async def _start(self) -> None:
        try:
            await self._box.start()
            self.is_started = True
        except Exception as error:  # raised again in the main fiber
            self._error = error
        finally:
            self._news.set()

    def _end(self, name: str) -> None:
        log.info("got signal %s", name)
        self.ended.set()
        self._news.set()

    def _checkpoint(self) -> None:
        if self.is_started:
            self._world.tasks.spawn(self._box.checkpoint(), "checkpoint by signal")

    @contextmanager
    def signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT end the node, SIGUSR1 makes a snapshot, as in Tarantool (main.cc). SIGHUP begins a new
        log file there; here the next line does so once the file was moved."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, lambda: None)
        loop.add_signal_handler(signal.SIGTERM, self._end, "SIGTERM")
        loop.add_signal_handler(signal.SIGINT, self._end, "SIGINT")
        loop.add_signal_handler(signal.SIGUSR1, self._checkpoint)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
                loop.remove_signal_handler(number)


def _find_procedures(options: Options) -> None:
    """Modules and files of procedures are looked for where the node is started, not where it works."""
    names = options.procedure_modules
    if names:
        sys.path.insert(0, os.getcwd())
        options.procedures = [os.path.abspath(name) if name.endswith(".py") else name for name in names]


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


def plain(error: BaseException) -> str:
    """An error for people: what, where, and for a few what to do."""
    if isinstance(error, BoxError):
        return error.message
    if isinstance(error, FileExistsError) and error.filename:
        return f"{error.filename}: Not a directory"  # of makedirs, which has no other word for it
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)

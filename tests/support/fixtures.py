"""Fixtures: servers that a test asks for and that end with it. A conftest imports the names it wants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.support import subjects
from tests.support.process import Server
from tests.support.tarantool import EXECUTABLE, GUEST_IS_SUPER, TarantoolServer

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden"

needs_tarantool = pytest.mark.skipif(EXECUTABLE is None, reason="no tarantool is installed")
needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden files of a real Tarantool 3.9 are not here")


class Servers:
    """Makes servers below one directory and ends all of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._made: list[Server] = []

    def _path(self, name: str | Path) -> Path:
        return name if isinstance(name, Path) else self.directory / name

    def _keep(self, server: Server) -> Server:
        self._made.append(server)
        return server

    def subject(self, name: str | Path = "subject", **options: object) -> Server:
        """The server under test, not yet started."""
        return self._keep(subjects.subject(self._path(name), options))

    def tarantool(
        self, name: str | Path = "tarantool", setup: str = GUEST_IS_SUPER, options: Mapping[str, object] | None = None
    ) -> Server:
        if EXECUTABLE is None:
            pytest.skip("no tarantool is installed")
        return self._keep(TarantoolServer(self._path(name), options=options, setup=setup))

    def end(self) -> None:
        for server in self._made:
            server.kill()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    made = Servers(tmp_path)
    yield made
    made.end()


@pytest.fixture(scope="module")
def module_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    made = Servers(tmp_path_factory.mktemp("servers"))
    yield made
    made.end()

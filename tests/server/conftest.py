from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.server.box import Box, Client

from headwater.sim import Simulation


@pytest.fixture
def box() -> Iterator[Box]:
    simulation = Simulation(1)
    yield Box(simulation.machine("node").boot())
    assert not simulation.errors
    simulation.close()


@pytest.fixture
def client(box: Box) -> Client:
    return box.connect()

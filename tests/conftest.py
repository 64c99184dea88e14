"""Which tests run in one process where several run side by side (`make test`: pytest-xdist, loadgroup)."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent
TOGETHER = ("pipeline",)
"""Folders whose tests share something that is dear: one Spark session."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those of one file share its fixtures, so they stay together."""
    for item in items:
        place = item.path.relative_to(ROOT)
        group = place.parts[0] if place.parts[0] in TOGETHER else str(place)
        item.add_marker(pytest.mark.xdist_group(group))

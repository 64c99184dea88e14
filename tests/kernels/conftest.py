"""Every test here runs on both kernels. The compiled one is skipped, and says so, where it is not built."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

TWINS = ("native", "pure")
MODULES = {"native": "headwater.kernels._native", "pure": "headwater.kernels.pure"}


def load(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(MODULES[name])
    except ImportError:
        return None


@pytest.fixture(params=TWINS, scope="session")
def k(request: pytest.FixtureRequest) -> ModuleType:
    """One of the twins."""
    module = load(request.param)
    if module is None:
        pytest.skip("the compiled kernels are not built here")
    return module


@pytest.fixture(scope="session")
def both() -> tuple[ModuleType, ModuleType]:
    native, pure = load("native"), load("pure")
    if native is None or pure is None:
        pytest.skip("the compiled kernels are not built here")
    return native, pure

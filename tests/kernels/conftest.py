"""Every test here runs on both kernels. The compiled one is skipped, and says so, where it is not built."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType

import pytest

TWINS = ("native", "pure")
MODULES = {"native": "headwater.kernels._native", "pure": "headwater.kernels.pure"}
COLUMNS = {"native": "headwater.kernels._columns", "pure": "headwater.kernels.pure.columns"}


def load(name: str, modules: Mapping[str, str] = MODULES) -> ModuleType | None:
    try:
        return importlib.import_module(modules[name])
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


@pytest.fixture(params=TWINS, scope="session")
def c(request: pytest.FixtureRequest) -> ModuleType:
    """One of the twins between rows and Arrow."""
    module = load(request.param, COLUMNS)
    if module is None:
        pytest.skip("the compiled kernels are not built here")
    return module


@pytest.fixture(scope="session")
def both_columns() -> tuple[ModuleType, ModuleType]:
    native, pure = load("native", COLUMNS), load("pure", COLUMNS)
    if native is None or pure is None:
        pytest.skip("the compiled kernels are not built here")
    return native, pure

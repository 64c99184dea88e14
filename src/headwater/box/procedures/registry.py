"""Procedures written in Python: the decorator that marks them, and how the modules that hold them are found.

The decorator only writes on the function; which functions a node has is decided by the modules that its option
`procedures` names. So one process may hold nodes with different procedures.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, TypeVar, overload

from headwater.errors import BoxError, Er, er

Procedure = Callable[..., Any]
"""Called with a `Context` and the arguments of the CALL; returns values or an awaitable of them."""

F = TypeVar("F", bound=Procedure)

_MARK = "__headwater_procedure__"
_RESERVED = "box"
"""The first step of built-in names."""


@overload
def procedure(function: F, /) -> F: ...
@overload
def procedure(*, name: str) -> Callable[[F], F]: ...
def procedure(function: Procedure | None = None, /, *, name: str | None = None) -> Any:
    """Let clients CALL this function: by its own name, or as `name` says, which may have dots."""

    def mark(function: Procedure) -> Procedure:
        setattr(function, _MARK, name or function.__name__)
        return function

    return mark if function is None else mark(function)


def load(names: Iterable[str]) -> dict[str, Procedure]:
    """The procedures of these modules, by name. A module is named as for import, or is the path of a `.py` file.
    BoxError CFG says which module cannot be had, and why."""
    found: dict[str, Procedure] = {}
    for module_name in names:
        module = _module(module_name)
        marked = collect(vars(module))
        if not marked:
            raise _refused(f"module {module_name} has no function marked with @procedure")
        for name, function in marked.items():
            if found.setdefault(name, function) is not function:
                raise _refused(f"procedure '{name}' is in two modules, the second is {module_name}")
    return found


def load_function(module_name: str, name: str) -> Procedure:
    """One function of a module, which is named as in `load`, for the option `replication_conflict`. BoxError CFG."""
    option = "replication_conflict"
    try:
        function = getattr(_module(module_name), name, None)
    except BoxError as error:
        cause = error.__cause__
        words = f"{type(cause).__name__}: {cause}" if cause is not None else error.message
        raise er(Er.CFG, option, f"module {module_name} cannot be loaded: {words}") from error
    if not callable(function):
        raise er(Er.CFG, option, f"module {module_name} has no function {name}")
    if inspect.iscoroutinefunction(function):
        raise er(Er.CFG, option, f"{name} of module {module_name} is asynchronous: a conflict hook cannot wait")
    found: Procedure = function
    return found


def collect(namespace: Mapping[str, Any]) -> dict[str, Procedure]:
    """The marked functions among these values."""
    found: dict[str, Procedure] = {}
    for value in namespace.values():
        name = getattr(value, _MARK, None) if callable(value) else None
        if not isinstance(name, str):
            continue
        if name.split(".")[0].split(":")[0] == _RESERVED:
            raise _refused(f"procedure '{name}': names under '{_RESERVED}' are built in")
        found[name] = value
    return found


def _module(name: str) -> ModuleType:
    try:
        return _of_file(name) if name.endswith(".py") else importlib.import_module(name)
    except BoxError:
        raise
    except Exception as error:
        raise _refused(f"module {name} cannot be loaded: {type(error).__name__}: {error}") from error


def _of_file(path: str) -> ModuleType:
    name = path.rpartition("/")[2].removesuffix(".py")
    spec = importlib.util.spec_from_file_location(f"headwater_procedures_{name}", path)
    if spec is None or spec.loader is None:
        raise _refused(f"file {path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _refused(words: str) -> BoxError:
    return er(Er.CFG, "procedures", words)

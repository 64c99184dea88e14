"""Options of the node as parameters that typer reads, made from the options table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Optional

import typer

from headwater.cli.flags import flag_of, is_flag
from headwater.options import SETTINGS, Setting, Support, Unit


def with_option_flags(command: Callable[..., Any], extra: Mapping[str, Any]) -> Callable[..., Any]:
    """`command(values, **extra)` as a function that typer reads: one parameter for each option, then the `extra` ones
    (name → annotated type). Flags that were not given are not in `values`."""

    def called(**given: Any) -> Any:
        own = {name: given.pop(name) for name in extra}
        return command({name: value for name, value in given.items() if value is not None}, **own)

    parameters = [_parameter(row) for row in SETTINGS.values()]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in extra.items()
    ]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    called.__doc__ = command.__doc__
    return called


def _parameter(row: Setting) -> inspect.Parameter:
    flag = flag_of(row.name)
    names = (f"{flag}/--no-{flag[2:]}",) if is_flag(row) else (flag,)
    option = typer.Option(
        *names,
        help=_help(row),
        metavar=None if is_flag(row) else _metavar(row),
        rich_help_panel=row.section,
        show_default=False,
        hidden=row.support in (Support.IGNORED, Support.REFUSED),
    )
    kind: Any = bool if is_flag(row) else str
    annotation = Annotated[Optional[kind], option]  # noqa: UP045 - typer evaluates it
    return inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _help(row: Setting) -> str:
    default = "" if row.default is None or is_flag(row) else f" (default: {row.default_text})"
    return row.meaning.replace("`", "") + default


def _metavar(row: Setting) -> str:
    match row.unit:
        case Unit.BYTES:
            return "SIZE"
        case Unit.SECONDS:
            return "TIME"
    if row.is_list:
        return "A,B,..."
    return "NUMBER" if row.types == ("number",) else "TEXT"

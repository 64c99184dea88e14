"""What is known about one option, and how a class attribute becomes one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeVar, cast

T = TypeVar("T")

Check = Callable[[Any], str | None]
"""Looks at one value and says what is wrong with it, in 3.x's words (box.cc, box_check_config), or None."""


class Unit(Enum):
    """What a number counts. Sizes and durations may also be written with a suffix (`16MiB`, `5s`)."""

    NONE = ""
    BYTES = "bytes"
    SECONDS = "seconds"


class Support(Enum):
    """What Headwater does with an option of Tarantool's."""

    SERVED = "served"
    """It does what it does in Tarantool."""
    OURS = "ours"
    """Tarantool has no such option."""
    IGNORED = "accepted, without effect"
    """A configuration written for Tarantool goes on working; what the option tunes does not exist here."""
    REFUSED = "only the default"
    """Any other value would promise what is not there, so it is an error."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    name: str
    section: str
    types: tuple[str, ...]
    """Which Lua types are taken: number, string, boolean, table (load_cfg.lua, template_cfg)."""
    default: Any
    whole: bool
    """A number that is kept as an integer (box.cc reads it with cfg_geti)."""
    unit: Unit
    dynamic: bool
    """May it change while the node runs (load_cfg.lua, dynamic_cfg and dynamic_cfg_modules)?"""
    support: Support
    why: str
    """For IGNORED and REFUSED: the reason."""
    meaning: str
    yaml: str
    """Its path in a YAML file (config/instance_config.lua, box_cfg annotations); empty if there is none."""
    check: Check | None

    @property
    def is_boolean(self) -> bool:
        return self.types == ("boolean",)

    @property
    def is_list(self) -> bool:
        return "table" in self.types

    @property
    def default_text(self) -> str:
        """The default as people write it, with its unit."""
        if self.default is None:
            return ""
        if self.is_boolean:
            return "on" if self.default else "off"
        if self.unit is Unit.BYTES:
            return _size(int(self.default))
        return f"{self.default} s" if self.unit is Unit.SECONDS else f"{self.default}"

    @property
    def type_error(self) -> str:
        """In the words of load_cfg.lua, check_cfg_option_type."""
        if len(self.types) == 1:
            return f"should be of type {self.types[0]}"
        return "should be one of types " + ", ".join(self.types)


def setting(
    default: T,
    meaning: str,
    *,
    types: str = "",
    whole: bool | None = None,
    unit: Unit = Unit.NONE,
    dynamic: bool = False,
    support: Support = Support.SERVED,
    why: str = "",
    yaml: str = "",
    check: Check | None = None,
) -> T:
    """An attribute of one of the option classes: to a reader of the class, and to a type checker, its default.

    Types and `whole` follow from the default unless it is None. `Options` replaces the row by the value.
    """
    row = Setting(
        name="",
        section="",
        types=tuple(types.split(", ")) if types else (_lua_type(default),),
        default=default,
        whole=whole if whole is not None else isinstance(default, int) and not isinstance(default, bool),
        unit=unit,
        dynamic=dynamic,
        support=support,
        why=why,
        meaning=" ".join(meaning.split()),
        yaml=yaml,
        check=check,
    )
    return cast(T, row)


def settings_of(cls: type) -> Iterator[Setting]:
    """The rows of one class, in the order in which they are written there."""
    section = (cls.__doc__ or "").rstrip(".")
    for name, row in vars(cls).items():
        if isinstance(row, Setting):
            yield replace(row, name=name, section=section)


def _size(size: int) -> str:
    for name, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size % factor == 0 and size < 2**40:
            return f"{size // factor} {name}"
    return f"{size:.0e} B" if size >= 2**40 else f"{size} B"


def _lua_type(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
    raise TypeError("an option without a default must name its types")

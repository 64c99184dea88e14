"""What a space, an index, a user is, as read from the rows of the system spaces. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.typing import FieldType, IndexId, SpaceId, UserId


@dataclass(frozen=True, slots=True)
class FieldDef:
    """One field of a `_space.format`."""

    name: str
    type: FieldType
    nullable: bool = False
    collation: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The map as written, so that what we do not interpret is shown as it came."""


@dataclass(frozen=True, slots=True)
class PartDef:
    """One part of an index key."""

    field: int
    type: FieldType
    nullable: bool = False
    exclude_null: bool = False
    collation: int | None = None


@dataclass(frozen=True, slots=True)
class IndexDef:
    """A row of `_index`."""

    space_id: SpaceId
    id: IndexId
    name: str
    type: str
    """'tree' or 'hash', lower case. Others are refused by name."""
    unique: bool
    parts: Sequence[PartDef]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpaceDef:
    """A row of `_space`."""

    id: SpaceId
    owner: UserId
    name: str
    engine: str
    """'memtx'; 'sysview' for the views of system spaces. Others are refused by name."""
    field_count: int
    options: Mapping[str, Any]
    format: Sequence[FieldDef]

    @property
    def is_local(self) -> bool:
        return self.options.get("group_id", 0) == 1

    @property
    def is_temporary(self) -> bool:
        return bool(self.options.get("temporary")) or self.options.get("type") in ("temporary", "data-temporary")

    @property
    def is_sync(self) -> bool:
        return bool(self.options.get("is_sync"))

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
    action: str = "default"
    """What happens to a nil (nullable_action): 'none' exactly where it is nullable."""
    default: bytes | None = None
    """MessagePack of the value that a missing field or a nil is replaced by."""


@dataclass(frozen=True, slots=True)
class PartDef:
    """One part of an index key."""

    field: int
    type: FieldType
    nullable: bool = False
    exclude_null: bool = False
    collation: int | None = None
    action: str = "default"
    """nullable_action of the part: 'none' exactly where it is nullable."""


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
        return bool(self.options.get("group_id", 0) == 1)

    @property
    def type(self) -> str:
        """'normal'; 'data-temporary': the tuples stay in memory; 'temporary': so does the definition
        (space_def.h, enum space_type). The old option `temporary` says data-temporary."""
        kind = self.options.get("type")
        if kind is not None:
            return str(kind).lower()
        return "data-temporary" if self.options.get("temporary") else "normal"

    @property
    def is_temporary(self) -> bool:
        """Its tuples are neither journaled nor in snapshots (space_opts_is_data_temporary)."""
        return self.type != "normal"

    @property
    def is_fully_temporary(self) -> bool:
        """Nor is its definition (space_opts_is_temporary)."""
        return self.type == "temporary"

    @property
    def is_sync(self) -> bool:
        return bool(self.options.get("is_sync"))

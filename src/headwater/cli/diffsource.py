"""Where data to compare comes from: what a live node and a directory have in common, and which spaces are compared.

Left out is what every node keeps for itself: local and temporary spaces, views, settings of sessions, and what is told
of them in system spaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headwater.errors import HeadwaterError
from headwater.kernels import mp_array_fields
from headwater.store.system import TEMPORARY_ID_MIN
from headwater.typing import SpaceId
from headwater.wire.mpwrite import pack_array_head
from headwater.wire.msgpack import unpack

SPACE_ID, INDEX_ID, TRUNCATE_ID, SEQUENCE_DATA_ID = SpaceId(280), SpaceId(288), SpaceId(330), SpaceId(285)
OF_SPACES = frozenset((SPACE_ID, INDEX_ID, TRUNCATE_ID, 340, 364, 372))
"""System spaces whose first field is the id of the space that the row is about (§2.16: `_space`, `_index`, `_truncate`,
`_space_sequence`, `_ck_constraint`, `_func_index`)."""
USER_ID_MIN = 512
OWN_ENGINES = frozenset(("sysview", "service", "blackhole"))
OWN_TYPES = frozenset(("temporary", "data-temporary"))
LOCAL_GROUP = 1


class CannotCompareError(HeadwaterError):
    """One of the two cannot be read."""


@dataclass(frozen=True, slots=True)
class Part:
    """A space that is compared."""

    id: SpaceId
    name: str
    key: tuple[int, ...]
    """Numbers of the fields of its primary key."""
    own: frozenset[int] = frozenset()
    """Its rows about these spaces are the node's own."""

    @property
    def is_system(self) -> bool:
        return self.id < USER_ID_MIN

    def key_of(self, data: bytes) -> bytes:
        """The primary key of a tuple as a MessagePack array."""
        fields = mp_array_fields(data)
        return pack_array_head(len(self.key)) + b"".join(data[fields[field] : fields[field + 1]] for field in self.key)

    def common(self, tuples: Sequence[bytes]) -> Sequence[bytes]:
        """Those that other nodes should have, too."""
        if self.id not in OF_SPACES:
            return tuples
        return [data for data in tuples if not self._is_own(unpack(data)[0])]

    def _is_own(self, space_id: int) -> bool:
        return space_id >= TEMPORARY_ID_MIN or space_id in self.own


class Source(Protocol):
    """One of the two."""

    name: str
    is_live: bool

    def vclock(self) -> Mapping[int, int]:
        """Where it stands now."""

    def parts(self) -> dict[str, Part]:
        """What there is to compare, by name."""

    def tuples(self, part: Part) -> Iterator[Sequence[bytes]]:
        """All of a space, in batches."""

    def get(self, part: Part, keys: Sequence[bytes]) -> list[bytes | None]:
        """By primary keys, as they are now."""

    def close(self) -> None: ...


def parts_of(spaces: Sequence[bytes], indexes: Sequence[bytes]) -> dict[str, Part]:
    """From the rows of `_space` and `_index`."""
    keys = {row[0]: row[5] for row in map(unpack, indexes) if row[1] == 0}
    rows = [unpack(data) for data in spaces]
    own = frozenset(row[0] for row in rows if _is_own(row))
    return {
        row[2]: Part(
            SpaceId(row[0]), row[2], _key_fields(row[2], keys[row[0]]), own if row[0] == TRUNCATE_ID else frozenset()
        )
        for row in rows
        if row[0] in keys and row[0] not in own
    }


def _is_own(row: Sequence[Any]) -> bool:
    """Does every node have its own of this space (space_is_local, space_is_temporary), or has it no data?"""
    options = row[5] if isinstance(row[5], Mapping) else {}
    return (
        row[0] >= TEMPORARY_ID_MIN
        or row[3] in OWN_ENGINES
        or options.get("group_id") == LOCAL_GROUP
        or options.get("type") in OWN_TYPES
        or bool(options.get("temporary"))
        or bool(options.get("view"))
    )


def _key_fields(name: str, parts: Sequence[Any]) -> tuple[int, ...]:
    """Parts are arrays `[field, type, …]` or maps (key_def_decode_parts)."""
    for part in parts:
        if isinstance(part, Mapping) and part.get("path"):
            raise CannotCompareError(f"space '{name}': a primary key with a JSON path is not supported")
    return tuple(int(part["field"] if isinstance(part, Mapping) else part[0]) for part in parts)

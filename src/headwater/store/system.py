"""The system spaces: their ids, and the few of them that exist before the first row is read (schema_def.h, schema.cc).

A snapshot describes all system spaces in rows of `_space` and `_index`, the describing spaces included. So that these
rows have a place to go to, `STUBS` are created first, with a primary key and nothing else; the rows then alter them
into what they are in that schema version (schema_init).
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.store.definitions import IndexDef, PartDef, SpaceDef
from headwater.typing import FieldType, IndexId, SpaceId, UserId

SYSTEM_ID_MIN, SYSTEM_ID_MAX = 256, 511
TEMPORARY_ID_MIN = 1 << 30
"""Spaces of the type `temporary` get ids from here on (BOX_SPACE_ID_TEMPORARY_MIN)."""

VINYL_DEFERRED_DELETE = SpaceId(257)
SCHEMA = SpaceId(272)
COLLATION = SpaceId(276)
VCOLLATION = SpaceId(277)
SPACE = SpaceId(280)
VSPACE = SpaceId(281)
SEQUENCE = SpaceId(284)
SEQUENCE_DATA = SpaceId(285)
VSEQUENCE = SpaceId(286)
INDEX = SpaceId(288)
VINDEX = SpaceId(289)
FUNC = SpaceId(296)
VFUNC = SpaceId(297)
USER = SpaceId(304)
VUSER = SpaceId(305)
PRIV = SpaceId(312)
VPRIV = SpaceId(313)
CLUSTER = SpaceId(320)
TRIGGER = SpaceId(328)
TRUNCATE = SpaceId(330)
SPACE_SEQUENCE = SpaceId(340)
VSPACE_SEQUENCE = SpaceId(341)
FK_CONSTRAINT = SpaceId(356)
CK_CONSTRAINT = SpaceId(364)
FUNC_INDEX = SpaceId(372)
SESSION_SETTINGS = SpaceId(380)
GC_CONSUMERS = SpaceId(388)
RECOVERY_POINT = SpaceId(396)
REPLICA_IDS = SpaceId(500)
"""Not Tarantool's: `_replica_ids`, a local space whose definition is local, too. It exists where the option
`replica_ids` asked for it."""
CONFLICT_STAMPS = SpaceId(501)
"""Not Tarantool's either: `_conflict_stamps`, where `replication_conflict` is `last_write_wins`."""
OWN_SPACES = (REPLICA_IDS, CONFLICT_STAMPS)

ADMIN = UserId(1)


def is_system(space_id: int) -> bool:
    """space_id_is_system."""
    return SYSTEM_ID_MIN < space_id < SYSTEM_ID_MAX


@dataclass(frozen=True, slots=True)
class Stub:
    """A system space before its row: enough of it to take rows in."""

    id: SpaceId
    name: str
    parts: tuple[FieldType, ...]
    """Types of the primary key's parts; they are the first fields."""

    def space_def(self) -> SpaceDef:
        if not self.parts:
            return SpaceDef(self.id, ADMIN, self.name, "blackhole", 0, {"group_id": 1}, ())
        return SpaceDef(self.id, ADMIN, self.name, "memtx", 0, {}, ())

    def index_defs(self) -> list[IndexDef]:
        if not self.parts:
            return []
        parts = tuple(PartDef(field, kind) for field, kind in enumerate(self.parts))
        return [IndexDef(self.id, IndexId(0), "primary", "tree", unique=True, parts=parts)]


_U, _S = FieldType.UNSIGNED, FieldType.STRING
STUBS = (
    Stub(SCHEMA, "_schema", (_S,)),
    Stub(COLLATION, "_collation", (_U,)),
    Stub(SPACE, "_space", (_U,)),
    Stub(TRUNCATE, "_truncate", (_U,)),
    Stub(SEQUENCE, "_sequence", (_U,)),
    Stub(SEQUENCE_DATA, "_sequence_data", (_U,)),
    Stub(SPACE_SEQUENCE, "_space_sequence", (_U,)),
    Stub(USER, "_user", (_U,)),
    Stub(FUNC, "_func", (_U,)),
    Stub(PRIV, "_priv", (_U,)),
    Stub(CLUSTER, "_cluster", (_U,)),
    Stub(TRIGGER, "_trigger", (_S,)),
    Stub(INDEX, "_index", (_U, _U)),
    Stub(FK_CONSTRAINT, "_fk_constraint", (_S, _U)),
    Stub(CK_CONSTRAINT, "_ck_constraint", (_U, _S)),
    Stub(FUNC_INDEX, "_func_index", (_U, _U)),
    Stub(VINYL_DEFERRED_DELETE, "_vinyl_deferred_delete", ()),
)

"""Privilege bits, kinds of objects, and rows of `_priv` (user_def.h, schema_def.h, priv_def_create_from_tuple)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntFlag

from headwater.errors import Er, er
from headwater.store.identifier import shown
from headwater.store.rowview import Row

USER_MAX = 32
"""Users and roles of one node (BOX_USER_MAX). Auth tokens are smaller."""
ALL = 0xFFFFFFFF
"""PRIV_ALL."""


class Priv(IntFlag):
    """What a privilege allows (enum priv_type)."""

    READ = 1
    WRITE = 2
    EXECUTE = 4
    SESSION = 8
    USAGE = 16
    CREATE = 32
    DROP = 64
    ALTER = 128
    REFERENCE = 256
    TRIGGER = 512
    INSERT = 1024
    UPDATE = 2048
    DELETE = 4096
    GRANT = 8192
    METAGRANT = 16384


_PRIV_NAMES = tuple(str(bit.name).capitalize() for bit in Priv)


def priv_name(bits: int) -> str:
    """The name of the lowest bit, as errors write it (priv_name)."""
    lowest = (bits & -bits).bit_length() - 1
    return _PRIV_NAMES[lowest] if 0 <= lowest < len(_PRIV_NAMES) else "Any"


class ObjectType(Enum):
    """What a privilege is about; the values are the words of `_priv` (enum schema_object_type)."""

    UNIVERSE = "universe"
    LUA_CALL = "lua_call"
    LUA_EVAL = "lua_eval"
    SQL = "sql"
    SPACE = "space"
    FUNCTION = "function"
    USER = "user"
    ROLE = "role"
    SEQUENCE = "sequence"
    COLLATION = "collation"


_BY_NAME = {kind.value: kind for kind in ObjectType}

ENTITIES = (ObjectType.SPACE, ObjectType.FUNCTION, ObjectType.USER, ObjectType.ROLE, ObjectType.SEQUENCE)
"""Kinds of which all objects at once can be granted (entity_access_get)."""


@dataclass(frozen=True, slots=True)
class PrivKey:
    """What is granted on: an object, or all objects of a kind."""

    type: ObjectType
    object: int | str
    """Id; for lua_call the name of a function; 0 for a whole kind."""
    entity: bool = False

    @property
    def place(self) -> PrivKey:
        """Keys with the same place are laid down in the same Access: there is one universe, however it is written."""
        alone = self.type in (ObjectType.UNIVERSE, ObjectType.LUA_EVAL, ObjectType.SQL)
        return PrivKey(self.type, 0) if alone else self


@dataclass(frozen=True, slots=True)
class PrivDef:
    """A row of `_priv`."""

    grantor: int
    grantee: int
    key: PrivKey
    access: int


def read_priv(row: Row) -> PrivDef:
    """An empty string in place of the object's id stands for all objects of the kind."""
    grantor, grantee = row.u32(0), row.u32(1)
    name = row.string(2)
    kind = _BY_NAME.get(name)
    written = row.type(3)
    if written is None:
        raise er(Er.NO_SUCH_FIELD_NO, 4)
    target: int | str
    entity = False
    value = row.value(3) if written == "string" else None
    if value == "":
        target, entity = 0, True
    elif value is not None and kind is ObjectType.LUA_CALL:
        target = str(value)
    else:
        target = row.u32(3)
    if kind is None:
        raise er(Er.UNKNOWN_SCHEMA_OBJECT, shown(name))
    return PrivDef(grantor, grantee, PrivKey(kind, target, entity), row.u32(4))


class Access:
    """Effective privileges on one object, by auth token (struct access)."""

    __slots__ = ("bits",)

    def __init__(self) -> None:
        self.bits = [0] * USER_MAX

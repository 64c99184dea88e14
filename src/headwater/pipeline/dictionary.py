"""What spaces are called and look like at a position: followed row by row through files and streams.

Definitions are read leniently, for rows of any engine, version and build must be readable: a node refuses what it
cannot keep (`store.spacedef`), this only names columns. The tuples of `_space` and `_index` are held as they stand,
because a log has updates of them too, not only new ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from headwater.errors import HeadwaterError
from headwater.kernels import mp_array_fields
from headwater.pipeline.errors import NotThere, PipelineError
from headwater.store import system
from headwater.store.bootstrap import bootstrap_rows
from headwater.store.bootstrap_tables import V3_8_0
from headwater.store.update import apply_update, apply_upsert
from headwater.wire.constants import Key, Type
from headwater.wire.mpwrite import pack_map_head, pack_uint
from headwater.wire.msgpack import pack, unpack
from headwater.wire.request import Request, of_row
from headwater.wire.xrow import Row, decode_row

if TYPE_CHECKING:
    from headwater.client import WireClient

WATCHED = (int(system.SPACE), int(system.INDEX))
"""Rows of these spaces change a dictionary."""
_CHANGES = frozenset((Type.INSERT, Type.REPLACE, Type.UPDATE, Type.DELETE, Type.UPSERT))
_NAMES_OF_SPACE = {"id": 0, "owner": 1, "name": 2, "engine": 3, "field_count": 4, "flags": 5, "format": 6}
_NAMES_OF_INDEX = {"id": 0, "iid": 1, "name": 2, "type": 3, "opts": 4, "parts": 5}
_OLD_TYPES = {"num": "unsigned", "str": "string", "*": "any", "": "any"}
"""Names of 1.6 (field_def.c)."""
_PAGE = 1 << 30


@dataclass(frozen=True, slots=True)
class FieldFacts:
    """One field of a tuple."""

    name: str
    type: str
    """Lower case, as 3.x writes it; `any` for a field that only has a number."""
    nullable: bool = True
    scale: int = 0
    """Digits behind the point, of the decimals that have a fixed number of them."""


@dataclass(frozen=True, slots=True)
class PartFacts:
    field: int
    type: str
    path: str | None = None
    collation: int | None = None


@dataclass(frozen=True, slots=True)
class IndexFacts:
    id: int
    name: str
    type: str
    unique: bool
    parts: tuple[PartFacts, ...]


@dataclass(frozen=True, slots=True)
class SpaceFacts:
    """A space as its rows of `_space` and `_index` describe it."""

    id: int
    name: str
    fields: tuple[FieldFacts, ...]
    """Of the format; behind it `field_<number>` (from 1) as far as indexes speak of fields."""
    key_fields: tuple[int, ...]
    """Of the primary key, from 0; empty without one."""
    engine: str
    is_local: bool
    field_count: int
    """Tuples have exactly so many fields; 0: any number."""
    is_temporary: bool
    is_sync: bool
    indexes: tuple[IndexFacts, ...]

    @property
    def names(self) -> dict[str, int]:
        """Number of each field."""
        return {field.name: number for number, field in enumerate(self.fields)}

    @property
    def is_system(self) -> bool:
        return system.is_system(self.id)

    def ddl(self) -> str:
        """For messages: `books (id unsigned, title string)`."""
        return f"{self.name} ({', '.join(f'{field.name} {field.type}' for field in self.fields)})"


class Dictionary:
    """The spaces at one position. Mutable: `apply` moves it over a row; `copy` before handing it on."""

    def __init__(self) -> None:
        self._spaces: dict[int, bytes] = {}
        self._indexes: dict[int, dict[int, bytes]] = {}
        self._facts: dict[int, SpaceFacts] = {}
        """Read when they are asked for."""
        self._ids: dict[str, int] | None = None
        self._names: dict[int, str] | None = None
        self._keys: dict[int, tuple[int, ...]] | None = None

    # ---- making

    @classmethod
    def builtin(cls) -> Dictionary:
        """The system spaces alone, for rows with no snapshot before them."""
        return cls.from_tuples(bootstrap_rows(V3_8_0))

    @classmethod
    def from_tuples(cls, tuples: Iterable[tuple[int, bytes]]) -> Dictionary:
        """Out of (space id, tuple); those of other spaces are passed over."""
        made = cls()
        for space_id, packed in tuples:
            made._put(space_id, packed)
        return made

    @classmethod
    def from_rows(cls, rows: Iterable[Row]) -> Dictionary:
        made = cls()
        for row in rows:
            made.apply(row)
        return made

    @classmethod
    def fetch(cls, client: WireClient) -> Dictionary:
        """What the server shows of its spaces to the one who is logged in (`_vspace`, `_vindex`)."""
        made = cls()
        for view, space_id in ((system.VSPACE, system.SPACE), (system.VINDEX, system.INDEX)):
            body = (
                pack_map_head(6)
                + b"".join(pack_uint(key) + pack_uint(value) for key, value in _select(view))
                + pack_uint(Key.KEY)
                + b"\x90"
            )
            answer = unpack(client.ask(Type.SELECT, body).body)
            for fields in answer[Key.DATA]:
                made._put(space_id, pack(fields))
        return made

    def copy(self) -> Dictionary:
        twin = Dictionary()
        twin._spaces = dict(self._spaces)
        twin._indexes = {space_id: dict(indexes) for space_id, indexes in self._indexes.items()}
        twin._facts = dict(self._facts)
        return twin

    # ---- following

    def apply(self, row: Row) -> bool:
        """Move over a row; False if it says nothing about spaces. PipelineError for one that cannot be read."""
        if row.type not in _CHANGES:
            return False
        try:
            request = of_row(row)
            if request.space_id not in WATCHED:
                return False
            self._change(request)
        except (HeadwaterError, LookupError, TypeError, ValueError) as error:
            raise PipelineError(
                f"A change of the schema cannot be read, replica {row.replica_id}, LSN {row.lsn}: {error}"
            ) from None
        return True

    def apply_bytes(self, rows: bytes, offset: int = 0) -> bool:
        """As `apply`, the row at `offset`."""
        return self.apply(decode_row(rows, offset)[0])

    def _change(self, request: Request) -> None:
        space_id = request.space_id
        if request.type in (Type.INSERT, Type.REPLACE):
            self._put(space_id, cast(bytes, request.tuple))
            return
        if request.type == Type.UPSERT:
            packed = cast(bytes, request.tuple)
            old = self._old(space_id, packed)
            if old is not None:
                ops, base = cast(bytes, request.ops), request.index_base
                packed = apply_upsert(ops, old, _names_of(space_id), base).tuple
            self._put(space_id, packed)
            return
        key = cast(bytes, request.key)
        old = self._old(space_id, key)
        if old is None:
            return
        self._remove(space_id, key)
        if request.type == Type.UPDATE:
            ops = cast(bytes, request.tuple)
            self._put(space_id, apply_update(ops, old, _names_of(space_id), request.index_base))

    def _old(self, space_id: int, key: bytes) -> bytes | None:
        """The tuple with this key; of a tuple the first fields are one."""
        if space_id == system.SPACE:
            return self._spaces.get(_numbers(key, 1)[0])
        number, index_id = _numbers(key, 2)
        return self._indexes.get(number, {}).get(index_id)

    def _put(self, space_id: int, packed: bytes) -> None:
        if space_id == system.SPACE:
            number = _numbers(packed, 1)[0]
            self._spaces[number] = packed
        elif space_id == system.INDEX:
            number, index_id = _numbers(packed, 2)
            self._indexes.setdefault(number, {})[index_id] = packed
        else:
            return
        self._forget(number)

    def _remove(self, space_id: int, key: bytes) -> None:
        number = _numbers(key, 1)[0]
        if space_id == system.SPACE:
            self._spaces.pop(number, None)
        else:
            indexes = self._indexes.get(number, {})
            indexes.pop(_numbers(key, 2)[1], None)
            if not indexes:
                self._indexes.pop(number, None)
        self._forget(number)

    def _forget(self, number: int) -> None:
        self._facts.pop(number, None)
        self._ids = self._names = self._keys = None

    # ---- asking

    def find(self, name_or_id: str | int) -> SpaceFacts | None:
        """The space of this name or id; a name of digits alone is an id unless a space has it."""
        if self._ids is None:
            self._ids = {name: number for number, name in self.names.items()}
        number = name_or_id if isinstance(name_or_id, int) else self._ids.get(name_or_id)
        if number is None and str(name_or_id).isdigit():
            number = int(name_or_id)
        if number is None or number not in self._spaces:
            return None
        facts = self._facts.get(number)
        if facts is None:
            facts = self._facts[number] = read_space(self._spaces[number], self._indexes.get(number, {}).values())
        return facts

    def space(self, name_or_id: str | int) -> SpaceFacts:
        """NotThere if there is none."""
        found = self.find(name_or_id)
        if found is None:
            own = [name for number, name in sorted(self.names.items()) if not system.is_system(number)]
            shown = ", ".join(own[:10]) + (", …" if len(own) > 10 else "") if own else "none besides the system's"
            raise NotThere(f"There is no space '{name_or_id}' at this position. There are: {shown}.")
        return found

    def ids(self, wanted: Iterable[str | int]) -> list[int]:
        """Of those that exist now."""
        return [found.id for word in wanted if (found := self.find(word)) is not None]

    @property
    def names(self) -> Mapping[int, str]:
        """As `Columns.set_spaces` wants them."""
        if self._names is None:
            self._names = {number: _space_name(packed) for number, packed in self._spaces.items()}
        return self._names

    @property
    def keys(self) -> Mapping[int, Sequence[int]]:
        """Fields of primary keys, as `Columns.set_spaces` wants them."""
        if self._keys is None:
            primaries = ((number, indexes[0]) for number, indexes in self._indexes.items() if 0 in indexes)
            found = ((number, _key_fields(read_index(packed))) for number, packed in primaries)
            self._keys = {number: fields for number, fields in found if fields}
        return self._keys

    @property
    def spaces(self) -> list[SpaceFacts]:
        """All of them, by id."""
        return [self.space(number) for number in sorted(self._spaces)]

    def __len__(self) -> int:
        return len(self._spaces)

    # ---- travelling

    def tuples(self) -> Iterator[tuple[int, bytes]]:
        """As `from_tuples` takes them."""
        for packed in self._spaces.values():
            yield int(system.SPACE), packed
        for indexes in self._indexes.values():
            for packed in indexes.values():
                yield int(system.INDEX), packed

    def __getstate__(self) -> bytes:
        return zlib.compress(pack(list(self.tuples())), 1)

    def __setstate__(self, state: bytes) -> None:
        self.__init__()  # type: ignore[misc]
        for space_id, packed in unpack(zlib.decompress(state)):
            self._put(space_id, packed)


# ---- reading definitions --------------------------------------------------------------------------


def read_space(packed: bytes, indexes: Iterable[bytes]) -> SpaceFacts:
    """A tuple of `_space` and those of its indexes."""
    fields = unpack(packed)
    name = _space_name(packed)
    options = fields[5] if len(fields) > 5 and isinstance(fields[5], Mapping) else {}
    format_ = fields[6] if len(fields) > 6 and isinstance(fields[6], list) else []
    known = sorted((read_index(index) for index in indexes), key=lambda index: index.id)
    primary = next((index for index in known if index.id == 0), None)
    kind = str(options.get("type", "normal")).lower()
    return SpaceFacts(
        id=int(fields[0]),
        name=name,
        fields=_all_fields(tuple(_read_field(field, number) for number, field in enumerate(format_)), known),
        key_fields=_key_fields(primary) if primary is not None else (),
        engine=str(fields[3]) if len(fields) > 3 else "memtx",
        is_local=options.get("group_id", 0) == 1,
        field_count=fields[4] if len(fields) > 4 and isinstance(fields[4], int) else 0,
        is_temporary=bool(options.get("temporary")) or kind != "normal",
        is_sync=bool(options.get("is_sync")),
        indexes=tuple(known),
    )


def read_index(packed: bytes) -> IndexFacts:
    """A tuple of `_index`, also in the flat shape of 1.6: …, unique, count of parts, field, type, field, type, …"""
    fields = unpack(packed)
    options: Any = fields[4] if len(fields) > 4 else {}
    if isinstance(options, Mapping):
        unique = bool(options.get("unique", True))
        parts = tuple(_read_part(part) for part in (fields[5] if len(fields) > 5 else []))
    else:
        unique = bool(options)
        flat = fields[6:]
        parts = tuple(PartFacts(int(flat[at]), _type(flat[at + 1])) for at in range(0, len(flat) - 1, 2))
    return IndexFacts(int(fields[1]), str(fields[2]), str(fields[3]).lower(), unique, parts)


def _read_part(part: Any) -> PartFacts:
    if isinstance(part, Mapping):
        path, collation = part.get("path"), part.get("collation")
        return PartFacts(
            int(part.get("field", 0)),
            _type(part.get("type", "any")),
            None if path is None else str(path),
            collation if isinstance(collation, int) else None,
        )
    return PartFacts(int(part[0]), _type(part[1] if len(part) > 1 else "any"))


def _read_field(field: Any, number: int) -> FieldFacts:
    if not isinstance(field, Mapping):
        return FieldFacts(f"field_{number + 1}", "any")
    nullable = field.get("is_nullable", field.get("nullable_action", "default") == "none")
    scale = field.get("scale", 0)
    name = _text(field.get("name", f"field_{number + 1}"))
    return FieldFacts(name, _type(field.get("type", "any")), bool(nullable), scale if isinstance(scale, int) else 0)


def _all_fields(named: tuple[FieldFacts, ...], indexes: Iterable[IndexFacts]) -> tuple[FieldFacts, ...]:
    """With those that only an index speaks of. A field of type `any` takes the type of the first index over it, as
    the format of tuples does (tuple_format_use_key_part)."""
    fields = list(named)
    for part in (part for index in indexes for part in index.parts if part.path is None):
        while len(fields) <= part.field:
            fields.append(FieldFacts(f"field_{len(fields) + 1}", "any"))
        if fields[part.field].type == "any":
            fields[part.field] = replace(fields[part.field], type=part.type)
    return tuple(fields)


def _key_fields(primary: IndexFacts) -> tuple[int, ...]:
    """Empty if a part lies inside a field."""
    if any(part.path is not None for part in primary.parts):
        return ()
    return tuple(part.field for part in primary.parts)


def _type(name: object) -> str:
    folded = _text(name).lower()
    return _OLD_TYPES.get(folded, folded)


def _text(value: object) -> str:
    """Names that are no UTF-8 are shown with replacement characters: Spark has no place for them."""
    text = value if isinstance(value, str) else str(value)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _space_name(packed: bytes) -> str:
    ends = mp_array_fields(packed)
    return _text(unpack(packed[ends[2] : ends[3]])) if len(ends) > 3 else ""


def _numbers(packed: bytes, count: int) -> list[int]:
    """The first fields of an array, which must be integers."""
    ends = mp_array_fields(packed)
    found = [unpack(packed[begin:end]) for begin, end in list(pairwise(ends))[:count]]
    if len(found) < count or not all(isinstance(number, int) for number in found):
        raise ValueError("the id of a space or index is not a number")
    return found


def _names_of(space_id: int) -> Mapping[str, int]:
    return _NAMES_OF_SPACE if space_id == system.SPACE else _NAMES_OF_INDEX


def _select(view: int) -> list[tuple[int, int]]:
    everything = 2
    return [(Key.SPACE_ID, view), (Key.INDEX_ID, 0), (Key.LIMIT, _PAGE), (Key.OFFSET, 0), (Key.ITERATOR, everything)]

"""Which rows of files a person wants to see or send: the options that `cat` and `play` share."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field

from headwater.errors import BoxError, HeadwaterError, MsgPackError
from headwater.kernels import mp_array_fields
from headwater.wire.constants import DML_TYPES, Type
from headwater.wire.msgpack import unpack
from headwater.wire.request import of_row
from headwater.wire.xrow import Row

SYSTEM_ID_MAX = 511
SPACE_SPACE = 280
"""`_space`: from its rows names are learnt."""
SYSTEM_NAMES = {
    257: "_vinyl_deferred_delete",
    272: "_schema",
    276: "_collation",
    280: "_space",
    284: "_sequence",
    285: "_sequence_data",
    288: "_index",
    296: "_func",
    304: "_user",
    312: "_priv",
    320: "_cluster",
    328: "_trigger",
    330: "_truncate",
    340: "_space_sequence",
    356: "_fk_constraint",
    364: "_ck_constraint",
    372: "_func_index",
    380: "_session_settings",
    388: "_gc_consumers",
    396: "_recovery_point",
}


class UsageError(HeadwaterError, ValueError):
    """An option that says nothing we can act on."""


@dataclass
class RowFilter:
    """As `tarantoolctl cat`: without `--space`, rows of system spaces are left out unless asked for."""

    spaces: frozenset[str] = frozenset()
    """Numbers and names. A name is known from the moment on when its row of `_space` was read."""
    replicas: frozenset[int] = frozenset()
    types: frozenset[int] = frozenset()
    from_lsn: int = 0
    to_lsn: int | None = None
    """Inclusive."""
    from_time: float = 0.0
    to_time: float | None = None
    """Exclusive."""
    show_system: bool = False
    names: dict[int, str] = field(default_factory=lambda: dict(SYSTEM_NAMES))

    def wants(self, row: Row) -> bool:
        """Call it for every row in the order of the file: it learns names on the way."""
        space_id = self._space_id(row)
        if self.replicas and row.replica_id not in self.replicas:
            return False
        if self.types and row.type not in self.types:
            return False
        if row.lsn < self.from_lsn or (self.to_lsn is not None and row.lsn > self.to_lsn):
            return False
        if row.timestamp < self.from_time or (self.to_time is not None and row.timestamp >= self.to_time):
            return False
        if not self.spaces:
            return self.show_system or space_id is None or space_id > SYSTEM_ID_MAX
        return space_id is not None and (str(space_id) in self.spaces or self.names.get(space_id) in self.spaces)

    def _space_id(self, row: Row) -> int | None:
        """The space that a row changes. A row that cannot be read has none: it is shown, not hidden."""
        if row.type not in DML_TYPES or not row.body:
            return None
        try:
            request = of_row(row)
        except BoxError:
            return None
        if request.space_id == SPACE_SPACE and request.tuple is not None and row.type != Type.UPDATE:
            self._learn(request.tuple)
        return request.space_id

    def _learn(self, tuple_: bytes) -> None:
        """Id and name are the first and the third field of `_space`."""
        try:
            offsets = mp_array_fields(tuple_)
            if len(offsets) > 3:
                id_, name = unpack(tuple_[offsets[0] : offsets[1]]), unpack(tuple_[offsets[2] : offsets[3]])
                if isinstance(id_, int) and isinstance(name, str):
                    self.names[id_] = name
        except MsgPackError:
            return


def make_filter(
    space: Iterable[str],
    replica: Iterable[int],
    type_: Iterable[str],
    from_lsn: int,
    to_lsn: int | None,
    from_time: str | None,
    to_time: str | None,
    show_system: bool,
) -> RowFilter:
    """From the options of a command; UsageError for a type or a time that is none."""
    return RowFilter(
        frozenset(space),
        frozenset(replica),
        frozenset(_type(name) for name in type_),
        from_lsn,
        to_lsn,
        parse_time(from_time) if from_time else 0.0,
        parse_time(to_time) if to_time else None,
        show_system,
    )


def _type(name: str) -> int:
    if name.isdigit():
        return int(name)
    wanted = name.upper()
    for code in (*DML_TYPES, Type.RAFT, Type.RAFT_PROMOTE, Type.RAFT_DEMOTE, Type.RAFT_CONFIRM, Type.RAFT_ROLLBACK):
        if wanted in (code.name, code.name.removeprefix("RAFT_")):
            return int(code)
    raise UsageError(f"'{name}' is no type of row: INSERT, REPLACE, UPDATE, DELETE, UPSERT, NOP, RAFT, CONFIRM, …")


def parse_time(text: str) -> float:
    """Seconds since 1970, or ISO 8601, which without a zone means UTC."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"'{text}' is no time: give seconds since 1970 or 2026-01-31T12:00:00") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()

"""A batch of rows: which are kept, and where each part of them goes."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from headwater.kernels.columnplan import RowError, Source, check_columns, check_fields, check_keys, next_parts
from headwater.kernels.pure import msgpack as mp
from headwater.kernels.pure.columns_rows import Body, Found, Head, check_range, next_row, read_body
from headwater.kernels.pure.columns_value import Column, put_packed, put_value
from headwater.kernels.pure.columns_variant import Variants
from headwater.typing import VCLOCK_MAX

_SIZE_MAX = (1 << 31) - 1
_MICROS_MAX = 9.2e18


class _Change(NamedTuple):
    """A row that changes a space."""

    body: Body
    space: str | None
    key: Sequence[int] | None
    """Fields of the primary key."""


class Columns:
    """The contract is in `_columns.pyi`."""

    def __init__(
        self,
        columns: Sequence[tuple[int, int, int, int]],
        names: Mapping[int, str],
        texts: Callable[[int, bytes], str],
        row_limit: int,
        byte_limit: int,
        utf8: int = 0,
        tagged: bool = False,
        strict: bool = True,
    ) -> None:
        if not 0 < row_limit < _SIZE_MAX or byte_limit < 1:
            raise ValueError("a batch has at least one row and one byte, and less than 2^31 rows")
        check_columns(columns)
        self._columns = [Column(*column) for column in columns]
        self._parts = [column for column in self._columns if column.source not in (Source.FIELD, Source.RESCUED)]
        self._fields = [column for column in self._columns if column.source == Source.FIELD]
        self._rescued = next((column for column in self._columns if column.source == Source.RESCUED), None)
        self._names = {int(code): name.encode() for code, name in names.items()}
        self._texts = texts
        self._row_limit = row_limit
        self._byte_limit = byte_limit
        self._utf8 = utf8
        self._variants = Variants(texts, utf8, tagged)
        self._strict = strict
        self._range: tuple[list[int], list[int]] | None = None
        self._times: tuple[float, float] | None = None
        self._types: frozenset[int] | None = None
        self._watched: frozenset[int] = frozenset()
        self._wanted: frozenset[int] | None = None
        self._spaces: Mapping[int, str] = {}
        self._keys: Mapping[int, Sequence[int]] = {}
        self._field_columns: Sequence[int] = ()
        self._field_names: Sequence[bytes] = ()
        self._next_parts: Sequence[int] = ()
        self._rescues: list[tuple[bytes, bytes]] = []
        self.rows = 0
        self.size = 0
        self.read = 0
        self.misfits = 0
        self.open = False
        self.skip = False
        self.watched = False

    # ---- what is wanted

    def set_range(self, low: Sequence[int], high: Sequence[int]) -> None:
        """Keep rows with low[replica_id] < lsn <= high[replica_id]."""
        if len(low) != VCLOCK_MAX or len(high) != VCLOCK_MAX:
            raise ValueError(f"{VCLOCK_MAX} numbers each")
        self._range = list(low), list(high)

    def set_times(self, begin: float, end: float) -> None:
        """Keep rows with begin <= timestamp < end."""
        self._times = begin, end

    def set_types(self, types: Sequence[int]) -> None:
        """Keep rows of these types."""
        for type in types:
            if not 0 <= type < 64:
                raise ValueError(f"type {type} is not below 64")
        self._types = frozenset(types)

    def set_watched(self, space_ids: Sequence[int]) -> None:
        """Stop before rows of these spaces."""
        self._watched = frozenset(space_ids)

    def set_spaces(
        self, names: Mapping[int, str], keys: Mapping[int, Sequence[int]], wanted: Sequence[int] | None
    ) -> None:
        """Names and keys of spaces, and of which spaces rows are kept."""
        check_keys(keys)
        self._spaces = dict(names)
        self._keys = {space_id: tuple(fields) for space_id, fields in keys.items()}
        self._wanted = None if wanted is None else frozenset(wanted)

    def set_fields(self, fields: Sequence[int], names: Sequence[str]) -> None:
        """The column of each field of the tuple, and its name."""
        check_fields(fields, names, [column.source == Source.FIELD for column in self._columns])
        kinds = [(column.kind if column.source == Source.FIELD else -1, column.a) for column in self._columns]
        self._next_parts = next_parts(kinds, fields)
        self._field_columns = tuple(fields)
        self._field_names = [name.encode() for name in names]

    # ---- reading

    def decode(
        self, rows: bytes, offset: int, pass_watched: bool = False, to_commit: bool = False, framed: bool = False
    ) -> int:
        """Read rows from `offset` on."""
        check_range(rows, offset, len(rows))
        self.watched = False
        while offset < len(rows) and self.rows < self._row_limit and self.size < self._byte_limit:
            found = next_row(rows, offset, len(rows), framed)
            if found is None:
                break
            change = self._change(rows, found)
            if change is not None and change.body.space_id in self._watched and not pass_watched:
                self.watched = True
                break
            pass_watched = False
            self._take_in(rows, found, change)
            offset = found.end
            if to_commit and found.head.is_last:
                break
        return offset

    def _change(self, data: bytes, found: Found) -> _Change | None:
        if not found.head.is_dml:
            return None
        body = read_body(data, found.body, found.head.type) if found.body >= 0 else None
        if body is None:
            raise RowError("can't parse row: no body of a change", found.at, found.head.lsn, end=found.end)
        return _Change(body, self._spaces.get(body.space_id), self._keys.get(body.space_id))

    def _take_in(self, data: bytes, found: Found, change: _Change | None) -> None:
        keep = not self.skip and self._wants(found.head, change)
        self.read += 1
        self.open = not found.head.is_last
        if found.head.is_last:
            self.skip = False
        if not keep:
            return
        try:
            self._add(data, found, change)
        except (ValueError, RowError) as error:
            self._leave_out()
            column = error.column if isinstance(error, RowError) else -1
            raise RowError(str(error), found.at, found.head.lsn, column, found.end) from None
        except BaseException:
            self._leave_out()
            raise

    def _leave_out(self) -> None:
        """Nothing of a row that was begun stays."""
        for column in self._columns:
            column.cut(self.rows)

    def _wants(self, head: Head, change: _Change | None) -> bool:
        if self._types is not None and head.type not in self._types:
            return False
        if self._wanted is not None and (change is None or change.body.space_id not in self._wanted):
            return False
        if self._range is not None:
            low, high = self._range
            if head.replica_id >= VCLOCK_MAX or not low[head.replica_id] < head.lsn <= high[head.replica_id]:
                return False
        return self._times is None or self._times[0] <= head.timestamp < self._times[1]

    # ---- parts of a row

    def _add(self, data: bytes, found: Found, change: _Change | None) -> None:
        if self._fields or self._rescued is not None:
            self._add_fields(data, change)
        for column in self._parts:
            packed = self._of_head(column.source, found.head)
            if packed is not None:
                column.add(packed)
            elif column.source in (Source.REQUEST, Source.BODY):
                self._add_body(column, data, found, change)
            elif change is not None:
                self._add_of_change(column, data, change)
            else:
                column.add_null()
        for at, column in enumerate(self._columns):
            if column.size > _SIZE_MAX:
                raise RowError("a batch of rows takes more than 2 GiB in one column", 0, 0, at)
        self.size = sum(column.size for column in self._columns)
        self.rows += 1

    def _of_head(self, source: int, head: Head) -> bytes | None:
        """None for what is absent, or is not in the header."""
        if source == Source.OP:
            return self._names.get(head.type) or str(head.type).encode()
        if source == Source.LSN:
            return struct.pack("<q", head.lsn)
        if source == Source.TSN:
            return struct.pack("<q", head.tsn)
        if source == Source.IS_COMMIT:
            return bytes((head.flags & 1,))
        if source == Source.TIMESTAMP:
            micros = head.timestamp * 1e6
            known = head.timestamp != 0 and not math.isnan(micros) and -_MICROS_MAX < micros < _MICROS_MAX
            return struct.pack("<q", round(micros)) if known else None
        number = {Source.REPLICA_ID: head.replica_id, Source.GROUP_ID: head.group_id, Source.FLAGS: head.flags}.get(
            Source(source)
        )
        return None if number is None else number.to_bytes(4, "little")

    def _add_body(self, column: Column, data: bytes, found: Found, change: _Change | None) -> None:
        if found.body < 0 or (column.source == Source.BODY and change is not None):
            column.add_null()
        elif column.source == Source.REQUEST:
            column.add(data[found.body : found.end])
        else:
            put_packed(column, data, found.body, self._variants)

    def _add_of_change(self, column: Column, data: bytes, change: _Change) -> None:
        """Columns that only a change of a space has."""
        body = change.body
        if column.source == Source.SPACE:
            column.add_null() if change.space is None else column.add(change.space.encode())
        elif column.source == Source.SPACE_ID:
            column.add_null() if body.space_id < 0 else column.add(body.space_id.to_bytes(4, "little"))
        elif column.source == Source.INDEX_ID:
            column.add(body.index_id.to_bytes(4, "little"))
        elif column.source == Source.INDEX_BASE:
            column.add_null() if body.index_base < 0 else column.add(body.index_base.to_bytes(4, "little"))
        elif column.source == Source.KEY and body.key < 0:
            self._add_key(column, data, change)
        else:
            at = {
                Source.KEY: body.key,
                Source.BEFORE: body.old,
                Source.AFTER: body.new if body.new >= 0 else body.tuple,
                Source.OPS: body.ops,
            }.get(Source(column.source), -1)
            column.add_null() if at < 0 else put_packed(column, data, at, self._variants)

    def _add_key(self, column: Column, data: bytes, change: _Change) -> None:
        """The fields of the primary key, as an array of their own."""
        at = change.body.tuple if change.body.tuple >= 0 else change.body.new
        if at < 0 or change.key is None:
            column.add_null()
            return
        offsets = mp.mp_array_fields(data, at)
        if max(change.key, default=-1) >= len(offsets) - 1:
            column.add_null()
            return
        parts = [data[offsets[field] : offsets[field + 1]] for field in change.key]
        put_packed(column, mp.array_header(len(parts)) + b"".join(parts), 0, self._variants)

    # ---- fields of a tuple

    def _add_fields(self, data: bytes, change: _Change | None) -> None:
        """Each to its column; where there is no tuple, those of the key."""
        self._rescues = []
        done: set[int] = set()
        for field, at in self._fields_of(data, change):
            column = self._field_columns[field] if field < len(self._field_columns) else -1
            if column >= 0 and column not in done:
                done.update(self._put(column, field, data, at))
            elif column < 0 and self._rescued is not None and self._has_tuple(change):
                self._rescue(field, data, at)
        for number, column_ in enumerate(self._columns):
            if column_.source == Source.FIELD and number not in done:
                column_.add_null()
        if self._rescued is not None:
            self._add_rescued(self._rescued)

    @staticmethod
    def _tuple_at(change: _Change | None) -> int:
        if change is None:
            return -1
        return next((at for at in (change.body.new, change.body.tuple, change.body.old) if at >= 0), -1)

    def _has_tuple(self, change: _Change | None) -> bool:
        return self._tuple_at(change) >= 0

    def _fields_of(self, data: bytes, change: _Change | None) -> list[tuple[int, int]]:
        """(number of the field, offset of its value)"""
        at = self._tuple_at(change)
        if at >= 0:
            return list(enumerate(mp.mp_array_fields(data, at)[:-1]))
        if change is None or change.key is None or change.body.key < 0 or change.body.index_id:
            return []
        return list(zip(change.key, mp.mp_array_fields(data, change.body.key)[:-1], strict=False))

    def _put(self, number: int, field: int, data: bytes, at: int) -> list[int]:
        """Columns that the value went into: other parts of it too."""
        column = self._columns[number]
        if put_value(column, data, at, self._variants, self._texts, self._utf8):
            used = [number]
            while (number := self._next_parts[number]) >= 0:
                put_value(self._columns[number], data, at, self._variants, self._texts, self._utf8)
                used.append(number)
            return used
        self.misfits += 1
        if self._strict:
            raise RowError("a value has no place in its column", 0, 0, number)
        column.add_null()
        if self._rescued is not None:
            self._rescue(field, data, at)
        return [number]

    def _rescue(self, field: int, data: bytes, at: int) -> None:
        name = self._field_names[field] if field < len(self._field_names) else str(field + 1).encode()
        self._rescues.append((name, data[at : mp.mp_next(data, at)]))

    def _add_rescued(self, column: Column) -> None:
        if not self._rescues:
            column.add_null()
            return
        pairs = b"".join(b"\xdb" + len(name).to_bytes(4, "big") + name + value for name, value in self._rescues)
        packed = b"\xdf" + len(self._rescues).to_bytes(4, "big") + pairs
        column.add_variant(*self._variants.write(packed, 0))

    # ---- giving

    def take(self) -> tuple[int, list[tuple[int, bytes | None, list[bytes]]]]:
        """The rows gathered, as Arrow buffers; the batch is empty then."""
        rows = self.rows
        self.rows = self.size = 0
        return rows, [column.take() for column in self._columns]

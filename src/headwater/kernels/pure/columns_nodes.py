"""An Arrow array, value by value."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.kernels.packplan import (
    ANY_INTEGER,
    DEPTH_MAX,
    RANGES,
    WIDTHS,
    Fault,
    Form,
    PackColumn,
    PackError,
    check_column,
    how_of,
)

_U32 = (1 << 32) - 1
_SIGNED = frozenset((Form.INT8, Form.INT16, Form.INT32, Form.INT64, Form.TIMESTAMP, Form.DATE, Form.DECIMAL))


class Refused(Exception):  # noqa: N818 (it becomes a PackError once its place is known)
    """A value that does not fit."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


class Node:
    """One column; its buffers are as long as its length asks for."""

    def __init__(self, column: PackColumn, depth: int) -> None:
        self.how = how_of(column.kind, column.form)
        check_column(column)
        self.name = column.name
        self.kind = column.kind
        self.form = Form(column.form)
        self.a = column.a
        self.low, self.high = RANGES.get(column.kind, ANY_INTEGER)
        self.length = column.length
        self._offset = column.offset
        self._valid = None if column.validity is None else memoryview(column.validity).cast("B")
        buffers = [memoryview(b"" if buffer is None else buffer).cast("B") for buffer in column.buffers]
        self._fixed = buffers[0] if buffers else memoryview(b"")
        self._data = buffers[1] if len(buffers) > 1 else memoryview(b"")
        self._width = column.a if self.form is Form.FIXED_BINARY else WIDTHS.get(self.form, 0)
        self.children = nodes_of(column.children, depth + 1)

    def is_null(self, row: int) -> bool:
        at = self._offset + row
        return self._valid is not None and not self._valid[at >> 3] >> (at & 7) & 1

    def bit(self, row: int) -> bool:
        at = self._offset + row
        return bool(self._fixed[at >> 3] >> (at & 7) & 1)

    def raw(self, row: int) -> bytes:
        """A value of fixed width."""
        at = (self._offset + row) * self._width
        return bytes(self._fixed[at : at + self._width])

    def whole(self, row: int) -> int:
        return int.from_bytes(self.raw(row), "little", signed=self.form in _SIGNED)

    def ends(self, row: int) -> tuple[int, int]:
        """Offsets of a value, as they stand."""
        at = (self._offset + row) * self._width
        pair = self._fixed[at : at + 2 * self._width]
        first, last = (
            int.from_bytes(pair[begin : begin + self._width], "little", signed=True) for begin in (0, self._width)
        )
        return first, last

    def blob(self, row: int) -> bytes:
        """Bytes of any length."""
        if self.form is Form.FIXED_BINARY:
            return self.raw(row)
        first, last = self.ends(row)
        if not 0 <= first <= last <= len(self._data) or last - first > _U32:
            raise Refused(Fault.OFFSETS)
        return bytes(self._data[first:last])


def nodes_of(columns: Sequence[PackColumn], depth: int = 0) -> list[Node]:
    """PackError for a column that cannot be written."""
    if depth > DEPTH_MAX:
        raise PackError(f"more than {DEPTH_MAX} columns inside one another")
    out: list[Node] = []
    for at, column in enumerate(columns):
        try:
            out.append(Node(column, depth))
        except ValueError as error:
            raise PackError(f"field {column.name!r}: {error}", -1, at if depth == 0 else -1) from None
        except PackError as error:
            if depth == 0:
                error.column = at
            raise
    return out

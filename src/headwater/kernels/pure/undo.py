"""One queue for the node: how to take back what is prepared and not yet written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from headwater.kernels.pure.space import MemtxSpace


class _Change(NamedTuple):
    space: MemtxSpace
    old: bytes | None
    new: bytes | None

    def rollback(self) -> None:
        self.space.unconfirmed -= 1
        self.space.revert(self.old, self.new)

    def confirm(self) -> None:
        self.space.unconfirmed -= 1


class _Calls(NamedTuple):
    back: Callable[[], None]
    forward: Callable[[], None] | None

    def rollback(self) -> None:
        self.back()

    def confirm(self) -> None:
        if self.forward is not None:
            self.forward()


class Undo:
    """Positions count records since the node started; rollback_to sets the end back."""

    def __init__(self) -> None:
        self._records: deque[_Change | _Calls] = deque()
        self._start = 0
        self.calls = 0
        """Records of calls among them."""

    @property
    def end(self) -> int:
        return self._start + len(self._records)

    def add_change(self, space: MemtxSpace, old: bytes | None, new: bytes | None) -> None:
        space.unconfirmed += 1
        self._records.append(_Change(space, old, new))

    def add_calls(self, rollback: Callable[[], None], confirm: Callable[[], None] | None) -> None:
        self._records.append(_Calls(rollback, confirm))
        self.calls += 1

    def rollback_to(self, position: int) -> None:
        if not self._start <= position <= self.end:
            raise ValueError(f"cannot roll back to {position}: records are there from {self._start} to {self.end}")
        while self.end > position:
            self._uncounted(self._records.pop()).rollback()

    def confirm_to(self, position: int) -> None:
        if position > self.end:
            raise ValueError(f"cannot confirm to {position}: records are there up to {self.end}")
        while self._start < position:
            self._start += 1
            self._uncounted(self._records.popleft()).confirm()

    def _uncounted(self, record: _Change | _Calls) -> _Change | _Calls:
        self.calls -= isinstance(record, _Calls)
        return record

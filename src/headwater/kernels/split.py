"""From logs to states: what rows say, and rows parted by primary key. Compiled where there was a compiler, plain Python
otherwise, by the same switch as `headwater.kernels`; both fulfil `_split.pyi`."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from headwater import kernels
from headwater.kernels.columnplan import RowError

__all__ = ["RowError", "Splitter", "Stop", "Survey", "compiled", "keys_of", "number", "tuples_of", "unframe"]


class Stop(IntEnum):
    """Why `Survey.walk` stopped."""

    END = 0
    BEYOND = 1
    WORD = 2


if TYPE_CHECKING:
    from headwater.kernels._split import Splitter, Survey, keys_of, number, tuples_of, unframe

    compiled: bool
elif not kernels.compiled:
    from headwater.kernels.pure.split import Splitter, Survey, keys_of, number, tuples_of, unframe

    compiled = False
else:
    try:
        from headwater.kernels._split import Splitter, Survey, keys_of, number, tuples_of, unframe

        compiled = True
    except ImportError:
        from headwater.kernels.pure.split import Splitter, Survey, keys_of, number, tuples_of, unframe

        compiled = False

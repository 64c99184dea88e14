"""From rows of files to Arrow buffers. Compiled where there was a compiler, plain Python otherwise, by the same switch
as `headwater.kernels`; both fulfil `_columns.pyi`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater import kernels
from headwater.kernels.columnplan import Kind, RowError, Source, Utf8

__all__ = ["Columns", "Kind", "RowError", "Source", "Utf8", "borders", "compiled", "pick", "plain_rows", "to_variant"]

if TYPE_CHECKING:
    from headwater.kernels._columns import Columns, borders, pick, plain_rows, to_variant

    compiled: bool
elif not kernels.compiled:
    from headwater.kernels.pure.columns import Columns, borders, pick, plain_rows, to_variant

    compiled = False
else:
    try:
        from headwater.kernels._columns import Columns, borders, pick, plain_rows, to_variant

        compiled = True
    except ImportError:
        from headwater.kernels.pure.columns import Columns, borders, pick, plain_rows, to_variant

        compiled = False

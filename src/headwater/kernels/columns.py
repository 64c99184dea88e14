"""Between rows and Arrow, both ways. Compiled where there was a compiler, plain Python otherwise, by the same switch as
`headwater.kernels`; both fulfil `_columns.pyi`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater import kernels
from headwater.kernels.columnplan import Kind, RowError, Source, Utf8
from headwater.kernels.packplan import Form, PackColumn, PackError

if TYPE_CHECKING:
    from headwater.kernels._columns import (
        Columns,
        borders,
        from_variant,
        hash_tuples,
        pack_requests,
        pack_rows,
        pack_tuples,
        pick,
        plain_rows,
        sum_tuples,
        to_variant,
        unframe,
    )

    compiled: bool
elif not kernels.compiled:
    from headwater.kernels.pure.columns import (
        Columns,
        borders,
        from_variant,
        hash_tuples,
        pack_requests,
        pack_rows,
        pack_tuples,
        pick,
        plain_rows,
        sum_tuples,
        to_variant,
        unframe,
    )

    compiled = False
else:
    try:
        from headwater.kernels._columns import (
            Columns,
            borders,
            from_variant,
            hash_tuples,
            pack_requests,
            pack_rows,
            pack_tuples,
            pick,
            plain_rows,
            sum_tuples,
            to_variant,
            unframe,
        )

        compiled = True
    except ImportError:
        from headwater.kernels.pure.columns import (
            Columns,
            borders,
            from_variant,
            hash_tuples,
            pack_requests,
            pack_rows,
            pack_tuples,
            pick,
            plain_rows,
            sum_tuples,
            to_variant,
            unframe,
        )

        compiled = False

__all__ = [
    "Columns",
    "Form",
    "Kind",
    "PackColumn",
    "PackError",
    "RowError",
    "Source",
    "Utf8",
    "borders",
    "compiled",
    "from_variant",
    "hash_tuples",
    "pack_requests",
    "pack_rows",
    "pack_tuples",
    "pick",
    "plain_rows",
    "sum_tuples",
    "to_variant",
    "unframe",
]

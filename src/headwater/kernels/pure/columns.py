"""Between rows and Arrow, in plain Python: the same names, signatures and answers as `_columns`, part by part in the
modules `columns_*`."""

from __future__ import annotations

from headwater.kernels.pure.columns_batch import Columns
from headwater.kernels.pure.columns_blocks import borders, plain_rows
from headwater.kernels.pure.columns_hash import hash_tuples, sum_tuples
from headwater.kernels.pure.columns_pack import pack_tuples
from headwater.kernels.pure.columns_rows import pick, unframe
from headwater.kernels.pure.columns_tuples import pack_requests, pack_rows
from headwater.kernels.pure.columns_unvariant import from_variant
from headwater.kernels.pure.columns_variant import to_variant

__all__ = [
    "Columns",
    "borders",
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

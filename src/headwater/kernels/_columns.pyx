# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: nonecheck=False, overflowcheck=False, binding=True
"""From blocks of files to Arrow buffers. The contract is `_columns.pyi`, the reasons are in docs/pipeline.md.

A row is checked once as MessagePack; everything behind that reads it without looking at its end again.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_GET_BUFFER
from cpython.ref cimport PyObject
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

from headwater.errors import MsgPackError
from headwater.kernels.columnplan import RowError, check_columns, check_fields, check_keys, next_parts
from headwater.kernels.packplan import (
    ANY_INTEGER, DEPTH_MAX, RANGES, WIDTHS, PackError, check_bits, check_column, check_requests, fault_text, how_of, tuple_fault,
)

__all__ = [
    "Columns", "borders", "from_variant", "hash_tuples", "pack_requests", "pack_rows", "pack_tuples", "pick", "plain_rows",
    "sum_tuples", "to_variant", "unframe",
]

include "crc32c.pxi"
include "mp.pxi"
include "ext.pxi"
include "columns_buffer.pxi"
include "columns_blocks.pxi"
include "columns_row.pxi"
include "columns_text.pxi"
include "columns_variant.pxi"
include "columns_value.pxi"
include "columns_wanted.pxi"
include "columns_batch.pxi"
include "columns_mpwrite.pxi"
include "columns_nodes.pxi"
include "columns_unvariant.pxi"
include "columns_pack.pxi"
include "columns_tuples.pxi"
include "columns_hash.pxi"

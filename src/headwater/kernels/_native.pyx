# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: nonecheck=False, overflowcheck=False, binding=True
"""The compiled kernels. The contract is `_native.pyi`, the reasons are in docs/index.md.

One translation unit, so that the compiler may inline across the parts; each part is a file of its own,
in the order in which one stands on the other.

C functions that can fail say so by their return value and leave it to the Python method above them to
raise; only functions that call Python (collations) leave an exception set. Memory that a change needs is
reserved before the first index is touched, so that a change never fails half way.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_Clear, PyErr_Occurred
from cpython.list cimport PyList_Append
from cpython.ref cimport PyObject, Py_XDECREF, Py_XINCREF
from libc.math cimport isnan
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

from headwater.errors import MsgPackError

__all__ = [
    "DuplicateKey", "FormatViolation", "Frames", "KeyDef", "KeyPart", "KeyViolation", "Memtx", "MemtxIndex", "MemtxSpace",
    "ReadView", "TupleFormat", "crc32c", "cut_frames", "frame_end", "frame_rows", "mp_array_fields", "mp_check_all", "mp_compare",
    "mp_next", "renumber_frames",
]

include "crc32c.pxi"
include "mp.pxi"
include "ext.pxi"
include "number.pxi"
include "compare.pxi"
include "types.pxi"
include "probe.pxi"
include "keydef.pxi"
include "format.pxi"
include "memory.pxi"
include "versions.pxi"
include "tree.pxi"
include "change.pxi"
include "cursor.pxi"
include "space.pxi"
include "spaces.pxi"
include "undo.pxi"
include "index.pxi"
include "heads.pxi"
include "view.pxi"
include "rows.pxi"
include "request.pxi"
include "frames.pxi"
include "renumber.pxi"
include "ahead.pxi"
include "run.pxi"
include "apply.pxi"
include "stream.pxi"
include "cut.pxi"
include "memtx.pxi"

"""The kernels in plain Python: the same names, signatures and answers as `_native`, for reading, for machines without
a compiler, and for the tests that hold both to one contract (`_native.pyi`)."""

from __future__ import annotations

from headwater.kernels.pure.checksum import crc32c
from headwater.kernels.pure.cut import cut_frames
from headwater.kernels.pure.fields import TupleFormat
from headwater.kernels.pure.frames import Frames, frame_rows
from headwater.kernels.pure.index import MemtxIndex
from headwater.kernels.pure.keys import KeyDef, KeyPart, mp_compare
from headwater.kernels.pure.memtx import Memtx
from headwater.kernels.pure.msgpack import frame_end, mp_array_fields, mp_check_all, mp_next
from headwater.kernels.pure.renumber import renumber_frames
from headwater.kernels.pure.space import MemtxSpace
from headwater.kernels.pure.view import ReadView
from headwater.kernels.pure.violations import DuplicateKey, FormatViolation, KeyViolation

__all__ = [
    "DuplicateKey",
    "FormatViolation",
    "Frames",
    "KeyDef",
    "KeyPart",
    "KeyViolation",
    "Memtx",
    "MemtxIndex",
    "MemtxSpace",
    "ReadView",
    "TupleFormat",
    "crc32c",
    "cut_frames",
    "frame_end",
    "frame_rows",
    "mp_array_fields",
    "mp_check_all",
    "mp_compare",
    "mp_next",
    "renumber_frames",
]

"""`.snap` and `.xlog` files as bytes.

Writing: `format_meta`, then `BlockEncoder.encode` for each batch, then `MAGIC_EOF`.
Reading: `Reader` gives blocks, `rows` the rows of a block, `scan` the files of a directory, `gaps` what is missing.
"""

from __future__ import annotations

from headwater.xlog.blocks import BlockDecoder, BlockEncoder, encode_blocks
from headwater.xlog.directory import Gap, LogFile, after, gaps, inprogress, scan
from headwater.xlog.format import (
    INPROGRESS,
    MAGIC_EOF,
    SNAP,
    XLOG,
    Meta,
    file_name,
    format_meta,
    parse_meta,
    parse_name,
)
from headwater.xlog.reader import Block, BytesFile, Damage, DamageKind, Reader, rows

__all__ = [
    "INPROGRESS",
    "MAGIC_EOF",
    "SNAP",
    "XLOG",
    "Block",
    "BlockDecoder",
    "BlockEncoder",
    "BytesFile",
    "Damage",
    "DamageKind",
    "Gap",
    "LogFile",
    "Meta",
    "Reader",
    "after",
    "encode_blocks",
    "file_name",
    "format_meta",
    "gaps",
    "inprogress",
    "parse_meta",
    "parse_name",
    "rows",
    "scan",
]

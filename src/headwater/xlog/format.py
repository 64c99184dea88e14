"""The text at the head of `.xlog` and `.snap` files, their names, and the numbers of the format
(xlog.c: xlog_meta_format, xlog_meta_parse, xdir_format_filename). docs/formats/xlog.md describes it for people."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from uuid import UUID

from headwater.errors import XlogError
from headwater.vclock import VClock, VClockError
from headwater.wire.constants import VERSION

MAGIC_PLAIN = b"\xd5\xba\x0b\xab"
MAGIC_ZSTD = b"\xd5\xba\x0b\xba"
MAGIC_EOF = b"\xd5\x10\xad\xed"
FIXHEADER_SIZE = 19
COMPRESS_THRESHOLD = 2 * 1024
"""XLOG_TX_COMPRESS_THRESHOLD: a block that is as long with its header is compressed."""
BLOCK_SIZE = 128 * 1024
"""XLOG_TX_AUTOCOMMIT_THRESHOLD: a block that has come to this length is written."""
CUT_APART = BLOCK_SIZE - FIXHEADER_SIZE
"""Bytes of rows with which a block has come to its length. Who knows ends of transactions that lie nearer to each other
need not tell them to a BlockEncoder: it would cut at the same places."""
BLOCK_DATA_MAX = 2 * 1024 * 1024 * 1024
"""IPROTO_BODY_LEN_MAX: a greater length in a block's header is not believed."""
META_SIZE_MAX = 1024 + 2 + 32 * 26
"""XLOG_META_LEN_MAX: the text head ends within so many bytes."""

XLOG = "XLOG"
SNAP = "SNAP"
INPROGRESS = ".inprogress"
_FORMAT_13 = "0.13"
_FORMATS = ("0.12", _FORMAT_13)
_INSTANCE_KEYS = ("Instance", "Server")
"""The second is that of 0.12."""
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TYPE_LENGTH_MAX = 9
_NAME = re.compile(r"([0-9]{1,20})\.([a-z]+)(\.inprogress)?")
_SIGNATURE_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Meta:
    """What a file says about itself."""

    filetype: str
    """XLOG, SNAP, or a type of the vinyl engine."""
    instance_uuid: UUID
    """Who wrote it."""
    vclock: VClock | None
    """State of the instance when the file was begun: its rows come after it (XLOG) or make it up (SNAP)."""
    prev_vclock: VClock | None = None
    """`vclock` of the file before it in the same directory; None in the first one and in snapshots."""
    version: str = "{}.{}.{}".format(*VERSION)
    """What follows `Version: `; not interpreted."""
    format: str = _FORMAT_13
    unknown: tuple[str, ...] = field(default=())
    """Names of items that we do not know."""

    @property
    def signature(self) -> int:
        """Sum of the vclock: the number in the file's name."""
        return self.vclock.signature if self.vclock is not None else -1


# ---- writing --------------------------------------------------------------------------------------


def format_meta(meta: Meta) -> bytes:
    lines = [meta.filetype, meta.format, f"Version: {meta.version}", f"Instance: {meta.instance_uuid}"]
    if meta.vclock is not None:
        lines.append(f"VClock: {meta.vclock}")
    if meta.prev_vclock is not None:
        lines.append(f"PrevVClock: {meta.prev_vclock}")
    return "\n".join((*lines, "", "")).encode()


def file_name(signature: int, filetype: str, *, inprogress: bool = False) -> str:
    """`00000000000000000042.xlog` for a vclock whose sum is 42."""
    return f"{signature:020}.{filetype.lower()}{INPROGRESS if inprogress else ''}"


# ---- reading --------------------------------------------------------------------------------------


def parse_name(name: str, filetype: str, *, inprogress: bool = False) -> int | None:
    """The signature in a file's name, None if it is no name of this type."""
    found = _NAME.fullmatch(name)
    if found is None or found[2] != filetype.lower() or bool(found[3]) != inprogress:
        return None
    signature = int(found[1])
    return signature if signature < _SIGNATURE_MAX else None


def parse_meta(data: bytes) -> tuple[Meta, int] | None:
    """The head of a file and the offset of its first block. None if the head is not complete in `data`; XlogError,
    without path and offset, in the words of xlog_meta_parse."""
    end = data.find(b"\n\n")
    if end < 0:
        return None
    lines = data[: end + 1].decode("utf-8", "backslashreplace").split("\n")[:-1]
    filetype, format_ = lines[0], lines[1] if len(lines) > 1 else ""
    if len(filetype) > _TYPE_LENGTH_MAX:
        raise XlogError("failed to parse xlog type string")
    if len(format_) >= 10 or not format_:
        raise XlogError("failed to parse xlog version string")
    if format_ not in _FORMATS:
        raise XlogError(f"unsupported file format version {format_}")
    return _parse_items(filetype, format_, lines[2:]), end + 2


def _parse_items(filetype: str, format_: str, lines: list[str]) -> Meta:
    items: dict[str, str] = {}
    unknown: list[str] = []
    for line in lines:
        key, colon, value = line.partition(":")
        if not colon:
            raise XlogError("can't extract meta value")
        if key in ("Version", "VClock", "PrevVClock"):
            items[key] = value.lstrip(" \t")
        elif key in _INSTANCE_KEYS:
            items["Instance"] = value.lstrip(" \t")
        else:
            unknown.append(key)
    instance = items.get("Instance", str(UUID(int=0)))
    if not _UUID.fullmatch(instance):
        raise XlogError("can't parse instance UUID")
    return Meta(
        filetype,
        UUID(instance),
        _parse_vclock(items.get("VClock")),
        _parse_vclock(items.get("PrevVClock")),
        items.get("Version", ""),
        format_,
        tuple(unknown),
    )


def _parse_vclock(text: str | None) -> VClock | None:
    if text is None:
        return None
    try:
        return VClock.parse(text)
    except VClockError as error:
        raise XlogError(str(error)) from None

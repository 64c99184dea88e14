"""What depends on the version of a peer: which rows and messages it can read (docs/formats/replication.md; relay.cc,
relay_filter_raft, relay_filter_row). A machine: bytes in, bytes out.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.kernels import frame_end
from headwater.wire.constants import SYNCHRO_TYPES, Type
from headwater.wire.mpread import read_uint
from headwater.wire.xrow import Row, decode_row, encode_packet


def version_id(major: int, minor: int, patch: int) -> int:
    return major << 16 | minor << 8 | patch


READS_TERMS = version_id(2, 6, 0)
"""RAFT messages are sent to peers from here on (box.cc, box_process_subscribe)."""
LAG_NEEDS_TIME = version_id(2, 8, 2)
"""Peers before this one reckon their lag from every packet, and take no time for the year 1970 (applier.cc,
applier_read_tx_row)."""
ECHOES_SYNC = version_id(2, 11, 0)
"""Heartbeats have a body from here on."""
LAST_WITHOUT_RETRY = version_id(2, 6, 0)
"""Peers up to this one stop for good when they are told that they subscribe too early."""
_QSYNC_SINCE = version_id(2, 5, 1)
_JOINS_WITH_QSYNC_SINCE = version_id(2, 7, 3)
_GLOBAL_RAFT_SINCE = version_id(3, 2, 2)
_NO_TERMS_BELOW = (2, 6, 2)
"""Where the schema is older, the set may hold members that know no terms: nothing about them goes out."""

SchemaVersion = tuple[int, int, int]


def takes_raft(version: int, schema: SchemaVersion, *, is_anon: bool) -> bool:
    return version >= READS_TERMS and not is_anon and schema >= _NO_TERMS_BELOW


def takes_meta(version: int, schema: SchemaVersion) -> bool:
    """Does a JOIN have the stage of meta data (relay.cc, relay_initial_join)?"""
    return version > 0 and schema >= _NO_TERMS_BELOW


def raft_group(version: int) -> int:
    """Until 3.2.1, and on the branch of 2.11 until 2.11.5, RAFT goes out as if it were a local row
    (relay_filter_raft)."""
    if version >= _GLOBAL_RAFT_SINCE or version_id(2, 11, 6) <= version < version_id(3, 0, 0):
        return 0
    return 1


def hidden_types(version: int, schema: SchemaVersion, *, in_join: bool = False) -> frozenset[int]:
    """Rows that the peer gets as NOP. `in_join`: in the last stage of a JOIN, where peers before 2.7.3 refuse CONFIRM
    and ROLLBACK; a JOIN does not tell their version, which is 0 then."""
    hidden: set[int] = set()
    if version < (_JOINS_WITH_QSYNC_SINCE if in_join else _QSYNC_SINCE):
        hidden |= SYNCHRO_TYPES
    if schema < _NO_TERMS_BELOW or not _reads(version, version_id(2, 6, 3), version_id(2, 7, 2)):
        hidden.add(Type.RAFT_PROMOTE)
    if schema < _NO_TERMS_BELOW or not _reads(version, version_id(2, 7, 3), version_id(2, 8, 2)):
        hidden.add(Type.RAFT_DEMOTE)
    return frozenset(hidden)


def _reads(version: int, older: int, newer: int) -> bool:
    """A feature that came with one release, and with an earlier one on the branch before it."""
    branch_end = (newer >> 8) << 8
    return version >= newer or older <= version < branch_end


def as_nop(row: Row) -> Row:
    """The number of a row without what it does."""
    return Row(Type.NOP, row.replica_id, 0, row.lsn, row.timestamp, row.tsn, row.flags, sync=row.sync)


def rewrite(data: bytes, types: frozenset[int], change: Callable[[Row], bytes]) -> bytes:
    """Packets one after another; those of some types become what `change` makes of them."""
    out: list[bytes] = []
    at = 0
    while at < len(data):
        begin = read_uint(data, at)[1]
        end = frame_end(data, at, len(data))
        row = decode_row(data, begin, end, exact=True)[0]
        out.append(change(row) if row.type in types else data[at:end])
        at = end
    return b"".join(out)


def hide(row: Row) -> bytes:
    return encode_packet(as_nop(row))

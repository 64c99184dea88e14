"""The rows of one transaction get their places in the journal (wal.c, wal_assign_lsn)."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.kernels import Memtx
from headwater.txn.base import RowDraft

GROUP_LOCAL = 1
_COMMIT = 1
"""IPROTO_FLAG_COMMIT"""
_WAITS = 2 | 4
"""IPROTO_FLAG_WAIT_SYNC, IPROTO_FLAG_WAIT_ACK"""


def write_rows(memtx: Memtx, drafts: Sequence[RowDraft]) -> None:
    """Rows of a peer come first, then our own, as txn.c txn_journal_entry_new orders them. All carry the LSN of the
    first row that is not local as the number of the transaction, or that of the first row if all are local."""
    if len(drafts) == 1:
        _add(memtx, drafts[0], 0, drafts[0].flags & _WAITS)
        return
    rows = sorted(drafts, key=lambda row: row.lsn == 0)
    tsn = _transaction_number(memtx, rows)
    waits = max(row.flags & _WAITS for row in rows)
    if any(row.group_id != GROUP_LOCAL for row in rows):
        _keep_apart(memtx, rows, tsn)
    for row in rows:
        _add(memtx, row, tsn, _COMMIT | waits if row is rows[-1] else 0)


def _keep_apart(memtx: Memtx, rows: Sequence[RowDraft], tsn: int) -> None:
    """A last row whose LSN is the number of its transaction is written as if it were a transaction of its own
    (xrow.c, xrow_header_encode). Where it is a local row, and others come before it, that would be wrong: then an LSN
    of component 0 is left out."""
    count = sum(1 for row in rows if row.group_id == GROUP_LOCAL)
    if count and memtx.vclock[0] < tsn <= memtx.vclock[0] + count:
        while memtx.vclock[0] < tsn:
            memtx.next_lsn(0)


def _transaction_number(memtx: Memtx, rows: Sequence[RowDraft]) -> int:
    vclock = memtx.vclock
    for row in rows:
        if row.group_id != GROUP_LOCAL:
            return row.lsn or vclock[memtx.replica_id] + 1
    return vclock[0] + 1


def _add(memtx: Memtx, row: RowDraft, tsn: int, flags: int) -> None:
    if row.lsn:
        memtx.add_row(row.type, row.group_id, row.body, tsn, flags, row.replica_id, row.lsn, row.timestamp)
    else:
        memtx.add_row(row.type, row.group_id, row.body, tsn, flags)

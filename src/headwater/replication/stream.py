"""Transactions out of the rows that a master sends: whole, each row in its place (applier.cc, applier_read_tx,
set_next_tx_row, applier_parse_tx_row).

A machine: it is given packets one after another, and gives a transaction when its last row is there. A heartbeat and a
RAFT message are transactions of one row without an LSN. Beyond Tarantool, which trusts its peers here: rows of one
transaction must be of one origin and have growing LSNs, and a row of data must have an LSN and an origin.
"""

from __future__ import annotations

from uuid import UUID

from headwater.errors import BoxError, Er, er
from headwater.typing import VCLOCK_MAX
from headwater.wire.constants import DML_TYPES, SYNCHRO_TYPES, Type
from headwater.wire.replication import decode_error
from headwater.wire.xrow import Row

_WITHOUT_LSN = frozenset((Type.OK, Type.RAFT))
_KNOWN = (DML_TYPES | SYNCHRO_TYPES | _WITHOUT_LSN) - {Type.SELECT}


class Transactions:
    """The rows of one connection, gathered."""

    def __init__(self, replicaset_uuid: UUID) -> None:
        self._replicaset_uuid = replicaset_uuid
        self._rows: list[Row] = []
        """Of the transaction that is not whole yet."""

    @property
    def is_inside(self) -> bool:
        """Has a transaction begun that has not ended?"""
        return bool(self._rows)

    def take(self, row: Row) -> list[Row] | None:
        """The transaction that this row ends, None if there is more to come. BoxError for what no master may send; an
        error that it sent is raised as it is."""
        if row.is_error:
            raise decode_error(row)
        self._check(row)
        self._rows.append(row)
        if not row.is_commit:
            return None
        rows, self._rows = self._rows, []
        return rows

    def _check(self, row: Row) -> None:
        if not 0 <= row.replica_id < VCLOCK_MAX:
            raise er(Er.UNKNOWN_REPLICA, str(row.replica_id), str(self._replicaset_uuid))
        if self._rows:
            self._check_next(self._rows[0], self._rows[-1], row)
        elif row.lsn != row.tsn:
            raise _broken("Transaction id must be equal to LSN of the first row in the transaction.")
        if row.type not in _KNOWN:
            raise er(Er.UNKNOWN_REQUEST_TYPE, row.type)
        if row.lsn < 0 or (row.lsn == 0) != (row.type in _WITHOUT_LSN) or (row.lsn and not row.replica_id):
            raise _broken(f"row of type {row.type} with replica id {row.replica_id} and LSN {row.lsn}")
        if row.lsn == 0 and not row.is_commit:
            raise _broken(f"row of type {row.type} inside a transaction")

    @staticmethod
    def _check_next(first: Row, last: Row, row: Row) -> None:
        if row.tsn != first.tsn or row.lsn == 0:
            raise er(Er.UNSUPPORTED, "replication", "interleaving transactions")
        if row.replica_id != first.replica_id or row.lsn <= last.lsn:
            raise _broken(
                f"row {{{row.replica_id}: {row.lsn}}} after {{{last.replica_id}: {last.lsn}}} in one transaction"
            )
        if row.type in SYNCHRO_TYPES or first.type in SYNCHRO_TYPES:
            raise _broken(f"row of type {row.type} inside a transaction")


def unseen(rows: list[Row], lsn: int) -> list[Row]:
    """What of a transaction is new where rows up to `lsn` of its origin are known: mostly all or nothing. A part of it
    is known if it came from a peer that does not know where transactions end (applier_apply_tx)."""
    return [row for row in rows if row.lsn > lsn]


def _broken(words: str) -> BoxError:
    return er(Er.PROTOCOL, words)

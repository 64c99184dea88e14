"""Transactions: isolation, undo, what one commit means for the others. docs/transactions.md tells the rules."""

from headwater.txn.base import Change, RowDraft, SpaceLike, Transaction
from headwater.txn.direct import DirectTxn
from headwater.txn.interactive import InteractiveTxn, Status
from headwater.txn.isolation import Isolation, default_isolation, isolation_of
from headwater.txn.manager import Txns

__all__ = [
    "Change",
    "DirectTxn",
    "InteractiveTxn",
    "Isolation",
    "RowDraft",
    "SpaceLike",
    "Status",
    "Transaction",
    "Txns",
    "default_isolation",
    "isolation_of",
]

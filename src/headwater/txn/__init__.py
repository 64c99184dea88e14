"""Transactions: isolation, undo, what one commit means for the others. docs/transactions.md tells the rules."""

from headwater.txn.base import Change, RowDraft, Transaction
from headwater.txn.direct import DirectTxn
from headwater.txn.interactive import InteractiveTxn, Status
from headwater.txn.isolation import Isolation, isolation_of
from headwater.txn.manager import Txns

__all__ = [
    "Change",
    "DirectTxn",
    "InteractiveTxn",
    "Isolation",
    "RowDraft",
    "Status",
    "Transaction",
    "Txns",
    "isolation_of",
]

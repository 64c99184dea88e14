"""What a transaction may see of other transactions' work (txn.h, enum txn_isolation_level).

docs/transactions.md says in words what each level sees.
"""

from __future__ import annotations

from enum import IntEnum

from headwater.errors import IllegalParams


class Isolation(IntEnum):
    """The numbers are the wire's (IPROTO_TXN_ISOLATION)."""

    DEFAULT = 0
    """Whatever the option `txn_isolation` says."""
    READ_COMMITTED = 1
    """Everything prepared, at once, written to the journal or not."""
    READ_CONFIRMED = 2
    """Only what is confirmed, without waiting for what is not."""
    BEST_EFFORT = 3
    """Everything prepared, but the answer waits until it is confirmed."""
    LINEARIZABLE = 4
    """What any node of the replica set has confirmed."""


def isolation_of(level: int) -> Isolation:
    """The level of a BEGIN (txn.c, box_txn_set_isolation)."""
    try:
        return Isolation(level)
    except ValueError:
        raise IllegalParams("unknown isolation level") from None

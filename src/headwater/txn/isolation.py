"""What a transaction may see of other transactions' work (txn.h, enum txn_isolation_level).

docs/transactions.md says in words what each level sees.
"""

from __future__ import annotations

from enum import IntEnum

from headwater.errors import Er, IllegalParams, er


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

    @property
    def alias(self) -> str:
        """As people write it in `box.cfg` and `box.begin`: read-committed."""
        return self.name.lower().replace("_", "-")


def isolation_of(level: int) -> Isolation:
    """The level of a BEGIN (txn.c, box_txn_set_isolation)."""
    try:
        return Isolation(level)
    except ValueError:
        raise IllegalParams("unknown isolation level") from None


def default_isolation(value: object) -> Isolation:
    """The value of the option `txn_isolation`: a number, a name or an alias (box.cc, box_check_txn_isolation)."""
    level = _by_name_or_number(value)
    if level is None:
        raise er(Er.CFG, "txn_isolation", "must be one of box.txn_isolation_level (keys or values)")
    if level in (Isolation.DEFAULT, Isolation.LINEARIZABLE):
        raise er(Er.CFG, "txn_isolation", f"cannot set default transaction isolation to '{level.alias}'")
    return level


def _by_name_or_number(value: object) -> Isolation | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return Isolation(value) if 0 <= value < len(Isolation) else None
    for level in Isolation:
        if value in (level.name, level.alias):
            return level
    return None

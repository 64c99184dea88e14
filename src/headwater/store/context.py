"""In whose name and from where a row of a system space comes, and what a trigger says about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from headwater.store.users import User

if TYPE_CHECKING:
    from headwater.store.space import Space


class Source(Enum):
    """Who brings a row. Rows are judged alike wherever they come from, but for what Tarantool lets pass when it
    cannot ask anybody any more."""

    CLIENT = "client"
    PEER = "peer"
    """The applier: the row is committed elsewhere."""
    SNAPSHOT = "snapshot"
    """A local snapshot, the rows of a new data directory, or the first stage of a join (INITIAL_RECOVERY)."""
    XLOG = "xlog"
    """Local journals, or the last stage of a join (FINAL_RECOVERY)."""
    BOOTSTRAP = "bootstrap"
    """What the first master of a set adds to the rows of a new data directory."""

    @property
    def is_recovery(self) -> bool:
        return self in (Source.SNAPSHOT, Source.XLOG)

    @property
    def is_checked(self) -> bool:
        """Do the rules hold that keep a client from breaking the dictionary (dd_check_is_disabled)?"""
        return self is Source.CLIENT


class Journal(Enum):
    """Where the row of a statement goes."""

    GLOBAL = "global"
    LOCAL = "local"
    """Group 1, not replicated: truncation of a local or data-temporary space (on_replace_dd_truncate)."""
    NOWHERE = "nowhere"
    """Definition of a temporary space (txn_stmt_mark_as_temporary)."""


@dataclass(frozen=True, slots=True)
class Context:
    """One statement on a system space."""

    user: User
    """The effective user; admin for every source but a client."""
    source: Source = Source.CLIENT
    is_first: bool = True
    """First statement of its transaction? Building an index over tuples and checking them against a new format are
    refused in later ones, because replicas apply transactions whole and refuse it (txn_check_singlestatement)."""
    check_writable: Callable[[], None] | None = None
    """Raises READONLY on a read-only instance. Requests on `_space`, `_index` and `_truncate` are let in on read-only
    instances, because temporary spaces may be made there; the triggers ask where it is another space."""


Replaced = Callable[["Space", bytes | None, bytes | None, Context], Journal | None]
"""on_replace: called after the tuples of the space have changed. Raising takes the statement back."""
BeforeReplace = Callable[["Space", bytes | None, bytes | None, Context], bytes | None]
"""before_replace: gives the new tuple, maybe another one (None: the tuple is removed)."""

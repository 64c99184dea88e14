"""Which error makes an applier try again, and which stops it until `box.cfg.replication` is set anew (applier.cc,
applier_f).

A machine: an error and the state in which it came give the next state. Errors of the connection and of the system pass;
refusals that may pass are tried again; everything else would come again with the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from headwater.errors import BoxError, Er, SocketError, TimedOut, system_words
from headwater.replication.states import ApplierState

_S = ApplierState

CLASSES: Mapping[str, ApplierState] = MappingProxyType(
    {
        "XlogGapError": _S.LOADING,
        "SocketError": _S.DISCONNECTED,
        "SystemError": _S.DISCONNECTED,
        "SSLError": _S.DISCONNECTED,
        "TimedOut": _S.DISCONNECTED,
        "OutOfMemory": _S.DISCONNECTED,
    }
)
"""By class: what is tried again, and the state meanwhile. A missing log file is ordinary while a set is being made: the
peer gets it from somebody else in time. Code 219 without its class is a ClientError like any other."""

CODES: Mapping[int, ApplierState] = MappingProxyType(
    {
        Er.LOADING: _S.LOADING,
        Er.TOO_EARLY_SUBSCRIBE: _S.LOADING,
        Er.SYNC_QUORUM_TIMEOUT: _S.LOADING,
        Er.SYNC_ROLLBACK: _S.LOADING,
        Er.WAL_IO: _S.LOADING,
        Er.CASCADE_ROLLBACK: _S.LOADING,
        Er.CFG: _S.LOADING,
        Er.ACCESS_DENIED: _S.LOADING,
        Er.NO_SUCH_USER: _S.LOADING,
        Er.CREDS_MISMATCH: _S.LOADING,
        Er.SYSTEM: _S.DISCONNECTED,
        Er.SSL: _S.DISCONNECTED,
        Er.NIL_UUID: _S.DISCONNECTED,
    }
)
"""By code, for errors of the class ClientError and its kin. Beyond Tarantool: a master that cannot write now, a row of
`_cluster` or where its replica is, may be able to the next time."""

READONLY_FOR_GOOD = ("config", "synchro", "election", None)
"""Reasons of READONLY that pass only when somebody does something (`box.info.ro_reason`); no reason is told by masters
before 2.10. An orphan, or a node that waits for its own rows, is soon none any more: Tarantool gives up there, too."""

WORDS: Mapping[ApplierState, str] = MappingProxyType(
    {
        _S.CONNECT: "can't connect to master",
        _S.CONNECTED: "can't join/subscribe",
        _S.READY: "can't join/subscribe",
        _S.AUTH: "failed to authenticate",
        _S.SYNC: "can't read row",
        _S.FOLLOW: "can't read row",
        _S.WAIT_SNAPSHOT: "can't read row",
        _S.FETCH_SNAPSHOT: "can't read row",
        _S.FINAL_JOIN: "can't read row",
    }
)
"""What the log says of an error, by the state in which it came (applier_log_error)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of an applier."""

    state: ApplierState
    retries: bool


def judge(error: BoxError, state: ApplierState, *, has_rows: bool = False) -> Verdict:
    """The verdict on an error that came in `state`. `has_rows`: some of a snapshot is in the store; a part of it must
    not be taken for the whole."""
    if state is _S.FETCH_SNAPSHOT and has_rows:
        return Verdict(_S.STOPPED, retries=False)
    after = CLASSES.get(error.type_name) or CODES.get(error.code)
    if error.code == Er.READONLY and error.fields.get("reason") not in READONLY_FOR_GOOD:
        after = _S.LOADING
    if after is None or (error.code == Er.XLOG_GAP and error.type_name != "XlogGapError"):
        return Verdict(_S.STOPPED, retries=False)
    return Verdict(after, retries=True)


def as_box_error(error: OSError, peer: str) -> BoxError:
    """An error of a socket, or its end, as box.info shows it."""
    if isinstance(error, TimeoutError) and error.errno is None:
        return TimedOut()
    return SocketError(f"{system_words(error)}, peer {peer}", errno=0)

"""The states of an applier and the legal moves between them (applier.h, enum applier_state; seed 000).

`box.info.replication[n].upstream.status` shows the value.
"""

from __future__ import annotations

from enum import Enum


class ApplierState(Enum):
    """Where an applier is."""

    OFF = "off"
    """It is not started, was stopped, or has found that the peer is this very node."""
    CONNECT = "connect"
    """The connection is being made; the greeting is awaited."""
    CONNECTED = "connected"
    """Greeting and ballot are there."""
    AUTH = "auth"
    """The password is being checked."""
    READY = "ready"
    """Logged in; nothing is asked yet."""
    WAIT_SNAPSHOT = "wait_snapshot"
    """JOIN or FETCH_SNAPSHOT is asked; the first answer is awaited."""
    FETCH_SNAPSHOT = "fetch_snapshot"
    """Rows of the snapshot are coming."""
    FETCHED_SNAPSHOT = "fetched_snapshot"
    """An anonymous node has all of it."""
    REGISTER = "register"
    """An anonymous node has asked for an id."""
    REGISTERED = "registered"
    FINAL_JOIN = "final_join"
    """Rows since the snapshot are coming."""
    JOINED = "joined"
    SYNC = "sync"
    """Rows are coming; what was there at SUBSCRIBE has not all come yet."""
    FOLLOW = "follow"
    STOPPED = "stopped"
    """An error that no new connection mends; `message` tells it."""
    DISCONNECTED = "disconnected"
    """The connection is gone; it will be tried again."""
    LOADING = "loading"
    """The peer cannot serve us yet, or refuses for a reason that may pass; it will be tried again."""


_S = ApplierState
_BACK = {_S.OFF, _S.STOPPED, _S.DISCONNECTED, _S.LOADING}

MOVES: dict[ApplierState, set[ApplierState]] = {
    _S.OFF: {_S.CONNECT},
    _S.CONNECT: {_S.CONNECTED} | _BACK,
    _S.CONNECTED: {_S.AUTH, _S.READY} | _BACK,
    _S.AUTH: {_S.READY} | _BACK,
    _S.READY: {_S.WAIT_SNAPSHOT, _S.REGISTER, _S.SYNC} | _BACK,
    _S.WAIT_SNAPSHOT: {_S.FETCH_SNAPSHOT} | _BACK,
    _S.FETCH_SNAPSHOT: {_S.FETCHED_SNAPSHOT, _S.FINAL_JOIN} | _BACK,
    _S.FETCHED_SNAPSHOT: {_S.READY, _S.REGISTER} | _BACK,
    _S.REGISTER: {_S.REGISTERED} | _BACK,
    _S.REGISTERED: {_S.READY} | _BACK,
    _S.FINAL_JOIN: {_S.JOINED} | _BACK,
    _S.JOINED: {_S.READY} | _BACK,
    _S.SYNC: {_S.FOLLOW} | _BACK,
    _S.FOLLOW: _BACK,
    _S.STOPPED: {_S.OFF, _S.CONNECT},
    _S.DISCONNECTED: {_S.OFF, _S.CONNECT, _S.STOPPED},
    _S.LOADING: {_S.OFF, _S.CONNECT, _S.STOPPED},
}


class Mission(Enum):
    """What an applier that is connected shall do next."""

    HOLD = "hold"
    """Stay connected: it is being chosen who leads."""
    JOIN = "join"
    """Get everything: JOIN, or FETCH_SNAPSHOT where this node is anonymous. Then hold."""
    REGISTER = "register"
    """Ask for an id for this node, which was anonymous. Then hold."""
    FOLLOW = "follow"

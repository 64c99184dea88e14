"""Keys with values, and who wants to know when they change (watcher.c).

A watcher is told the value at once, and again only when it changed after the watcher said that it is done with the
last one (`ack`). Whoever is slow gets the newest value, never a queue of old ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from headwater.world import Tasks

Notify = Callable[[str, bytes | None], None]
"""Told the key and its value; None: it has none."""


class Watcher:
    """One interest in one key."""

    __slots__ = ("is_waiting", "node", "notify", "version")

    def __init__(self, node: _Node, notify: Notify) -> None:
        self.node: _Node | None = node
        """None once it was taken away."""
        self.notify = notify
        self.version = -1
        """Of the value that it was told last."""
        self.is_waiting = False
        """Done with the last value, or about to be told one."""


class _Node:
    __slots__ = ("idle", "key", "value", "version", "watchers")

    def __init__(self, key: str) -> None:
        self.key = key
        self.value: bytes | None = None
        self.version = 0
        self.watchers = 0
        self.idle: dict[Watcher, None] = {}
        """Watchers that wait for the next value, in the order in which they began to."""


class Watchers:
    """All keys of a node. Watchers are told in a later turn than the one that changed the value."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._nodes: dict[str, _Node] = {}
        self._pending: deque[Watcher] = deque()
        self._run_is_due = False

    def broadcast(self, key: str, value: bytes | None) -> None:
        """Set what watchers of `key` see, one MessagePack value, and tell those that wait."""
        node = self._node(key)
        node.value = value
        node.version += 1
        self._drop_unused(node)
        idle, node.idle = node.idle, {}
        for watcher in idle:
            self._schedule(watcher)

    def once(self, key: str) -> bytes | None:
        """The value, without waiting for another (box_watch_once)."""
        node = self._nodes.get(key)
        return None if node is None else node.value

    def watch(self, key: str, notify: Notify) -> Watcher:
        """It is told the value soon, and the next one after `ack`."""
        node = self._node(key)
        node.watchers += 1
        watcher = Watcher(node, notify)
        self._schedule(watcher)
        return watcher

    def ack(self, watcher: Watcher) -> None:
        """It is done with the last value."""
        node = watcher.node
        if node is None or watcher.is_waiting:
            return
        if watcher.version == node.version:
            watcher.is_waiting = True
            node.idle[watcher] = None
        else:
            self._schedule(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        node = watcher.node
        if node is not None:
            watcher.node = None
            node.watchers -= 1
            node.idle.pop(watcher, None)
            self._drop_unused(node)

    def _node(self, key: str) -> _Node:
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = _Node(key)
        return node

    def _drop_unused(self, node: _Node) -> None:
        if node.value is None and not node.watchers:
            self._nodes.pop(node.key, None)

    def _schedule(self, watcher: Watcher) -> None:
        watcher.is_waiting = True
        self._pending.append(watcher)
        if not self._run_is_due:
            self._run_is_due = True
            self._tasks.soon(self._run)

    def _run(self) -> None:
        self._run_is_due = False
        for _ in range(len(self._pending)):
            watcher = self._pending.popleft()
            node = watcher.node
            if node is not None:
                watcher.is_waiting = False
                watcher.version = node.version
                watcher.notify(node.key, node.value)

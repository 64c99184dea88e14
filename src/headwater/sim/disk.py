"""A disk that forgets.

A machine keeps a `Platter`; each process of it sees the platter through a `SimDisk`. What a process writes is
at once what everybody on the machine reads, as with a real page cache, but a power cut takes it back to what was
forced: file contents by `File.sync` (or a file opened with `sync`), names by `Disk.sync_dir`. Of what was
not forced, a power cut keeps none, all, a prefix torn at any byte, or any choice of 512-byte sectors, each as it
was at any moment since (so later bytes may be there while earlier ones are zeros); of unforced names likewise.
A sync that failed has lost its bytes for good: a later one that succeeds does not bring them back.

Milder than reality in this: a directory itself exists as soon as it is made.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from zlib import crc32

from headwater.sim.faults import Die, DiskOp, Fail, Faults, NoFaults
from headwater.sim.process import Crashed, Process

SECTOR = 512


@dataclass(frozen=True, slots=True)
class Write:
    offset: int
    data: bytes

    def apply(self, to: bytearray) -> None:
        if len(to) < self.offset:
            to.extend(bytes(self.offset - len(to)))
        to[self.offset : self.offset + len(self.data)] = self.data

    def sectors(self) -> range:
        """Offsets of the sectors it lies in."""
        return range(self.offset // SECTOR * SECTOR, self.offset + len(self.data), SECTOR)


@dataclass(frozen=True, slots=True)
class Cut:
    size: int

    def apply(self, to: bytearray) -> None:
        resize(to, self.size)

    def sectors(self) -> range:
        return range(0)


def resize(data: bytearray, size: int) -> None:
    if len(data) < size:
        data.extend(bytes(size - len(data)))
    del data[size:]


class Inode:
    """A file's bytes, whatever its name. A disk writes whole sectors, as the page cache has them."""

    def __init__(self) -> None:
        self.data = bytearray()
        """What a read gives now: the page cache."""
        self.durable = bytearray()
        """What survives a power cut for certain."""
        self.pending: list[Write | Cut] = []
        """Changes since the last sync, in order."""
        self._undo: list[tuple[int, bytes]] = []
        """For each of them the size before, and the bytes that it cut off."""

    def change(self, change: Write | Cut) -> None:
        kept = change.size if isinstance(change, Cut) else len(self.data)
        self._undo.append((len(self.data), bytes(self.data[kept:])))
        change.apply(self.data)
        self.pending.append(change)

    def _before(self) -> bytearray:
        """The page cache before what is pending. Other than `durable` where a sync has failed. Files only grow at
        their end here, so sizes and what was cut off are all it takes."""
        cache = bytearray(self.data)
        for size, removed in reversed(self._undo):
            resize(cache, size - len(removed))
            cache += removed
        return cache

    def sync(self) -> None:
        resize(self.durable, len(self.data))
        for change in self.pending:
            for start in change.sectors():
                self._force(start, self.data)
        self._settled()

    def sync_failed(self) -> None:
        """The system forgets that these bytes were ever to be written."""
        self._settled()

    def power_cut(self, dice: random.Random) -> None:
        if self.pending:
            mode = dice.choice(("none", "all", "torn", "sectors", "sectors"))
            if mode == "all":
                self.sync()
            elif mode == "torn":
                self._keep_torn(dice)
            elif mode == "sectors":
                self._keep_sectors(dice)
        self.data = bytearray(self.durable)
        self._settled()

    def _settled(self) -> None:
        self.pending.clear()
        self._undo.clear()

    def _force(self, start: int, cache: bytes | bytearray) -> None:
        """One sector of the page cache reaches the disk; the file does not change its size by that."""
        sector = cache[start : min(start + SECTOR, len(self.durable))]
        self.durable[start : start + len(sector)] = sector

    def _keep_torn(self, dice: random.Random) -> None:
        """The first changes, and a part of the one after them."""
        whole = dice.randrange(len(self.pending))
        kept: list[Write | Cut] = self.pending[:whole]
        last = self.pending[whole]
        if isinstance(last, Write):
            kept.append(Write(last.offset, last.data[: dice.randint(0, len(last.data))]))
        self.data = self._before()
        self._settled()
        for change in kept:
            self.change(change)
        self.sync()

    def _keep_sectors(self, dice: random.Random) -> None:
        """Each sector, and the size, is as it was after some change of its own choice."""
        cache = self._before()
        sizes = [len(self.durable)]
        versions: dict[int, list[bytes]] = {}
        for change in self.pending:
            change.apply(cache)
            sizes.append(len(cache))
            for start in change.sectors():
                versions.setdefault(start, []).append(bytes(cache[start : start + SECTOR]))
        resize(self.durable, dice.choice(sizes))
        for start in sorted(versions):
            choice = dice.randint(0, len(versions[start]))
            if choice:
                sector = versions[start][choice - 1][: max(0, len(self.durable) - start)]
                self.durable[start : start + len(sector)] = sector


@dataclass(frozen=True, slots=True)
class Rename:
    """A change of names, in one step. `old` alone: removed; `new` alone: created."""

    directory: str
    old: str | None
    new: str | None
    inode: Inode | None

    def apply(self, names: dict[str, Inode]) -> None:
        if self.old is not None:
            names.pop(self.old, None)
        if self.new is not None and self.inode is not None:
            names[self.new] = self.inode


class Platter:
    """What the machine's disk holds. It outlives processes and, in part, power."""

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        """Bytes that all files together may take; None is endless. May be changed while in use."""
        self.names: dict[str, Inode] = {}
        self.durable_names: dict[str, Inode] = {}
        self.pending: list[Rename] = []
        self.directories = {"/"}
        self.locks: dict[str, Process] = {}

    def used(self) -> int:
        return sum(len(inode.data) for inode in self.names.values())

    def free(self) -> int:
        return 1 << 60 if self.capacity is None else max(0, self.capacity - self.used())

    def rename(self, change: Rename) -> None:
        change.apply(self.names)
        self.pending.append(change)

    def sync_dir(self, directory: str) -> None:
        rest: list[Rename] = []
        for change in self.pending:
            if change.directory == directory:
                change.apply(self.durable_names)
            else:
                rest.append(change)
        self.pending = rest

    def power_cut(self, dice: random.Random) -> None:
        """Nothing may run while this happens."""
        mode = dice.choice(("none", "all", "torn", "any"))
        stop = dice.randint(0, len(self.pending))
        for number, change in enumerate(self.pending):
            if mode == "all" or (mode == "torn" and number < stop) or (mode == "any" and dice.random() < 0.5):
                change.apply(self.durable_names)
        self.pending.clear()
        self.locks.clear()
        self.names = {path: self.durable_names[path] for path in sorted(self.durable_names)}
        for inode in self.names.values():
            inode.power_cut(dice)
        self.durable_names = dict(self.names)


class SimFile:
    """`world.File` of one process."""

    def __init__(self, disk: SimDisk, path: str, inode: Inode, *, sync: bool, writable: bool) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._sync = sync
        self._writable = writable
        self._open = True

    def read_at(self, offset: int, size: int) -> bytes:
        self._check()
        self._disk.ask(DiskOp("read", self.path, size))
        return bytes(self._inode.data[offset : offset + size])

    def append(self, data: bytes | bytearray | memoryview) -> None:
        self._check()
        if not self._writable:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        self._disk.append(self._inode, self.path, bytes(data))
        if self._sync:
            self._inode.sync()

    def truncate(self, size: int) -> None:
        self._check()
        self._disk.ask(DiskOp("truncate", self.path))
        self._inode.change(Cut(size))

    def size(self) -> int:
        self._check()
        return len(self._inode.data)

    def sync(self) -> None:
        self._check()
        try:
            self._disk.ask(DiskOp("sync", self.path))
        except OSError:
            self._inode.sync_failed()
            raise
        self._inode.sync()

    def close(self) -> None:
        self._open = False

    def _check(self) -> None:
        self._disk.process.check()
        if not self._open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)


class SimDisk:
    """`world.Disk` of one process."""

    def __init__(
        self,
        platter: Platter,
        process: Process,
        faults: Faults | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self.process = process
        self.faults: Faults = faults or NoFaults()
        self._platter = platter
        self._note = note or (lambda what: None)

    def ask(self, op: DiskOp) -> None:
        """Does this call happen, fail, or kill? Returns if it happens."""
        verdict = self._verdict(op)
        if isinstance(verdict, Fail):
            raise OSError(verdict.errno, os.strerror(verdict.errno), op.path)
        if isinstance(verdict, Die):
            self._die()

    def append(self, inode: Inode, path: str, data: bytes) -> None:
        verdict = self._verdict(DiskOp("append", path, len(data)), f" crc {crc32(data):08x}")
        part = len(data) if verdict is None else verdict.part
        fits = min(part, self._platter.free())
        if fits:
            inode.change(Write(len(inode.data), data[:fits]))
        if isinstance(verdict, Die):
            self._die()
        if isinstance(verdict, Fail):
            raise OSError(verdict.errno, os.strerror(verdict.errno), path)
        if fits < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def open(self, path: str) -> SimFile:
        self.ask(DiskOp("open", path))
        return SimFile(self, path, self._find(path), sync=False, writable=False)

    def create(self, path: str, *, sync: bool = False, exclusive: bool = True) -> SimFile:
        self.ask(DiskOp("create", path))
        self._directory(os.path.dirname(path))
        inode = self._platter.names.get(path)
        if inode is None:
            if self._platter.free() == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            inode = Inode()
            self._platter.rename(Rename(os.path.dirname(path), None, path, inode))
        elif exclusive:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        else:
            inode.change(Cut(0))
        return SimFile(self, path, inode, sync=sync, writable=True)

    def reopen(self, path: str, *, sync: bool = False) -> SimFile:
        self.ask(DiskOp("reopen", path))
        return SimFile(self, path, self._find(path), sync=sync, writable=True)

    def rename(self, old: str, new: str) -> None:
        self.ask(DiskOp("rename", new))
        inode = self._find(old)
        self._directory(os.path.dirname(new))
        self._platter.rename(Rename(os.path.dirname(new), old, new, inode))

    def unlink(self, path: str) -> None:
        self.ask(DiskOp("unlink", path))
        self._find(path)
        self._platter.rename(Rename(os.path.dirname(path), path, None, None))

    def listdir(self, path: str) -> list[str]:
        self.ask(DiskOp("listdir", path))
        self._directory(path)
        inside = path.rstrip("/") + "/"
        names = [*self._platter.names, *self._platter.directories]
        found = {name[len(inside) :].split("/")[0] for name in names if name.startswith(inside) and name != inside}
        return sorted(found)

    def exists(self, path: str) -> bool:
        self.process.check()
        return path in self._platter.names or path in self._platter.directories

    def makedirs(self, path: str) -> None:
        self.process.check()
        while path not in ("", "/"):
            self._platter.directories.add(path)
            path = os.path.dirname(path)

    def sync_dir(self, path: str) -> None:
        self.ask(DiskOp("sync_dir", path))
        self._directory(path)
        self._platter.sync_dir(path)

    def lock(self, path: str) -> Callable[[], None]:
        self.process.check()
        holder = self._platter.locks.get(path)
        if holder is not None and holder.alive:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        self._platter.locks[path] = self.process
        return lambda: self._unlock(path)

    def free(self, path: str) -> int:
        self.process.check()
        return self._platter.free()

    def _unlock(self, path: str) -> None:
        if self._platter.locks.get(path) is self.process:
            del self._platter.locks[path]

    def _find(self, path: str) -> Inode:
        inode = self._platter.names.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return inode

    def _directory(self, path: str) -> None:
        if path not in self._platter.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def _verdict(self, op: DiskOp, words: str = "") -> Fail | Die | None:
        self.process.check()
        verdict = self.faults.on_disk(op)
        self._note(f"{op.name} {op.path} {op.size}{words}" + (f" -> {verdict}" if verdict else ""))
        return verdict

    def _die(self) -> None:
        self.process.kill()
        raise Crashed(self.process.name)

"""A network in user space: every node has a network namespace with one TUN device, and one thread here carries the
packets between them, later, twice, or not at all.

    with Network() as network:                     # skips the test where namespaces or TUN devices are denied
        cluster = network.cluster(directory, "hht")
        cluster.start()
        network.cut(cluster[0], cluster[1])        # one way: packets from the first to the second are lost
        network.heal()

Clients reach a node from inside its namespace, over its own loopback: faults are between nodes only.
"""

from __future__ import annotations

import abc
import ctypes
import errno
import fcntl
import heapq
import json
import os
import random
import selectors
import shutil
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import pytest
from tests.support.cluster import ADMIN_PASSWORD, PASSWORD, USER, Cluster, Node
from tests.support.headwater import HeadwaterServer
from tests.support.iproto import Connection

T = TypeVar("T")

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFMTU = 0x8914, 0x8916, 0x891C, 0x8922
IFF_UP = 1
MTU = 9000
QUEUE = 4 << 20
"""Bytes that may be under way on one link; more are lost, as a router loses them."""

_LIBC = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _in_thread(function: Callable[[], T]) -> T:
    """What a thread enters it leaves only by ending."""
    values: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            values.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return values[0]


class Namespace:
    """A network namespace with a loopback. It has no name: it goes with this process, however that ends."""

    def __init__(self, number: int) -> None:
        self.address = f"10.77.0.{number}"
        self.fd = _in_thread(self._make)

    def _make(self) -> int:
        _checked(_LIBC.unshare(CLONE_NEWNET))
        fd = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
                self._set_up(control)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _set_up(self, control: socket.socket) -> None:
        """In the namespace."""
        self._configure(control, b"lo", SIOCSIFFLAGS, struct.pack("H", IFF_UP))

    @staticmethod
    def _configure(control: socket.socket, name: bytes, request: int, value: bytes) -> None:
        fcntl.ioctl(control, request, struct.pack("16s24s", name, value))

    @property
    def path(self) -> str:
        """For nsenter, as long as this process lives."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    def run(self, function: Callable[[], T]) -> T:
        """In the namespace: a socket that is made there stays there."""

        def inside() -> T:
            _checked(_LIBC.setns(self.fd, CLONE_NEWNET))
            return function()

        return _in_thread(inside)

    def close(self) -> None:
        os.close(self.fd)


class LinkedNamespace(Namespace):
    """With a TUN device of which the other end is `tun`."""

    tun: int

    def _set_up(self, control: socket.socket) -> None:
        super()._set_up(control)
        self.tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.ioctl(self.tun, TUNSETIFF, struct.pack("16sH14x", b"link", IFF_TUN | IFF_NO_PI))
            self._configure(control, b"link", SIOCSIFADDR, _inet(self.address))
            self._configure(control, b"link", SIOCSIFNETMASK, _inet("255.255.255.0"))
            self._configure(control, b"link", SIOCSIFMTU, struct.pack("i", MTU))
            self._configure(control, b"link", SIOCSIFFLAGS, struct.pack("H", IFF_UP))
        except BaseException:
            os.close(self.tun)
            raise

    def close(self) -> None:
        os.close(self.tun)
        super().close()


def skip_if_denied(error: OSError) -> None:
    """Skips the test if it is for want of a right or of a device."""
    if error.errno in (errno.EPERM, errno.EACCES, errno.ENODEV, errno.ENOENT, errno.EBUSY):
        pytest.skip(f"network namespaces or TUN devices are denied here: {error}")


def _inet(address: str) -> bytes:
    return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))


@dataclass(slots=True)
class Link:
    """One direction between two nodes."""

    is_cut: bool = False
    delay: float = 0.0
    jitter: float = 0.0
    """Added to the delay, at most; packets overtake each other then."""
    loss: float = 0.0
    twice: float = 0.0
    """The share of packets that arrive twice."""
    carried: int = 0
    lost: int = 0
    under_way: int = field(default=0)


class Cuts(abc.ABC):
    """What tests ask of a network whose links can be cut, whatever carries the packets."""

    @abc.abstractmethod
    def join(self) -> Namespace:
        """One more namespace; the test is skipped where it is denied."""

    @abc.abstractmethod
    def cut(self, one: Node, other: Node) -> None:
        """One way: what the first sends does not arrive."""

    @abc.abstractmethod
    def heal(self) -> None:
        """Every link as good as new."""

    @abc.abstractmethod
    def close(self) -> None: ...

    def cluster(self, directory: Path, kinds: str, **arguments: object) -> NetworkCluster:
        return NetworkCluster(self, directory, kinds, **arguments)

    def part(self, one: Node, other: Node) -> None:
        """Both ways."""
        self.cut(one, other)
        self.cut(other, one)

    def isolate(self, node: Node) -> None:
        for other in node.cluster:
            if other is not node:
                self.part(node, other)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Network(Cuts):
    """All links, and the thread that carries."""

    def __init__(self, seed: int = 1) -> None:
        if not os.path.exists("/dev/net/tun") or shutil.which("nsenter") is None:
            pytest.skip("no /dev/net/tun or no nsenter here: no links that can be cut")
        self._chance = random.Random(seed)
        self._spaces: dict[bytes, LinkedNamespace] = {}
        self._links: dict[tuple[bytes, bytes], Link] = {}
        self._late: list[tuple[float, int, bytes]] = []
        self._number = 0
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = os.pipe()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._ended = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    # ---- who is on it

    def join(self) -> Namespace:
        try:
            space = LinkedNamespace(len(self._spaces) + 1)
        except OSError as error:
            skip_if_denied(error)
            raise
        with self._lock:
            self._spaces[socket.inet_aton(space.address)] = space
            self._selector.register(space.tun, selectors.EVENT_READ)
        os.write(self._woken, b"x")
        return space

    # ---- faults

    def link(self, one: Node, other: Node) -> Link:
        """From one to the other."""
        return self._link(socket.inet_aton(one.host), socket.inet_aton(other.host))

    def _link(self, source: bytes, target: bytes) -> Link:
        return self._links.setdefault((source, target), Link())

    def cut(self, one: Node, other: Node) -> None:
        self.link(one, other).is_cut = True

    def heal(self) -> None:
        for link in list(self._links.values()):
            link.is_cut, link.delay, link.jitter, link.loss, link.twice = False, 0.0, 0.0, 0.0, 0.0

    def trouble(self, cluster: Cluster, **properties: float) -> None:
        """The same on every link."""
        for one in cluster:
            for other in cluster:
                if one is not other:
                    link = self.link(one, other)
                    for name, value in properties.items():
                        setattr(link, name, value)

    # ---- carrying

    def _carry(self) -> None:
        try:
            while not self._ended:
                now = time.monotonic()
                while self._late and self._late[0][0] <= now:
                    self._deliver(heapq.heappop(self._late)[2])
                wait = self._late[0][0] - now if self._late else None
                for key, _ in self._selector.select(wait):
                    if key.fd == self._wake:
                        os.read(self._wake, 100)
                    else:
                        self._take(key.fd)
        except BaseException as error:
            self._error = error

    def _take(self, tun: int) -> None:
        for _ in range(64):
            try:
                packet = os.read(tun, 65536)
            except BlockingIOError:
                return
            if len(packet) < 20 or packet[0] >> 4 != 4:
                continue  # the kernel's own words in IPv6
            link = self._link(packet[12:16], packet[16:20])
            if link.is_cut or self._chance.random() < link.loss or link.under_way > QUEUE:
                link.lost += 1
                continue
            for _ in range(1 + (self._chance.random() < link.twice)):
                if link.delay or link.jitter:
                    due = time.monotonic() + link.delay + self._chance.random() * link.jitter
                    self._number += 1
                    link.under_way += len(packet)
                    heapq.heappush(self._late, (due, self._number, packet))
                else:
                    self._write(packet)

    def _deliver(self, packet: bytes) -> None:
        """Its time has come; a link that was cut meanwhile loses what is on it."""
        link = self._link(packet[12:16], packet[16:20])
        link.under_way -= len(packet)
        if link.is_cut:
            link.lost += 1
        else:
            self._write(packet)

    def _write(self, packet: bytes) -> None:
        space = self._spaces.get(packet[16:20])
        if space is None:
            return
        self._link(packet[12:16], packet[16:20]).carried += 1
        try:
            os.write(space.tun, packet)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EIO, errno.EINVAL):
                raise

    def close(self) -> None:
        self._ended = True
        os.write(self._woken, b"x")
        self._thread.join(10)
        self._selector.close()
        for space in self._spaces.values():
            space.close()
        os.close(self._wake)
        os.close(self._woken)
        if self._error is not None:
            raise self._error


CREDENTIALS = {
    "users": {
        "guest": {"roles": ["super"]},
        "admin": {"password": ADMIN_PASSWORD},
        USER: {"password": PASSWORD, "roles": ["replication"]},
    }
}
"""What a node on loopback gets by `--dev` and from the harness: beyond loopback that flag is refused."""


class NetworkCluster(Cluster):
    """Each node in a namespace of its own. The first one makes the set: it has the least UUID."""

    def __init__(self, network: Cuts, directory: Path, kinds: str, **arguments: object) -> None:
        self.network = network
        self._spaces: dict[str, Namespace] = {}
        super().__init__(directory, kinds, **arguments)  # type: ignore[arg-type]

    def add(self, kind: str, *masters: Node, **options: object) -> Node:
        space = self.network.join()
        node = super().add(kind, *masters, **options)
        node.host = space.address
        node.options["listen"] = f"{space.address}:{node.server.port}"
        node.options["instance_uuid"] = f"{len(self.nodes):08x}-7777-4000-8000-{random.getrandbits(48):012x}"
        node.server.wrapper = ["nsenter", f"--net={space.path}"]
        if isinstance(node.server, HeadwaterServer):
            node.server.dev = False
            if node is self.nodes[0]:
                node.options["config"] = self._credentials()
        self._spaces[space.address] = space
        return node

    def _credentials(self) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / "credentials.yaml"
        path.write_text(json.dumps({"credentials": CREDENTIALS}))
        return path

    @staticmethod
    def _bless(node: Node) -> None:
        """It was said in the configuration."""

    def connect(self, node: Node, timeout: float) -> Connection:
        return self.space_of(node).run(lambda: Connection(node.host, node.server.port, timeout))

    def space_of(self, node: Node) -> Namespace:
        return self._spaces[node.host]

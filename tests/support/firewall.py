"""A network that the kernel carries: a namespace for each node, a bridge between them, and `iptables … DROP` where a
link is cut.

    with Firewall() as network:                    # skips the test where namespaces or iptables are denied
        cluster = network.cluster(directory, "hth")
        cluster.start()
        network.cut(cluster[0], cluster[1])        # one way

No name is given to any namespace: nothing is left behind, however the test ends. Delay and loss are for `network`, in
user space, because few kernels at hand have netem.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest
from tests.support.cluster import Node
from tests.support.network import Cuts, Namespace, skip_if_denied

BRIDGE = "switch"


class Firewall(Cuts):
    """The bridge, and the rules."""

    def __init__(self) -> None:
        for command in ("ip", "iptables", "nsenter"):
            if shutil.which(command) is None:
                pytest.skip(f"no {command} here: no links that can be cut in the kernel")
        self._spaces: dict[str, Namespace] = {}
        self._middle = self._make(0)
        self._run_or_skip(self._middle, "ip", "link", "add", BRIDGE, "type", "bridge")
        self._run_or_skip(self._middle, "ip", "link", "set", BRIDGE, "up")

    @staticmethod
    def _make(number: int) -> Namespace:
        try:
            return Namespace(number)
        except OSError as error:
            skip_if_denied(error)
            raise

    @staticmethod
    def _run(space: Namespace, *command: str) -> None:
        subprocess.run(
            ["nsenter", f"--net={space.path}", *command], capture_output=True, text=True, check=True, timeout=20
        )

    def _run_or_skip(self, space: Namespace, *command: str) -> None:
        try:
            self._run(space, *command)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"{' '.join(command)} is denied here: {error.stderr.strip()}")

    def join(self) -> Namespace:
        number = len(self._spaces) + 1
        space = self._make(number)
        self._spaces[space.address] = space
        port = f"port{number}"
        add = ("ip", "link", "add", port, "type", "veth", "peer", "name", "link", "netns", space.path)
        self._run_or_skip(self._middle, *add)
        self._run(self._middle, "ip", "link", "set", port, "master", BRIDGE, "up")
        self._run(space, "ip", "address", "add", f"{space.address}/24", "dev", "link")
        self._run(space, "ip", "link", "set", "dev", "link", "up")
        self._run_or_skip(space, "iptables", "-w", "-L", "INPUT")
        return space

    def cut(self, one: Node, other: Node) -> None:
        """Where it would arrive."""
        self._run(self._spaces[other.host], "iptables", "-w", "-A", "INPUT", "-s", one.host, "-j", "DROP")

    def heal(self) -> None:
        for space in self._spaces.values():
            self._run(space, "iptables", "-w", "-F", "INPUT")

    def close(self) -> None:
        for space in (self._middle, *self._spaces.values()):
            space.close()

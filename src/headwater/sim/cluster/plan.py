"""A seed's plan: who is in the set, with which options, and what goes wrong when. Nothing is decided later.

Each seed switches on some kinds of faults only, so that one kind does not hide another.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from headwater.sim.cluster.faults import Fault, Kind

SECONDS = 60.0
"""How long things go wrong."""
STEPS = 24
PORT = 3301


def address(name: str) -> str:
    return f"{name}:{PORT}"


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One member, as it is started for the first time."""

    name: str
    options: Mapping[str, Any]
    starts_at: float = 0.0
    """Seconds after the set is whole; 0 for those that make it."""
    may_lose: bool = False
    """A power cut may take what it had acknowledged: wal_mode write."""

    @property
    def is_anon(self) -> bool:
        return bool(self.options.get("replication_anon"))

    @property
    def is_writable(self) -> bool:
        return not self.options.get("read_only")


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    nodes: tuple[NodePlan, ...]
    faults: tuple[Fault, ...]
    steps: int = STEPS
    """How much each writer does."""
    seconds: float = SECONDS
    topology: str = "mesh"
    early: tuple[Fault, ...] = field(default=())
    """What goes wrong while the set is being made; `at` is from the very beginning."""
    lateness: float = 0.0
    """Seconds by which all nodes may come late to what happens: their processor is busy."""
    moves: tuple[Fault, ...] = field(default=())
    """What belongs to the set itself: whom a member follows once others are there. At 0: before it is whole."""

    @property
    def names_differ(self) -> bool:
        """Does some node give replica ids of its own?"""
        return any(node.options.get("replica_ids") == "remap" for node in self.nodes)

    @property
    def founders(self) -> tuple[NodePlan, ...]:
        return tuple(node for node in self.nodes if not node.starts_at)

    def only(self, numbers: Iterable[int]) -> Plan:
        """With some of its faults. Early ones are numbered from -1 down."""
        wanted = set(numbers)
        faults = tuple(fault for number, fault in enumerate(self.faults) if number in wanted)
        early = tuple(fault for number, fault in enumerate(self.early) if -1 - number in wanted)
        return replace(self, faults=faults, early=early)

    @property
    def later(self) -> tuple[Fault, ...]:
        """Moves after the set was made."""
        return tuple(sorted((move for move in self.moves if move.at), key=lambda move: move.at))

    @property
    def numbers(self) -> list[int]:
        return [*(-1 - number for number in range(len(self.early))), *range(len(self.faults))]

    def lines(self) -> list[str]:
        out = [f"{node.name}{_when(node)}: {_words(node.options)}" for node in self.nodes]
        if self.lateness:
            out.append(f"always: a processor that is up to {1000 * self.lateness:g} ms late")
        out += [f"[{-1 - number}] while the set is made, {fault}" for number, fault in enumerate(self.early)]
        out += [f"always: {move}" for move in self.moves]
        return out + [f"[{number}] {fault}" for number, fault in enumerate(self.faults)]


def _when(node: NodePlan) -> str:
    return f", from {node.starts_at:.1f} s on" if node.starts_at else ""


def _words(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in options.items() if name not in ("listen", "memtx_dir"))


# ---- drawing ------------------------------------------------------------------------------------------


def draw_plan(seed: int, *, nodes: int = 3, steps: int = STEPS, plain: bool = False) -> Plan:
    """`plain`: every node with the same ordinary options, a full mesh."""
    dice = random.Random(f"{seed}/plan")
    topology = "mesh" if plain else dice.choice(("mesh", "mesh", "mesh", "ring", "star"))
    members = tuple(
        _with_uuid(node, random.Random(f"{seed}/{node.name}")) for node in _Members(dice, nodes, topology, plain).draw()
    )
    # Another stream: the same things go wrong, whatever the options are.
    dice = random.Random(f"{seed}/faults")
    faults = _Faults(dice, members, topology).draw()
    early = tuple(_early(dice, members))
    moves = tuple(_moves(dice, members, topology))
    if not plain:
        dice = random.Random(f"{seed}/remap")
        members = tuple(_remapped(dice, members, topology))
        faults = tuple(sorted([*faults, *_expulsions(dice, members, topology)], key=lambda fault: fault.at))
    dice = random.Random(f"{seed}/busy")
    lateness = 0.0 if plain else dice.choice((0.0, 0.0, 0.0, dice.choice((0.001, 0.01))))
    return Plan(seed, members, faults, steps, SECONDS, topology, early, lateness, moves)


def _with_uuid(node: NodePlan, dice: random.Random) -> NodePlan:
    """A member that dies between its registration and its first snapshot comes back without data, as somebody else if
    nobody says who it is; and `auto` joins nobody while a registered member is away. Then an operator would have to
    expel the one that it was."""
    if node.is_anon or node.options.get("bootstrap_strategy") == "legacy":
        return node
    return replace(node, options={**node.options, "instance_uuid": str(UUID(int=dice.getrandbits(128), version=4))})


class _Members:
    def __init__(self, dice: random.Random, count: int, topology: str, plain: bool) -> None:
        self.dice = dice
        self.plain = plain
        self.topology = topology
        self.names = [f"n{number}" for number in range(1, count + 1)]
        extras = 0 if plain or count < 3 else dice.choice((0, 0, 1, 1, 2)) if count > 3 else dice.choice((0, 0, 0, 1))
        self.voters = self.names[: count - extras]
        self.extras = self.names[count - extras :]
        self.late = [name for name in self.extras if dice.random() < 0.5]

    def draw(self) -> tuple[NodePlan, ...]:
        shared = self._shared()
        out = [self._node(name, shared) for name in self.voters]
        out += [self._late(name, shared) if name in self.late else self._anon(name, shared) for name in self.extras]
        return tuple(out)

    def _shared(self) -> dict[str, Any]:
        """What all must have in common."""
        if self.plain:
            return {"replication_timeout": 1, "replication_connect_timeout": 10}
        dice = self.dice
        return {
            "schema_version": dice.choice(("3.8.0", "3.8.0", "2.11.5", "2.3.1")),
            "replication_timeout": dice.choice((0.5, 1, 1, 2)),
            "replication_connect_timeout": dice.choice((3, 10, 30)),
        }

    def _node(self, name: str, shared: Mapping[str, Any]) -> NodePlan:
        # Who loses rows learns of that from those it follows: it must follow all of them.
        mode = "fsync" if self.topology != "mesh" or self.plain else self.dice.choice(("fsync", "fsync", "write"))
        options = {**self._base(name), **shared, "wal_mode": mode, "replication": self._peers(name)}
        if self.topology != "mesh":
            # `auto` wants to be told of every member.
            options["bootstrap_strategy"] = "legacy"
        if not self.plain:
            options |= draw_sizes(self.dice)
        return NodePlan(name, options, may_lose=mode == "write")

    def _late(self, name: str, shared: Mapping[str, Any]) -> NodePlan:
        plan = self._node(name, shared)
        # With `auto` it must be told of all that may be members when it comes.
        known = [*self.voters, *(each for each in self.extras if each in self.late)]
        options = {**plan.options, "wal_mode": "fsync", "replication": [address(each) for each in known]}
        return NodePlan(name, options, starts_at=self.dice.uniform(3.0, 30.0))

    def _anon(self, name: str, shared: Mapping[str, Any]) -> NodePlan:
        plan = self._node(name, shared)
        options = {**plan.options, "replication_anon": True, "read_only": True, "replication_anon_ttl": 5}
        options["replication"] = [address(voter) for voter in self.voters]
        late = self.dice.choice((0.0, self.dice.uniform(3.0, 30.0)))
        return NodePlan(name, options, starts_at=late, may_lose=plan.may_lose)

    @staticmethod
    def _base(name: str) -> dict[str, Any]:
        return {"listen": address(name), "memtx_dir": "/data", "wal_dir": "/data"}

    def _peers(self, name: str) -> list[str]:
        return peers_of(name, self.voters, self.topology)


def peers_of(name: str, voters: list[str], topology: str) -> list[str]:
    """Whom a member follows at first: everybody's rows reach everybody in each of these. Where members do not know the
    same addresses they would not choose the same leader; there the first one makes the set on its own."""
    if topology == "mesh":
        return [address(voter) for voter in voters]
    return [address(voters[0])]


def draw_sizes(dice: random.Random) -> dict[str, Any]:
    """Options that may be others in each life."""
    return {
        "wal_max_size": dice.choice((2_000, 20_000, 1 << 20)),
        "checkpoint_count": dice.choice((1, 1, 2)),
        "checkpoint_wal_threshold": dice.choice((4_000, 40_000, 10**18)),
        "replication_sync_lag": dice.choice((0.1, 10)),
        "replication_sync_timeout": dice.choice((0, 0, 5)),
    }


def _early(dice: random.Random, members: tuple[NodePlan, ...]) -> Iterable[Fault]:
    """In a few seeds a node is killed, or a way is cut, while the set is being made."""
    founders = [node.name for node in members if not node.starts_at]
    for _ in range(dice.choice((0, 0, 0, 1, 2))):
        kind = dice.choice((Kind.KILL, Kind.KILL, Kind.STOP, Kind.PART, Kind.RESET, Kind.DIE))
        node = dice.choice(founders)
        others = tuple(name for name in founders if name != node)
        at = dice.choice((dice.uniform(0.0, 0.3), dice.uniform(0.0, 3.0)))
        amount = 0.05 if kind is Kind.DIE else 0.0
        yield Fault(at, kind, (node,), others, dice.uniform(0.1, 3.0), amount)


def _remapped(dice: random.Random, members: tuple[NodePlan, ...], topology: str) -> Iterable[NodePlan]:
    """In a quarter of the seeds all nodes, or some, give replica ids of their own. These translate for a node that does
    not, if they follow it or it joined there: so newcomers and anonymous replicas of a mixed set remap, and all nodes
    of a ring."""
    which = dice.choice(("shared",) * 6 + ("all", "some"))
    for node in members:
        is_founder = not node.starts_at and not node.is_anon
        may_share = which == "some" and is_founder and topology != "ring"
        remaps = which != "shared" and not (may_share and dice.random() < 0.5)
        yield replace(node, options={**node.options, "replica_ids": "remap"}) if remaps else node


def _expulsions(dice: random.Random, members: tuple[NodePlan, ...], topology: str) -> Iterable[Fault]:
    """Members are taken out of a set in which everybody remaps, and come back."""
    names = [node.name for node in members[1:] if not node.is_anon]
    if topology != "mesh" or any(node.options.get("replica_ids") != "remap" for node in members):
        return
    for _ in range(dice.choice((0, 1, 1, 2))):
        at, seconds = dice.uniform(5.0, 50.0), dice.uniform(0.0, 10.0)
        yield Fault(at, Kind.EXPEL, (dice.choice(names),), seconds=seconds, amount=dice.choice((0.0, 1.0, 2.0)))


class _Faults:
    """Draws what goes wrong after the set was made."""

    def __init__(self, dice: random.Random, members: tuple[NodePlan, ...], topology: str) -> None:
        self.dice = dice
        self.members = {node.name: node for node in members}
        self.names = list(self.members)
        self.topology = topology
        self.kinds: dict[Kind, Callable[[float, Kind], Fault]] = {
            Kind.KILL: self._away,
            Kind.END: self._away,
            Kind.POWER_CUT: self._away,
            Kind.STOP: self._lasting,
            Kind.CUT: self._between,
            Kind.PART: self._between,
            Kind.RESET: self._between,
            Kind.DELAY: self._between,
            Kind.LOSS: self._between,
            Kind.NARROW: self._between,
            Kind.SLOW_DISK: self._lasting,
            Kind.FULL_DISK: self._lasting,
            Kind.EIO: self._lasting,
            Kind.SHORT: self._lasting,
            Kind.DIE: self._lasting,
            Kind.JUMP: self._lasting,
            Kind.DRIFT: self._lasting,
            Kind.CFG: self._cfg,
            Kind.UNFOLLOW: self._unfollow,
            Kind.SNAPSHOT: self._lasting,
        }
        self.lost: set[str] = set()
        """Members of wal_mode write whose power was cut: once is enough to know."""

    def draw(self) -> tuple[Fault, ...]:
        dice = self.dice
        kinds = [kind for kind in self.kinds if kind is not Kind.UNFOLLOW or self.topology == "mesh"]
        wanted = dice.sample(kinds, dice.randint(2, len(kinds)))
        times = sorted(dice.uniform(0.5, SECONDS - 1.0) for _ in range(dice.randint(4, 16)))
        out = [self.kinds[kind](at, kind) for at in times for kind in [dice.choice(wanted)]]
        return tuple(out)

    def _one(self) -> tuple[str, ...]:
        return (self.dice.choice(self.names),)

    def _away(self, at: float, kind: Kind) -> Fault:
        nodes = self._one()
        if kind is Kind.POWER_CUT and self.members[nodes[0]].may_lose:
            if nodes[0] in self.lost:
                kind = Kind.KILL
            self.lost.add(nodes[0])
        seconds = self.dice.choice((self.dice.uniform(0.0, 1.0), self.dice.uniform(0.0, 15.0)))
        plain = kind is not Kind.END or self.dice.random() < 0.5
        return Fault(at, kind, nodes, seconds=seconds, options={} if plain else draw_sizes(self.dice))

    def _between(self, at: float, kind: Kind) -> Fault:
        dice = self.dice
        names = list(self.names)
        dice.shuffle(names)
        place = dice.randint(1, len(names) - 1)
        nodes, others = sorted(names[:place]), sorted(names[place:])
        if dice.random() < 0.3:
            nodes, others = nodes[:1], others[:1]
        seconds = 0.0 if kind is Kind.RESET else dice.choice((dice.uniform(0.1, 2.0), dice.uniform(1.0, 25.0)))
        amount = {Kind.DELAY: (0.05, 0.5, 3.0), Kind.LOSS: (0.05, 0.3, 0.6), Kind.NARROW: (1e3, 1e4, 1e5)}
        return Fault(at, kind, tuple(nodes), tuple(others), seconds, dice.choice(amount.get(kind, (0.0,))))

    def _lasting(self, at: float, kind: Kind) -> Fault:
        dice = self.dice
        amounts: dict[Kind, tuple[float, ...]] = {
            Kind.SLOW_DISK: (10.0, 100.0, 1000.0),
            Kind.FULL_DISK: (0.0, 500.0, 5000.0),
            Kind.EIO: (0.02, 0.2, 1.0),
            Kind.SHORT: (0.05, 0.5),
            Kind.DIE: (0.01, 0.2),
            Kind.JUMP: (-3600.0, -10.0, 10.0, 3600.0),
            Kind.DRIFT: (0.3, 0.9, 1.1, 3.0),
        }
        seconds = 0.0 if kind is Kind.SNAPSHOT else dice.choice((dice.uniform(0.1, 2.0), dice.uniform(1.0, 15.0)))
        return Fault(at, kind, self._one(), (), seconds, dice.choice(amounts.get(kind, (0.0,))))

    def _cfg(self, at: float, kind: Kind) -> Fault:
        """An operator changes what may be changed while a node runs."""
        dice = self.dice
        node = self.members[dice.choice(self.names)]
        if node.is_writable and dice.random() < 0.4:
            return Fault(at, kind, (node.name,), seconds=dice.uniform(0.5, 10.0), options={"read_only": True})
        sizes = draw_sizes(dice)
        del sizes["wal_max_size"]
        return Fault(at, kind, (node.name,), options=sizes)

    def _unfollow(self, at: float, kind: Kind) -> Fault:
        """One fewer for a while: in a mesh those that are left bring its rows."""
        nodes = self._one()
        others = [node.name for node in self.members.values() if not node.is_anon and node.name not in nodes]
        return Fault(at, kind, nodes, (self.dice.choice(others),), self.dice.uniform(0.5, 10.0))


def _moves(dice: random.Random, members: tuple[NodePlan, ...], topology: str) -> Iterable[Fault]:
    """Star or ring, once the set is there; a late member is made known to the others; an anonymous one may become a
    member, if no late one needs to know of it."""
    voters = [node.name for node in members if not node.is_anon and not node.starts_at]
    late = [node for node in members if node.starts_at and not node.is_anon]
    if topology == "star":
        yield Fault(0.0, Kind.FOLLOW, (voters[0],), tuple(voters[1:]))
    if topology == "ring":
        for place, name in enumerate(voters):
            yield Fault(0.0, Kind.FOLLOW_ONLY, (name,), (voters[place - 1],))
    for node in late:
        others = tuple(other.name for other in members if other is not node and not other.is_anon)
        yield Fault(node.starts_at + 1.0, Kind.FOLLOW, others, (node.name,))
    for node in members:
        if node.is_anon and not late and dice.random() < 0.4:
            at = dice.uniform(node.starts_at + 5.0, SECONDS - 1.0)
            yield Fault(at, Kind.CFG, (node.name,), options={"replication_anon": False})

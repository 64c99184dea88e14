"""Who the instance is that starts on what was built.

By default it is the first member of a new replica set: under its old UUIDs it would join members that went on without
it, and give LSNs that they know a second meaning. To replace a member that was lost, with nothing behind the point or
with the others there to give it what is, it keeps them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from headwater.pipeline.errors import OptionError
from headwater.pipeline.restore.cut import QueueState
from headwater.pipeline.restore.system import SystemState
from headwater.store import system

_NAMES_OF_SET = ("replicaset_uuid", "cluster")
_FIRST_ID = 1


@dataclass(frozen=True, slots=True)
class Identity:
    """As the user wants it."""

    keep: bool = False
    """The UUIDs of the instance and its set stay, and so do the other members."""
    instance: UUID | None = None
    """Which UUID the instance has: any, or with `keep` that of a member."""
    replicaset: UUID | None = None
    """Of the new set."""


def take_on(state: SystemState, queue: QueueState, base: UUID, wish: Identity, draw: Callable[[], UUID]) -> UUID:
    """Change the system spaces accordingly. `base`: whose snapshot it was. The UUID of the instance."""
    if wish.keep:
        return _kept(state, base, wish)
    members = state.cluster()
    old_id = next((number for number, row in members.items() if row[1] == str(base)), None)
    own_id = old_id or min(members, default=_FIRST_ID)
    instance = wish.instance or draw()
    own = members.get(own_id, [own_id, ""])
    for number in members:
        state.remove(system.CLUSTER, [number])
    state.put(system.CLUSTER, [own_id, str(instance), *own[2:]])
    _new_set(state, wish.replicaset or draw())
    queue.vote = 0
    if queue.owner != own_id:
        queue.owner = 0
    return instance


def _kept(state: SystemState, base: UUID, wish: Identity) -> UUID:
    instance = wish.instance or base
    if wish.replicaset is not None:
        raise OptionError("--replicaset-uuid is for a new set; with --keep-identity the set keeps its own.")
    members = state.cluster()
    if str(instance) not in {row[1] for row in members.values()}:
        told = ", ".join(f"{number} = {row[1]}" for number, row in sorted(members.items()))
        raise OptionError(
            f"Instance {instance} is no member of the set at this point, so it cannot keep its identity. Members: "
            f"{told}. Choose one with --instance-uuid, or leave --keep-identity out."
        )
    return instance


def _new_set(state: SystemState, uuid: UUID) -> None:
    for name in _NAMES_OF_SET:
        row: list[Any] | None = state.schema(name)
        if row is not None:
            state.put(system.SCHEMA, [name, str(uuid), *row[2:]])
    state.remove(system.SCHEMA, ["bootstrap_leader_uuid"])
    for space_id in (system.GC_CONSUMERS, system.REPLICA_IDS):
        state.tuples.pop(space_id, None)

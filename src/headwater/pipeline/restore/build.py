"""A restore from beginning to end: what is known of the point, then its rows, then the directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

from headwater.pipeline.restore.cut import QueueState
from headwater.pipeline.restore.errors import Unfit
from headwater.pipeline.restore.identity import Identity, take_on
from headwater.pipeline.restore.material import Material, gather
from headwater.pipeline.restore.plan import Target
from headwater.pipeline.restore.reduce import Reduced
from headwater.pipeline.restore.runner import Runner
from headwater.pipeline.restore.safety import check_safety
from headwater.pipeline.restore.sources import scan
from headwater.pipeline.restore.staging import Staging
from headwater.pipeline.restore.states import States
from headwater.pipeline.restore.system import SystemState
from headwater.pipeline.restore.write import Fragment, WriteTask, assemble, encode_rows, write
from headwater.store import system
from headwater.vclock import VClock
from headwater.wire.constants import Type
from headwater.wire.msgpack import unpack
from headwater.wire.synchro import RaftMessage, Synchro, encode_raft, encode_synchro
from headwater.wire.xrow import Row
from headwater.xlog import SNAP, file_name

FOREIGN_ENGINES = frozenset(("vinyl", "memcs", "quiver"))
"""Their data do not lie in snapshots and logs."""
RAFT_SINCE = (2, 6, 2)
"""System spaces from before cannot read rows of elections and of the queue (box/picture.py)."""
_SNAPSHOT = "whole.snap"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for."""

    sources: tuple[str, ...]
    target: Target
    to: str
    identity: Identity = field(default_factory=Identity)
    allow_unsafe: bool = False
    lake: Path | None = None
    """In place of `sources`."""
    replicaset: str = ""
    """Of the lake; empty where it has one."""


@dataclass(frozen=True, slots=True)
class Built:
    """What there is now."""

    path: Path
    vclock: VClock
    instance: UUID
    replicaset: str | None
    rows: int
    size: int
    spaces: Mapping[str, int]
    notes: Sequence[str]
    seconds: float


Say = Callable[[str], None]


def restore(runner: Runner, wish: Wish, say: Say = lambda words: None) -> Built:
    """PipelineError and its kin for whatever stands in the way; then nothing is left in the target."""
    began = time.monotonic()
    staging = Staging(wish.to)
    with staging.open():
        material = _material(runner, wish, staging)
        for line in told(material):
            say(line)
        return build(runner, material, wish.identity, staging, began)


def preflight(wish: Wish) -> None:
    """What can be refused before anything is started."""
    Staging(wish.to).check()
    if wish.sources:
        scan(wish.sources)


@contextmanager
def planned(runner: Runner, wish: Wish) -> Iterator[Material]:
    """As `restore`, as far as nothing is written that stays."""
    staging = Staging(wish.to)
    with staging.open():
        yield _material(runner, wish, staging)


def _material(runner: Runner, wish: Wish, staging: Staging) -> Material:
    sources = wish.sources
    if wish.lake is not None:
        from headwater.pipeline.restore.lake import spool_lake

        sources = (spool_lake(runner, wish.lake, wish.replicaset, wish.target, staging),)
    material = gather(runner, scan(sources), wish.target)
    refuse_foreign(material.state)
    check_safety(runner, material, wish.identity, allowed=wish.allow_unsafe)
    return material


def told(material: Material) -> Iterator[str]:
    """The plan, for people."""
    base = material.base
    yield f"from the snapshot {base.file.path}, {base.file.vclock}"
    files = dict.fromkeys(part.task.path for part in material.parts)
    rows = sum(part.facts.kept for part in material.parts)
    if files:
        first, last = next(iter(files)), next(reversed(files))
        names = first if first == last else f"{first} … {last} ({len(files)} files)"
        yield f"and {rows:,} rows of the logs {names}"
    yield f"to {material.vclock}"
    for note in material.notes:
        yield f"note: {note}"


def build(runner: Runner, material: Material, identity: Identity, staging: Staging, began: float) -> Built:
    states = States(runner, material, staging).run()
    state, queue = material.state, material.queue
    for number in {unpack(row)[0] for row in state.of(system.SEQUENCE_DATA)} - set(states.sequences):
        state.remove(system.SEQUENCE_DATA, [number])
    for number, value in states.sequences.items():
        state.put(system.SEQUENCE_DATA, [number, value])
    instance = take_on(state, queue, material.base.file.instance, identity, uuid4)
    return publish(runner, state, queue, states.states, material.vclock, instance, staging, material.notes, began)


def publish(
    runner: Runner,
    state: SystemState,
    queue: QueueState,
    states: Sequence[Reduced],
    vclock: VClock,
    instance: UUID,
    staging: Staging,
    notes: Sequence[str],
    began: float,
) -> Built:
    """The snapshot is written, forced to the disk, and gets its name."""
    head, count = encode_rows(_head_rows(state, queue, time.time()), 0)
    fragments = _write(runner, states, count, staging)
    size = assemble(staging.file(_SNAPSHOT), instance, vclock, head, fragments)
    path = staging.publish(_SNAPSHOT, file_name(vclock.signature, SNAP))
    rows = count + sum(fragment.rows for fragment in fragments)
    names = {life.now.facts.id: life.now.facts.name for life in state.lives.values()}
    spaces = {names[space_id]: total for space_id, total in sorted(counted(states).items())}
    return Built(path, vclock, instance, state.replicaset, rows, size, spaces, notes, time.monotonic() - began)


def counted(states: Sequence[Reduced]) -> dict[int, int]:
    """Space → tuples."""
    total: dict[int, int] = {}
    for state in states:
        for space_id, count in state.spaces.items():
            total[space_id] = total.get(space_id, 0) + count
    return total


def refuse_foreign(state: SystemState) -> None:
    """Unfit for a space whose data are elsewhere."""
    for life in state.lives.values():
        facts = life.now.facts
        if facts.engine in FOREIGN_ENGINES:
            raise Unfit(
                f"The space '{facts.name}' has the engine '{facts.engine}', whose data do not lie in .snap and .xlog "
                "files: it cannot be built from them. Copy its rows with a script, drop the space, and choose a point "
                "after that."
            )


def _head_rows(state: SystemState, queue: QueueState, now: float) -> Iterator[Row]:
    """System spaces first, then election and queue (memtx_engine.cc, checkpoint_f)."""
    for space_id, tuples in state.rows():
        facts = state.dictionary.space(space_id)
        begin = b"\x82\x10\xce" + space_id.to_bytes(4, "big") + b"\x21"
        for packed in tuples:
            yield Row(Type.INSERT, group_id=int(facts.is_local), timestamp=now, body=begin + packed)
    if state.version < RAFT_SINCE:
        return
    raft = encode_raft(RaftMessage(queue.term, queue.vote, group_id=1))
    lsn = queue.confirmed.get(queue.owner, 0)
    promote = encode_synchro(Synchro(Type.RAFT_PROMOTE, queue.owner, lsn, queue.queue_term, queue.confirmed))
    for row in (raft, promote):
        row.timestamp = now
        yield row


def _write(runner: Runner, states: Sequence[Reduced], count: int, staging: Staging) -> list[Fragment]:
    tasks = []
    for state in states:
        if state.rows:
            tasks.append(WriteTask(state.bucket, state.path, count, str(staging.path), staging.token))
        count += state.rows
    return runner.run(write, tasks, "writing the snapshot")

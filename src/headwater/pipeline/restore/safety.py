"""Points that members of a set must not be taken back to (Tarantool's pull request 12706).

With synchronous transactions a member that comes back under its old identity must find the others in the same term: who
leads now has decided about transactions that this member still holds to be open, or does not know at all. What is built
for a new set is safe at any point, for nobody went on from it.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.pipeline.blocks import parts
from headwater.pipeline.restore.cut import QueueState
from headwater.pipeline.restore.errors import UnsafePoint
from headwater.pipeline.restore.facts import NO_LIMIT, PartFacts, PartTask
from headwater.pipeline.restore.identity import Identity
from headwater.pipeline.restore.material import PART_BYTES, Material
from headwater.pipeline.restore.runner import Runner
from headwater.pipeline.restore.survey import survey
from headwater.pipeline.storage import Storage
from headwater.vclock import VClock
from headwater.wire.constants import Type
from headwater.wire.xrow import decode_row

_ALLOW = "Leave --keep-identity out to build a new set, choose a later point, or insist with --allow-unsafe."


def check_safety(runner: Runner, material: Material, identity: Identity, *, allowed: bool) -> None:
    """UnsafePoint where an old identity would be given to a state that its set has left behind for good; a note where
    it has only gone on."""
    if not identity.keep:
        return
    tasks = list(_behind(material))
    facts = runner.run(survey, tasks, "reading what is behind the point")
    rows = sum(each.kept for each in facts)
    if not rows:
        return
    end = material.vclock.copy(ignore0=True)
    for each in facts:
        end.merge(VClock(each.last), ignore0=True)
    told = f"The set has gone on from {material.vclock.copy(ignore0=True)} to {end}"
    terms = _terms(material, facts)
    if terms is None:
        material.notes.append(
            f"{told}. Start what was built only where members are that have those rows, and let it follow them before "
            "it is written to: else it will give these LSNs a second meaning."
        )
        return
    words = f"{told}, and its leader has changed meanwhile: {terms}."
    if not allowed:
        raise UnsafePoint(f"{words} A member that comes back from before that would be in another term. {_ALLOW}")
    material.notes.append(f"{words} --allow-unsafe was given.")


def _behind(material: Material) -> Iterator[PartTask]:
    """Whatever the files hold behind the point."""
    low = [material.vclock.get(number) for number in range(32)]
    for member in material.sources.members:
        is_own = member.instance == material.base.file.instance
        own_low = (low[0] if is_own else NO_LIMIT, *low[1:])
        for log in member.logs:
            after = member.follows(log)
            if after is not None and material.vclock.covers(after.vclock, ignore0=True):
                continue
            source = Storage().open(log.path, log.size)
            try:
                borders = parts(source, log.begin, PART_BYTES)
            finally:
                source.close()
            for part in borders:
                yield PartTask(log.path, log.size, part.begin, part.end, part.before, own_low)


def _terms(material: Material, facts: list[PartFacts]) -> str | None:
    """How the term changed behind the point; None if it did not."""
    later = QueueState(material.queue.term, queue_term=material.queue.queue_term)
    changes = 0
    for each in facts:
        for _, packed in each.notable:
            row = decode_row(packed)[0]
            if row.type in (Type.RAFT, Type.RAFT_PROMOTE, Type.RAFT_DEMOTE):
                later.take(row)
                changes += row.type != Type.RAFT
    if changes:
        return f"{changes} PROMOTE or DEMOTE, the last in term {later.queue_term}"
    if later.term > material.queue.term:
        return f"term {material.queue.term} became {later.term}"
    return None

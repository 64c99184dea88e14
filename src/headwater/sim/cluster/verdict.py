"""The judgement over a healed set: what must be true of every node, asked of the nodes themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headwater.box.instance import Box
from headwater.sim.check import Violation
from headwater.sim.cluster.ledger import check_bank, check_same_data
from headwater.sim.cluster.member import Member
from headwater.sim.cluster.work import BANK, COUNTER, DATA, LOG, Ledgers, by_writer, own_rows
from headwater.sim.history import check_recovered
from headwater.store import system
from headwater.store.system import is_system
from headwater.wire.msgpack import pack, unpack


def unhealed(members: Iterable[Member], *, is_writable: Mapping[str, bool]) -> list[str]:
    """What is not yet as it must be after healing, in words; empty when all is well."""
    members = list(members)
    out = [words for member in members for words in _member(member, is_writable[member.name])]
    if not out:
        first, *others = members
        out += [
            f"{other.name} is at {other.position}, {first.name} at {first.position}"
            for other in others
            if other.position != first.position
        ]
    return out


def _member(member: Member, is_writable: bool) -> list[str]:
    box = member.box
    if box is None or not member.is_up:
        return [f"{member.name} is not up"]
    out = []
    if is_writable and box.read_only.active:
        out.append(f"{member.name} is read-only: {box.read_only.reason}")
    for applier in box.membership.upstreams.appliers:
        state = applier.state.value
        is_self = applier.uri.address == member.address
        if not (is_self and state == "off") and state != "follow":
            out.append(f"{member.name} does not follow {applier.uri}: {state}, {applier.error or 'no error'}")
    return out


def has_gap(member: Member) -> bool:
    """Does somebody whom it follows no longer have the rows that come next?"""
    box = member.box
    assert box is not None
    errors = [applier.error for applier in box.membership.upstreams.appliers if applier.state.value == "loading"]
    return any(error is not None and error.type_name == "XlogGapError" for error in errors)


def contents(box: Box, *, names_differ: bool = False) -> dict[str, list[bytes]]:
    """Every tuple of every space that replicas share, in the order of the primary key. `names_differ`: members without
    their ids."""
    out = {}
    for id, space in sorted(box.schema.spaces.items()):
        if space.kernel is None or space.is_local or space.is_temporary or space.pk is None:
            continue
        index = space.kernel.index(0)
        assert index is not None
        tuples = index.select(2, b"\x90")
        if names_differ and id == system.CLUSTER:
            out["members"] = sorted(pack(unpack(each)[1:]) for each in tuples)
            continue
        if names_differ and is_system(id):
            # The definition of the numberings stays where they are.
            tuples = [each for each in tuples if unpack(each)[0] != system.REPLICA_IDS]
        out[f"{int(id)} ({space.name})"] = tuples
        check_indexes(f"space {space.name}", space.kernel, [int(number) for number in space.indexes], len(tuples))
    return out


def check_indexes(name: str, kernel: Any, ids: list[int], count: int) -> None:
    """Every index of a space holds what the primary one holds."""
    whole = sorted(kernel.index(0).select(2, b"\x90"))
    for id in ids:
        index = kernel.index(id)
        if index is None:
            raise Violation(f"convergence: {name} has no index {id} in the store")
        if sorted(index.select(2, b"\x90")) != whole:
            raise Violation(f"convergence: index {id} of {name} holds other tuples than the primary one ({count})")


def judge(members: Iterable[Member], ledgers: Ledgers, *, names_differ: bool = False) -> None:
    """Equal bytes everywhere, and in them everything that was acknowledged."""
    boxes = {member.name: member.box for member in members if member.box is not None}
    check_same_data({name: contents(box, names_differ=names_differ) for name, box in boxes.items()})
    for name, box in boxes.items():
        judge_data(name, {id: rows(box, id) for id in (LOG, DATA, COUNTER, BANK)}, ledgers)
        # They are all the same: one is enough for what costs time.
        judge_histories(rows(box, DATA), ledgers)
        return


def judge_data(name: str, data: Mapping[int, list[Any]], ledgers: Ledgers) -> None:
    found = by_writer(ledgers, data[LOG])
    for writer, log in ledgers.logs.items():
        log.judge(name, found[writer])
    values = {row[0]: row[1] for row in data[COUNTER]}
    for key, counter in ledgers.counters.items():
        counter.judge(name, key, values.get(key, 0))
    check_bank(name, data[BANK])


def judge_histories(data: list[Any], ledgers: Ledgers) -> None:
    for writer, history in ledgers.histories.items():
        try:
            check_recovered({history.name: history}, {history.name: own_rows(data, writer)}, keeps_done=True)
        except Violation as violation:
            raise Violation(f"durability: {violation}") from None


def rows(box: Box, space_id: int) -> list[Any]:
    assert not is_system(space_id)
    space = box.schema.find_space(space_id)
    if space is None or space.kernel is None:
        raise Violation(f"convergence: a node has no space {space_id}")
    index = space.kernel.index(0)
    assert index is not None
    return [unpack(each) for each in index.select(2, b"\x90")]

"""A walk over the change log of one replica set: definitions are followed row by row, changes are gathered by space.

A machine: it knows no files. What a table has already, `number` tells: changes of batches up to there are passed over,
so that a walk may begin again at an earlier batch whatever became of the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import HeadwaterError
from headwater.pipeline.dictionary import WATCHED, Dictionary, SpaceFacts
from headwater.pipeline.errors import PipelineError
from headwater.pipeline.lake.bodies import TYPE_BY_NAME, part
from headwater.pipeline.lake.effect import LEFT, Pending, Rule
from headwater.pipeline.lake.keys import PLAIN, KeyPlan, key_plan, primary_of
from headwater.pipeline.lake.state import SetState, TableFacts
from headwater.store import system
from headwater.store.collation import Collations, SortKey, read_collation
from headwater.store.rowview import Row as TupleView
from headwater.store.update import apply_update
from headwater.wire.constants import Key, Type
from headwater.wire.msgpack import unpack
from headwater.wire.request import of_row
from headwater.wire.xrow import Row

TRUNCATE = "TRUNCATE"
"""The operation of a row that says: the snapshot begins anew."""
_SCHEMA = (*WATCHED, int(system.COLLATION), int(system.TRUNCATE))
_STORED = frozenset(("memtx", "vinyl", "memcs"))
"""Engines that keep what is written."""
_COLLATION_NAMES = {"id": 0, "name": 1, "owner": 2, "type": 3, "locale": 4, "opts": 5}


@dataclass(frozen=True, slots=True)
class Event:
    """What became of a space; a row of the schema history."""

    batch: int
    lsn: int
    replica_id: int
    ts: Any
    space_id: int
    space: str
    kind: str
    details: str


@dataclass
class Outcome:
    """What a walk comes to."""

    pending: dict[int, Pending] = field(default_factory=dict)
    dropped: list[TableFacts] = field(default_factory=list)
    """Their spaces are no more."""
    events: list[Event] = field(default_factory=list)


class Walk:
    """Over some batches. `state` moves along."""

    def __init__(
        self,
        state: SetState,
        number: Callable[[TableFacts], int],
        place: Callable[[str], str],
        everything: Callable[[int], Mapping[bytes, tuple[bytes, dict[str, Any]]]],
        *,
        with_system: bool = False,
    ) -> None:
        """`number` of the last batch in a table, `place` for a new table by the name of its space,
        `everything` in the table of a space: key → tuple and the rest of its row."""
        self.state = state
        self.outcome = Outcome()
        self._number = number
        self._place = place
        self._everything = everything
        self._with_system = with_system
        self._orders: dict[int, SortKey | None] | None = None
        self._rules: dict[int, tuple[SpaceFacts, Rule | None]] = {}

    def run(self, rows: pa.Table) -> None:
        """Rows of the set, in order."""
        watched = pc.is_in(rows["space_id"], pa.array(_SCHEMA, pa.int32()))
        marks = pc.indices_nonzero(pc.or_(watched, pc.equal(rows["op"], TRUNCATE))).to_pylist()
        begin = 0
        for mark in marks:
            self._changes(rows.slice(begin, mark - begin))
            self._definition(rows.slice(mark, 1).to_pylist()[0])
            begin = mark + 1
        self._changes(rows.slice(begin))
        if self._with_system:
            inside = pc.less_equal(pc.fill_null(rows["space_id"], 1 << 30), int(system.SYSTEM_ID_MAX))
            self._changes(rows.filter(inside), are_system=True)

    def begin_anew(self, run: str, batch: int) -> None:
        """A snapshot comes with this batch: what was known counts no more."""
        self.state.run = run
        self.state.dictionary = Dictionary()
        self.state.collations.clear()
        self._forget()
        for number, table in self.state.tables.items():
            table.is_lost = True
            if self._number(table) < batch:
                self._pending(number).clear()

    # ---- changes

    def _changes(self, rows: pa.Table, *, are_system: bool = False) -> None:
        for space_id, mine in _by_space(rows):
            if system.is_system(space_id) != are_system:
                continue
            rule = self.rule(space_id)
            table = self.state.tables.get(space_id)
            if rule is None or table is None:
                continue
            known = self._number(table)
            new = pc.greater(mine["_batch"], known)
            self._pending(space_id).add(rule, mine if pc.all(new).as_py() else mine.filter(new))

    def _pending(self, space_id: int) -> Pending:
        return self.outcome.pending.setdefault(space_id, Pending())

    def rule(self, space_id: int) -> Rule | None:
        """The definition that holds now; None for a space that has no rows to keep."""
        facts = self.state.dictionary.find(space_id)
        if facts is None or not self._is_kept(facts):
            return None
        known = self._rules.get(space_id)
        if known is None or known[0] is not facts:
            plan = self._key_plan(facts)
            known = self._rules[space_id] = (facts, None if plan is None else Rule(facts, plan))
        return known[1]

    def _is_kept(self, facts: SpaceFacts) -> bool:
        if facts.is_system and not self._with_system:
            return False
        return facts.engine in _STORED and not facts.is_local and not facts.is_temporary

    def _key_plan(self, facts: SpaceFacts) -> KeyPlan | None:
        primary = primary_of(facts)
        wanted = {each.collation for each in primary.parts if each.collation} if primary is not None else set()
        if wanted and self._orders is None:
            self._orders = _orders(self.state.collations)
        return key_plan(facts, {number: self._order(number, facts) for number in wanted})

    def _order(self, collation: int, facts: SpaceFacts) -> SortKey | None:
        assert self._orders is not None
        if collation not in self._orders:
            raise PipelineError(
                f"The primary key of space '{facts.name}' has a collation {collation}, which is unknown."
            )
        return self._orders[collation]

    def _forget(self) -> None:
        self._orders = None
        self._rules.clear()

    # ---- definitions

    def _definition(self, row: Mapping[str, Any]) -> None:
        if row["op"] == TRUNCATE:
            self.begin_anew(self.state.run, row["_batch"])
            return
        kind = TYPE_BY_NAME.get(row["op"])
        if kind is None:
            return
        request = Row(kind, row["replica_id"], lsn=row["lsn"], body=row["request"])
        try:
            if row["space_id"] == system.TRUNCATE:
                self._truncate(kind, row)
            elif row["space_id"] == system.COLLATION:
                self._collation(request)
            else:
                self._schema(request, row)
        except HeadwaterError as error:
            raise PipelineError(f"Batch {row['_batch']}, LSN {row['lsn']}: {error}") from None

    def _truncate(self, kind: int, row: Mapping[str, Any]) -> None:
        number = _first(row["request"])
        facts = self.state.dictionary.find(number)
        if kind == Type.DELETE or facts is None or not row["replica_id"]:
            return  # the row of a space that is dropped, or of a snapshot
        self._clear(number, row)
        self._tell(row, facts, "truncated", "")

    def _clear(self, space_id: int, row: Mapping[str, Any]) -> None:
        table = self.state.tables.get(space_id)
        if table is not None and self._number(table) < row["_batch"]:
            self._pending(space_id).clear()

    def _collation(self, row: Row) -> None:
        request = of_row(row)
        number = _first(row.body)
        old = self.state.collations.get(number)
        if request.type == Type.DELETE:
            self.state.collations.pop(number, None)
        elif request.type == Type.UPDATE and old is not None and request.tuple is not None:
            self.state.collations[number] = apply_update(request.tuple, old, _COLLATION_NAMES, request.index_base)
        elif request.tuple is not None:
            self.state.collations[number] = request.tuple
        self._forget()

    def _schema(self, request: Row, row: Mapping[str, Any]) -> None:
        number = _first(row["request"])
        before, rule_before = self.state.dictionary.find(number), self.rule(number)
        self.state.dictionary.apply(request)
        after = self.state.dictionary.find(number)
        if after is None:
            if before is not None:
                self._dropped(before, row)
        elif before is None:
            self._created(after, row)
        else:
            self._altered(before, after, rule_before, row)

    def _created(self, facts: SpaceFacts, row: Mapping[str, Any]) -> None:
        if not self._is_kept(facts):
            return
        table = self.state.tables.get(facts.id)
        if table is not None and table.is_lost and table.space == facts.name:
            table.is_lost = False
            return
        if table is not None:
            self.outcome.dropped.append(table)
        birth = f"{row['_batch']}-{row['_seq']}-{facts.id}"
        self.state.tables[facts.id] = table = TableFacts(self._place(facts.name), facts.name, birth)
        if self._number(table) < row["_batch"]:
            self.outcome.pending[facts.id] = Pending(cleared=True)

    def _dropped(self, facts: SpaceFacts, row: Mapping[str, Any]) -> None:
        table = self.state.tables.pop(facts.id, None)
        self.outcome.pending.pop(facts.id, None)
        if table is not None:
            self.outcome.dropped.append(table)
            self._tell(row, facts, "dropped", "")

    def _altered(self, before: SpaceFacts, after: SpaceFacts, rule: Rule | None, row: Mapping[str, Any]) -> None:
        table = self.state.tables.get(after.id)
        if table is None:
            return
        if before.name != after.name:
            table.space = after.name
            self._tell(row, after, "renamed", f"{before.name} → {after.name}")
        new = self.rule(after.id)
        if rule is None:
            if new is not None:
                self._tell(row, after, "created", after.ddl())
            return
        if before.fields != after.fields:
            self._tell(row, after, "format", f"{before.ddl()} → {after.ddl()}")
        if new is not None and _same_key(before, after):
            return
        if new is None:
            # Without a primary index there are no rows: with it they went.
            self._clear(after.id, row)
            self._tell(row, after, "key dropped", "")
            return
        self._tell(row, after, "key changed", f"{_parts(rule)} → {_parts(new)}")
        if self._number(table) < row["_batch"]:
            self._rekey(after.id, rule, new)

    def _rekey(self, space_id: int, old: Rule, new: Rule) -> None:
        """Every row gets its new key: the whole table is made anew."""
        pending = self._pending(space_id)
        before = {} if pending.cleared else self._everything(space_id)
        left = pending.analysed().left({key: each[0] for key, each in before.items()}).to_pylist()
        touched = {each["key"] for each in left}
        rows = [each for each in left if each["tuple"] is not None]
        rows += [{"tuple": each[0], **each[1]} for key, each in before.items() if key not in touched]
        table = pa.Table.from_pylist(
            [{**row, "key": new.keys.of_tuple(row["tuple"]), "hint": None} for row in rows], LEFT
        )
        pending.put(new, table)

    def _tell(self, row: Mapping[str, Any], facts: SpaceFacts, kind: str, details: str) -> None:
        if facts.is_system:
            return
        where = (row["_batch"], row["lsn"], row["replica_id"], row["ts"])
        self.outcome.events.append(Event(*where, facts.id, facts.name, kind, details))


def _by_space(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Rows of each space, in their order."""
    rows = rows.filter(pc.is_valid(rows["space_id"]))
    if not rows.num_rows:
        return
    ids = pc.unique(rows["space_id"]).to_pylist()
    if len(ids) == 1:
        yield ids[0], rows
        return
    rows = rows.take(pc.sort_indices(rows, [("space_id", "ascending")]))  # which leaves equal ones in their order
    at = 0
    for found in pc.value_counts(rows["space_id"]).to_pylist():
        yield found["values"], rows.slice(at, found["counts"])
        at += found["counts"]


def _first(body: bytes) -> int:
    """The first field of the tuple or key of a row of a system space."""
    packed = part(body, Key.KEY) or part(body, Key.TUPLE)
    values = unpack(packed) if packed is not None else []
    if not isinstance(values, list) or not values or not isinstance(values[0], int):
        raise PipelineError("a row of a system space without an id")
    return values[0]


def _orders(tuples: Mapping[int, bytes]) -> dict[int, SortKey | None]:
    known = Collations()
    for packed in tuples.values():
        known.add(read_collation(TupleView(packed)))
    return {number: known.sort_key(number) for number in tuples}


def _same_key(before: SpaceFacts, after: SpaceFacts) -> bool:
    """Do keys keep their form?"""
    old, new = primary_of(before), primary_of(after)
    if old is None or new is None:
        return False
    if old.parts == new.parts:
        return True
    plain = all(each.type in PLAIN and each.path is None and not each.collation for each in (*old.parts, *new.parts))
    return plain and [each.field for each in old.parts] == [each.field for each in new.parts]


def _parts(rule: Rule) -> str:
    names = [field.name for field in rule.facts.fields]
    return ", ".join(f"{names[number]} {type}" for number, type, *_ in rule.keys.parts)

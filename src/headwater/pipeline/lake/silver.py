"""Silver: the current state of every space, kept up with bronze.

A step takes some batches of the change log, walks over them set by set, and brings each table to the last of them in
one commit. Then the schema history, and last of all the state is written. Whatever a crash leaves, the next step begins
at the state and passes over what a table has already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.pipeline.lake.bronze import ChangeLog, Unit
from headwater.pipeline.lake.delta import append, number_of, open_table
from headwater.pipeline.lake.effect import Pending, Rule
from headwater.pipeline.lake.layout import Charter, Lake
from headwater.pipeline.lake.shape import Shape, shape_of
from headwater.pipeline.lake.state import SetState, State, TableFacts
from headwater.pipeline.lake.table import SilverTable, Step, Told, empty
from headwater.pipeline.lake.walk import Event, Outcome, Walk

HISTORY = pa.schema(
    [
        ("batch", pa.int64()),
        ("lsn", pa.int64()),
        ("replica_id", pa.int32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("space_id", pa.int32()),
        ("space", pa.string()),
        ("kind", pa.string()),
        ("details", pa.string()),
        ("replicaset", pa.string()),
        ("place", pa.string()),
    ]
)
"""One row for each change of a definition: created, format, key changed, renamed, truncated, dropped, widened."""
_APPLICATION = "headwater-silver"
ROWS_MAX = 1_000_000
"""Silver takes batches together up to so many rows: when it falls behind, it goes in longer steps."""
THREADS = 4
log = logging.getLogger("headwater.lake")


@dataclass(frozen=True, slots=True)
class Stepped:
    """What a step did."""

    last: int
    changes: int
    rows: int
    """Written into tables."""
    tables: int


class Silver:
    """For the one who writes it."""

    def __init__(self, lake: Lake, charter: Charter, *, rows_max: int = ROWS_MAX) -> None:
        self._lake = lake
        self._charter = charter
        self._rows_max = rows_max
        self.log = ChangeLog(lake.bronze)
        self.state = State.load(lake.state)
        self._numbers: dict[str, int] = {}
        """The last batch in each table by its birth, as far as it was asked for."""

    def catch_up(self, positions: Mapping[int, Mapping[str, Any]] | None = None) -> Iterable[Stepped]:
        """Step by step up to the end of bronze."""
        self.log.reload()
        while (unit := self.log.after(self.state.batch, self._rows_max)) is not None:
            yield self.step(unit, positions or {})

    def step(self, unit: Unit, positions: Mapping[int, Mapping[str, Any]]) -> Stepped:
        """Bring all tables to the last batch of the unit."""
        state = self.state.copy()
        outcomes: dict[str, Outcome] = {}
        taken = state.places
        for name, rows in _by_set(unit.rows):
            outcomes[name] = self._walk(state.sets.setdefault(name, SetState()), name, rows, taken)
        jobs = [job for name, outcome in outcomes.items() for job in self._jobs(state, name, outcome, unit.last)]
        with ThreadPoolExecutor(THREADS) as threads:
            written = list(threads.map(lambda job: job(), jobs))
        self._tell(unit.last, state, outcomes)
        state.batch = unit.last
        state.position = positions.get(unit.last, state.position)
        state.save(self._lake.state)
        self.state = state
        self._numbers.clear()
        return Stepped(unit.last, unit.rows.num_rows, sum(written), len(jobs))

    # ---- walking

    def _walk(self, state: SetState, name: str, rows: pa.Table, taken: set[str]) -> Outcome:
        def place(space: str) -> str:
            found = self._lake.table(name, space, taken)
            taken.add(found)
            return found

        def everything(space_id: int) -> Mapping[bytes, tuple[bytes, dict[str, Any]]]:
            table = state.tables[space_id]
            facts = state.dictionary.space(space_id)
            return self._open(table, shape_of(facts), None, _nobody).everything()

        walk = Walk(state, self._number, place, everything, with_system=self._charter.system)
        if state.run != self._charter.run:
            walk.begin_anew(self._charter.run, rows["_batch"][0].as_py())
        walk.run(rows)
        return walk.outcome

    def _number(self, table: TableFacts) -> int:
        if table.birth not in self._numbers:
            found = open_table(self._lake.silver / table.place)
            self._numbers[table.birth] = -1 if found is None else number_of(found, table.application)
        return self._numbers[table.birth]

    def _open(self, table: TableFacts, shape: Shape, hint: str | None, told: Told) -> SilverTable:
        return SilverTable(self._lake.silver / table.place, table.application, shape, hint, told)

    # ---- tables

    def _jobs(self, state: State, name: str, outcome: Outcome, last: int) -> list[Callable[[], int]]:
        mine = state.sets[name]
        walk = Walk(mine, self._number, str, lambda _: {}, with_system=self._charter.system)
        changed = {event.space_id for event in outcome.events}
        jobs: list[Callable[[], int]] = []
        for space_id, table in mine.tables.items():
            pending = outcome.pending.get(space_id)
            rule = walk.rule(space_id)
            if table.is_lost or rule is None:
                if pending is not None and pending.cleared:
                    jobs.append(self._emptying(table, last))
            elif pending or space_id in changed:
                jobs.append(self._job(table, rule, pending or Pending(), outcome, last))
        return jobs + [self._emptying(table, last) for table in outcome.dropped]

    def _job(self, table: TableFacts, rule: Rule, pending: Pending, outcome: Outcome, last: int) -> Callable[[], int]:
        def told(kind: str, details: str) -> None:
            facts = rule.facts
            outcome.events.append(Event(last, 0, 0, None, facts.id, facts.name, kind, details))

        def work() -> int:
            shape = shape_of(rule.facts)
            silver = self._open(table, shape, _hint(shape, rule), told)
            if not pending:
                silver.evolve()
                return 0
            return silver.apply(Step(pending.cleared, pending.analysed(), last))

        return work

    def _emptying(self, table: TableFacts, last: int) -> Callable[[], int]:
        def work() -> int:
            empty(self._lake.silver / table.place, (table.application, last))
            return 0

        return work

    # ---- history

    def _tell(self, last: int, state: State, outcomes: Mapping[str, Outcome]) -> None:
        table = open_table(self._lake.history)
        known = -1 if table is None else number_of(table, _APPLICATION)
        rows = []
        for name, outcome in outcomes.items():
            for event in outcome.events:
                facts = state.sets[name].tables.get(event.space_id)
                place = facts.place if facts is not None else None
                log.info("space %s %s%s", event.space, event.kind, f": {event.details}" if event.details else "")
                if event.batch > known:
                    row = {each: getattr(event, each) for each in HISTORY.names[:8]}
                    rows.append(row | {"replicaset": name, "place": place})
        if rows:
            append(
                self._lake.history, HISTORY, pa.Table.from_pylist(rows, HISTORY), "schema_history", (_APPLICATION, last)
            )


def _by_set(rows: pa.Table) -> Iterable[tuple[str, pa.Table]]:
    """Rows of each replica set, in their order."""
    for name in pc.unique(rows["replicaset"]).to_pylist():
        mine = pc.is_null(rows["replicaset"]) if name is None else pc.equal(rows["replicaset"], name)
        yield name or "", rows.filter(pc.fill_null(mine, False))


def _hint(shape: Shape, rule: Rule) -> str | None:
    """The column that hints are values of."""
    return shape.fields[rule.keys.parts[0][0]].column if rule.keys.hint is not None else None


def _nobody(kind: str, details: str) -> None:
    """Told of nothing that is to be kept."""

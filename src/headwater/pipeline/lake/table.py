"""A table of silver: the current state of one space, rewritten file by file.

A change touches only the files that hold its key; rows go back into the file that they were in, so that files which are
apart by key stay apart, and keys above all others cost nothing but their own file. One commit for each step of silver,
with a transaction that says how far the table is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema

from headwater.pipeline.lake.delta import (
    Conflict,
    Fence,
    File,
    commit,
    files_of,
    number_of,
    open_or_make,
    open_table,
    replace,
    write_file,
)
from headwater.pipeline.lake.effect import Analysis
from headwater.pipeline.lake.keys import spread
from headwater.pipeline.lake.shape import KEY, LSN, OWN, REPLICA_ID, RESCUED, TS, TUPLE, Shape, Widen

FILE_ROWS = 500_000
"""A file that grows beyond it is written as several."""
SMALL = FILE_ROWS // 8
"""Files below it are put together when there are many of them."""
SMALL_FILES_MAX = 16
_TRIES = 8

Told = Callable[[str, str], None]
"""Takes what became of the columns: kind and details."""


@dataclass
class _Found:
    """What one file holds of the keys that are looked for."""

    file: File
    at: pa.Array
    """For each row of the file the number of the key, null for other rows."""
    tuples: dict[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """What is to become of a table."""

    cleared: bool
    analysis: Analysis
    number: int
    """Of the last batch that is in it."""


class SilverTable:
    """A directory. Opened anew for each step."""

    def __init__(self, path: Path, application: str, shape: Shape, hint: str | None, told: Told) -> None:
        """`application` of its transactions; `hint`: the column that hints are values of, if the key has one."""
        self.path = path
        self._application = application
        self.hint = hint
        self._told = told
        self._table = open_or_make(path, shape.arrow, path.name)
        self._schema = _arrow_of(self._table)
        self.shape = shape.as_wide_as(self._schema)

    def _reload(self) -> None:
        self._table = DeltaTable(str(self.path))
        self._schema = _arrow_of(self._table)
        self.shape = self.shape.as_wide_as(self._schema)

    # ---- a step

    def apply(self, step: Step) -> int:
        """How many rows it wrote. Again from the start where somebody else (who compacts it) was faster."""
        for last in (*[False] * _TRIES, True):
            try:
                return self._apply(step)
            except Conflict:
                if last:
                    raise
            except Widen as error:
                self._widen(error)
                if last:
                    raise
            self._reload()
        raise AssertionError

    def _apply(self, step: Step) -> int:
        self.evolve(step.cleared)
        if step.cleared:
            return self._overwrite(step)
        files = files_of(self._table)
        if step.analysis.is_snapshot or (step.analysis.is_inserts and not files):
            return self._commit(step, [self.shape.rows(step.analysis.left({}))], [], [])
        found = self._find(step.analysis, files)
        before = {key: packed for each in found for key, packed in each.tuples.items()}
        left = step.analysis.left(before)
        return self._merge(step, left, found, files)

    def _overwrite(self, step: Step) -> int:
        left = step.analysis.left({})
        rows = self.shape.rows(left.filter(pc.is_valid(left["tuple"])))
        return self._commit(step, [rows], [], files_of(self._table))

    def _commit(self, step: Step, new: Sequence[pa.Table], kept: Sequence[File], remove: Sequence[File]) -> int:
        add = [*kept, *self._write(new)]
        if add or remove:
            fence: Fence = (self._application, step.number)
            commit(self._table, add, remove, fence, {"headwater.batch": step.number})
        return sum(each.num_rows for each in new)

    def _write(self, tables: Sequence[pa.Table]) -> Iterator[File]:
        for table in tables:
            for at in range(0, table.num_rows, FILE_ROWS):
                file = write_file(self.path, table.slice(at, FILE_ROWS).to_batches(), self.shape.arrow, "silver")
                if file is not None:
                    yield file

    # ---- finding

    def _find(self, analysis: Analysis, files: Sequence[File]) -> list[_Found]:
        keys = analysis.keys.combine_chunks()
        asked = analysis.asked.combine_chunks()
        hints = analysis.hints if spread(analysis.hints) else None
        near = [file for file in files if self._may_hold(file, hints)]
        with ThreadPoolExecutor(4) as threads:
            return [each for each in threads.map(lambda file: self._look(file, keys, asked), near) if each is not None]

    def _may_hold(self, file: File, hints: pa.ChunkedArray | None) -> bool:
        low, high = file.low.get(self.hint or ""), file.high.get(self.hint or "")
        if low is None or high is None or hints is None:
            return True
        near = pc.and_(pc.greater_equal(hints, int(low)), pc.less_equal(hints, int(high)))
        return bool(pc.any(near).as_py())

    def _look(self, file: File, keys: pa.Array, asked: pa.Array) -> _Found | None:
        path = self.path / file.path
        there = pq.read_table(path, columns=[KEY])[KEY]
        at = pc.index_in(there, value_set=keys)
        if at.null_count == len(at):
            return None
        found = _Found(file, at)
        if len(asked):
            rows = pc.indices_nonzero(pc.is_in(there, value_set=asked))
            if len(rows):
                tuples = pq.read_table(path, columns=[TUPLE])[TUPLE].take(rows)
                found.tuples = dict(zip(there.take(rows).to_pylist(), tuples.to_pylist(), strict=True))
        return found

    # ---- merging

    def _merge(self, step: Step, left: pa.Table, found: Sequence[_Found], files: Sequence[File]) -> int:
        """Rows that were there go back into their file, new ones into one of their own."""
        rows = self.shape.rows(left.filter(pc.is_valid(left["tuple"])))
        place = pc.index_in(step.analysis.keys, value_set=rows[KEY].combine_chunks())
        old = pa.array([], pa.int32())
        new: list[pa.Table] = []
        remove: list[File] = []
        for each in found:
            rewritten, taken = self._rewritten(each, rows, place)
            old = pa.concat_arrays([old, taken])
            new.append(rewritten)
            remove.append(each.file)
        fresh = pc.invert(pc.is_in(pa.array(range(rows.num_rows), pa.int32()), value_set=old))
        new.append(rows.filter(fresh))
        self._gather(new, remove, files)
        return self._commit(step, [each for each in new if each.num_rows], [], remove)

    def _rewritten(self, found: _Found, rows: pa.Table, place: pa.ChunkedArray) -> tuple[pa.Table, pa.Array]:
        """The file as it becomes, and the numbers of the rows that went into it."""
        keep = self._read(found.file).filter(pc.is_null(found.at))
        taken = pc.drop_null(place.take(pc.drop_null(found.at)))
        taken = taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken
        return pa.concat_tables([keep, rows.take(taken)]), taken

    def _read(self, file: File) -> pa.Table:
        """As the table's columns are now: those that came later are null."""
        there = pq.read_table(self.path / file.path)
        columns = [
            there[each.name].cast(each.type) if each.name in there.schema.names else pa.nulls(there.num_rows, each.type)
            for each in self.shape.arrow
        ]
        return pa.Table.from_arrays(columns, schema=self.shape.arrow)

    def _gather(self, new: list[pa.Table], remove: list[File], files: Sequence[File]) -> None:
        """Many small files become one on this occasion."""
        gone = {each.path for each in remove}
        small = [each for each in files if each.rows < SMALL and each.path not in gone]
        if len(small) < SMALL_FILES_MAX:
            return
        little = [each for each in new if each.num_rows < SMALL]
        new[:] = [each for each in new if each.num_rows >= SMALL]
        new.append(pa.concat_tables([*map(self._read, small), *little]))
        remove.extend(small)

    # ---- columns

    def evolve(self, cleared: bool = False) -> None:
        """Bring the table to the columns that the space has now: new ones are added, or all rows are made anew out of
        their tuples. `cleared`: its rows count no more."""
        if self._suits():
            return
        if self._only_adds() and not self._may_hold_more():
            names = set(self._schema.names)
            added = [each for each in self.shape.arrow if each.name not in names]
            self._table.alter.add_columns(Schema.from_arrow(pa.schema(added)).fields)
            self._reload()
        else:
            self.remake([] if cleared else files_of(self._table))

    def _suits(self) -> bool:
        return {each.name: each.type for each in self._schema} == {each.name: each.type for each in self.shape.arrow}

    def remake(self, files: Sequence[File]) -> None:
        """Every row out of its tuple."""
        written = [made for file in files for made in self._write([self._again(file)])]
        replace(self.path, self.shape.arrow, written)
        self._reload()

    def _again(self, file: File) -> pa.Table:
        there = pq.read_table(self.path / file.path, columns=list(OWN.names))
        names = {"key": "_key", "tuple": "_tuple", "lsn": "_lsn", "replica_id": "_replica_id", "ts": "_ts"}
        return self.shape.rows(pa.table({name: there[own] for name, own in names.items()}))

    def _only_adds(self) -> bool:
        """Are all columns of the table still wanted as they are?"""
        wanted = self.shape.arrow
        return all(each.name in wanted.names and wanted.field(each.name).type == each.type for each in self._schema)

    def _may_hold_more(self) -> bool:
        """Could a tuple have a field behind those that had columns?"""
        return any(file.nulls.get(RESCUED) != file.rows for file in files_of(self._table))

    def _widen(self, error: Widen) -> None:
        """The next attempt makes the table anew."""
        wider = self.shape.widened(error.column)
        assert wider is not None
        old, new = (shape.type_of(error.column) for shape in (self.shape, wider))
        self._told("widened", f"{error.column}: {old} → {new} ({error.why})")
        self.shape = wider

    # ---- asking

    def everything(self) -> dict[bytes, tuple[bytes, dict[str, Any]]]:
        """Key → tuple and the change that it is from, of all rows."""
        found: dict[bytes, tuple[bytes, dict[str, Any]]] = {}
        names = {KEY: "key", TUPLE: "tuple", LSN: "lsn", REPLICA_ID: "replica_id", TS: "ts"}
        for file in files_of(self._table):
            for row in pq.read_table(self.path / file.path, columns=list(names)).to_pylist():
                found[row[KEY]] = (row[TUPLE], {names[own]: row[own] for own in (LSN, REPLICA_ID, TS)})
        return found


def empty(path: Path, fence: Fence) -> None:
    """Remove all rows of a table whose space is no more."""
    for last in (*[False] * _TRIES, True):
        table = open_table(path)
        if table is None or number_of(table, fence[0]) >= fence[1]:
            return
        try:
            commit(table, [], files_of(table), fence, {"headwater.batch": fence[1]})
        except Conflict:
            if last:
                raise
        else:
            return


def _arrow_of(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())

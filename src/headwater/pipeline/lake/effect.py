"""What many changes of one space come to: the last state of each key.

A machine: changes in the order of the stream go in, and per key comes out what is left of them. A key whose last change
is an INSERT, REPLACE or DELETE is decided by that row alone, for all such keys at once; only where an UPDATE or UPSERT
comes last is the tuple made by Headwater's own update code, from the row before it or from what the table holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import HeadwaterError
from headwater.kernels import FormatViolation, TupleFormat, mp_array_fields
from headwater.pipeline.dictionary import SpaceFacts
from headwater.pipeline.errors import PipelineError
from headwater.pipeline.lake.bodies import TYPE_BY_NAME, tuples_of
from headwater.pipeline.lake.keys import KeyPlan
from headwater.store.fields import type_by_name
from headwater.store.update import apply_update, apply_upsert
from headwater.typing import FieldType
from headwater.wire.constants import Type
from headwater.wire.request import Request, of_row
from headwater.wire.xrow import Row

PUT, DELETE, RELATIVE = 0, 1, 2
_KINDS = pa.array(
    [DELETE if kind == Type.DELETE else RELATIVE if kind in (Type.UPDATE, Type.UPSERT) else PUT for kind in range(16)],
    pa.int8(),
)
CHANGES = pa.schema(
    [
        ("key", pa.binary()),
        ("hint", pa.int64()),
        ("kind", pa.int8()),
        ("type", pa.int32()),
        ("tuple", pa.binary()),
        ("body", pa.binary()),
        ("rule", pa.int32()),
        ("lsn", pa.int64()),
        ("replica_id", pa.int32()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
"""`tuple` of what is put, `body` of what is relative, `rule` the number of the definition it was written under."""
LEFT = pa.schema([CHANGES.field(name) for name in ("key", "hint", "tuple", "lsn", "replica_id", "ts")])
"""The last state of a key; `tuple` is null where it is deleted."""
_TYPES = pa.array(list(TYPE_BY_NAME.values()), pa.int32())
_NAMES = pa.array(list(TYPE_BY_NAME), pa.string())


@dataclass(frozen=True)
class Rule:
    """The definition of a space, as far as its changes need it."""

    facts: SpaceFacts
    keys: KeyPlan

    @property
    def types(self) -> tuple[FieldType, ...]:
        return tuple(_field_type(each.type) for each in self.facts.fields)


@dataclass
class Pending:
    """The changes of one space that are not in its table yet."""

    cleared: bool = False
    """Everything before them is gone: the table's rows do not count."""
    chunks: list[pa.Table] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)

    def __bool__(self) -> bool:
        return self.cleared or bool(self.chunks)

    def clear(self) -> None:
        self.cleared = True
        self.chunks.clear()

    def add(self, rule: Rule, rows: pa.Table) -> None:
        """Rows of the change log, in order; what they hold besides DML is passed over."""
        changes = _changes(rule.keys, rows, len(self.rules))
        if changes.num_rows:
            self.rules.append(rule)
            self.chunks.append(changes)

    def put(self, rule: Rule, left: pa.Table) -> None:
        """All there is, under another definition: `left` takes the place of everything before."""
        self.clear()
        self.rules.append(rule)
        rows = left.num_rows
        constants = {
            "kind": pa.repeat(pa.scalar(PUT, pa.int8()), rows),
            "type": pa.repeat(pa.scalar(int(Type.REPLACE), pa.int32()), rows),
            "body": pa.nulls(rows, pa.binary()),
            "rule": pa.repeat(pa.scalar(len(self.rules) - 1, pa.int32()), rows),
        }
        columns = [constants[name] if name in constants else left.column(name) for name in CHANGES.names]
        self.chunks.append(pa.Table.from_arrays(columns, schema=CHANGES))

    def analysed(self) -> Analysis:
        table = pa.concat_tables(self.chunks) if self.chunks else CHANGES.empty_table()
        return Analysis(table.combine_chunks(), self.rules)


class Analysis:
    """Which row decides each key, and which keys need what the table holds."""

    def __init__(self, changes: pa.Table, rules: Sequence[Rule]) -> None:
        self._changes = changes
        self._rules = rules
        number = pa.array(range(changes.num_rows), pa.int64())
        relative = pc.equal(changes["kind"], RELATIVE)
        missing = pa.scalar(None, pa.int64())
        grouped = (
            pa.table(
                {
                    "key": changes["key"],
                    "last": number,
                    "whole": pc.if_else(relative, missing, number),
                }
            )
            .group_by("key", use_threads=False)
            .aggregate([("last", "max"), ("whole", "max")])
        )
        self._whole = grouped["whole_max"]
        self._last = grouped["last_max"]
        self.keys: pa.ChunkedArray = grouped["key"]
        """Every key that is touched."""
        self._decided = pc.fill_null(pc.equal(self._whole, self._last), False)
        self.hints: pa.ChunkedArray = changes["hint"].take(self._last)

    @property
    def is_inserts(self) -> bool:
        """Is every one of them an INSERT, and of a key of its own?"""
        return len(self.keys) == self._changes.num_rows and _all(pc.equal(self._changes["type"], int(Type.INSERT)))

    @property
    def is_snapshot(self) -> bool:
        """Are they rows of a snapshot, which no table can hold yet?"""
        return self.is_inserts and _all(pc.equal(self._changes["replica_id"], 0))

    @property
    def asked(self) -> pa.ChunkedArray:
        """Keys of which the tuple before all these changes is wanted."""
        return self.keys.filter(pc.is_null(self._whole))

    def left(self, before: Mapping[bytes, bytes]) -> pa.Table:
        """The last state of each key. `before`: tuples of `asked`, as far as there are any."""
        decided = self._changes.take(self._whole.filter(self._decided)).select(LEFT.names)
        undecided = self.keys.filter(pc.invert(self._decided))
        if not len(undecided):
            return decided
        return pa.concat_tables([decided, self._reckoned(undecided, before)])

    def _reckoned(self, keys: pa.ChunkedArray, before: Mapping[bytes, bytes]) -> pa.Table:
        """Those of which an UPDATE or UPSERT comes last, one by one."""
        state: dict[bytes, bytes | None] = {key: before.get(key) for key in keys.to_pylist()}
        hands = [Hand(rule) for rule in self._rules]
        last: dict[bytes, int] = {}
        for number, key, kind, type, tuple, body, rule, lsn in self._rows_of(keys):
            if kind == RELATIVE:
                state[key] = hands[rule].apply(key, state[key], type, body, lsn)
            else:
                state[key] = tuple
            last[key] = number
        numbers = pa.array(list(last.values()), pa.int64())
        rest = self._changes.select(LEFT.names).take(numbers)
        tuples = pa.array([state[key] for key in last], pa.binary())
        return rest.set_column(LEFT.names.index("tuple"), "tuple", tuples)

    def _rows_of(self, keys: pa.ChunkedArray) -> Iterator[tuple[int, bytes, int, int, bytes, bytes, int, int]]:
        """Only from the last whole row of a key on: what is before it counts no more."""
        group = pc.index_in(self._changes["key"], value_set=keys.combine_chunks())
        whole = self._whole.filter(pc.invert(self._decided))
        number = pa.array(range(self._changes.num_rows), pa.int64())
        since = pc.fill_null(whole, -1).take(pc.fill_null(group, 0))
        chosen = pc.indices_nonzero(pc.and_(pc.is_valid(group), pc.greater_equal(number, since)))
        rows = self._changes.take(chosen)
        columns = [rows[name].to_pylist() for name in ("key", "kind", "type", "tuple", "body", "rule", "lsn")]
        return zip(chosen.to_pylist(), *columns, strict=True)


class Hand:
    """Makes tuples by UPDATE and UPSERT under one definition."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._names = rule.facts.names
        self._types = rule.types
        # vinyl writes an UPSERT to its log unseen; when it reads the tuple it forgets what does not fit (vy_upsert.c).
        self._format = self._format_of(rule.facts) if rule.facts.engine == "vinyl" else None

    def _format_of(self, facts: SpaceFacts) -> TupleFormat:
        keys = set(facts.key_fields)
        fields = [(int(type), facts.fields[at].nullable and at not in keys) for at, type in enumerate(self._types)]
        return TupleFormat(fields, facts.field_count)

    def apply(self, key: bytes, old: bytes | None, type: int, body: bytes, lsn: int) -> bytes | None:
        """The new tuple. PipelineError if the change log does not suit the state."""
        try:
            request = of_row(Row(type, lsn=lsn, body=body))
            if request.new_tuple is not None:
                return request.new_tuple  # a server with WAL extensions says what came of it
            if type == Type.UPDATE:
                return None if old is None else self._updated(request, old)
            return request.tuple if old is None else self._upserted(request, key, old)
        except HeadwaterError as error:
            name = Type(type).name
            raise PipelineError(
                f"{name} of space '{self._rule.facts.name}' with LSN {lsn} cannot be applied to what silver "
                f"holds: {error}. Is a part of the change log missing? `headwater lake rebuild` makes silver anew."
            ) from None

    def _updated(self, request: Request, old: bytes) -> bytes:
        assert request.tuple is not None
        return apply_update(request.tuple, old, self._names, request.index_base, self._types)

    def _upserted(self, request: Request, key: bytes, old: bytes) -> bytes:
        """One that would change the key is forgotten (memtx_space.c, memtx_space_execute_upsert)."""
        assert request.ops is not None
        new = apply_upsert(request.ops, old, self._names, request.index_base, self._types).tuple
        return new if self._same_key(old, new, key) and self._fits(new) else old

    def _fits(self, tuple: bytes) -> bool:
        if self._format is None:
            return True
        try:
            self._format.check(tuple)
        except FormatViolation:
            return False
        return True

    def _same_key(self, old: bytes, new: bytes, key: bytes) -> bool:
        fields = [part[0] for part in self._rule.keys.parts]
        if _slices(old, fields) == _slices(new, fields):
            return True
        return self._rule.keys.of_tuple(new) == key


def _slices(tuple: bytes, fields: Sequence[int]) -> list[bytes]:
    spans = list(pairwise(mp_array_fields(tuple)))
    return [tuple[slice(*spans[number])] if number < len(spans) else b"" for number in fields]


def _changes(keys: KeyPlan, rows: pa.Table, rule: int) -> pa.Table:
    types = pc.take(_TYPES, pc.index_in(rows["op"], value_set=_NAMES))
    by_other = pc.and_(pc.is_in(types, pa.array([4, 5], pa.int32())), pc.greater(pc.fill_null(rows["index_id"], 0), 0))
    # UPDATE and DELETE by another index are in the log only if they found nothing: otherwise the key is rewritten to
    # that of the primary index (space.c, space_execute_dml).
    wanted = pc.and_not(pc.is_valid(types), by_other)
    if not pc.all(wanted).as_py():
        rows, types = rows.filter(wanted), types.filter(wanted)
    if not rows.num_rows:
        return CHANGES.empty_table()
    bodies, types = _one(rows["request"]), _one(types)
    found, hints = keys.keys(types, bodies)
    kinds = _KINDS.take(types)
    put = pc.equal(kinds, PUT)
    nothing = pa.scalar(None, pa.binary())
    columns = {
        "key": found,
        "hint": hints,
        "kind": kinds,
        "type": types,
        "tuple": tuples_of(pc.if_else(put, bodies, nothing)),
        "body": pc.if_else(pc.equal(kinds, RELATIVE), bodies, nothing),
        "rule": pa.repeat(pa.scalar(rule, pa.int32()), rows.num_rows),
        **{name: rows[name] for name in ("lsn", "replica_id", "ts")},
    }
    return pa.table([columns[name] for name in CHANGES.names], schema=CHANGES)


def _all(values: pa.ChunkedArray) -> bool:
    return pc.all(values).as_py() is not False


def _one(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _field_type(name: str) -> FieldType:
    found = type_by_name(name)
    return FieldType.ANY if found is None else found

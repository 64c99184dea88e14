"""Sequences: numbers that are never given twice (sequence.c, request.c request_handle_sequence).

The value lives in memory. `_sequence_data` holds it where a call of next, set or reset wrote a row; an insert that
takes the next value writes none, because every row inserted into the space tells the value: whoever applies the row,
a replica or recovery, moves the sequence on by it. A snapshot needs the values themselves (`Schema.store_sequences`).
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.errors import Er, er
from headwater.store.definitions import IndexDef
from headwater.store.identifier import check_identifier, is_too_long, too_long
from headwater.store.options import INT64_MAX, INT64_MIN
from headwater.store.privileges import Access
from headwater.store.rowview import Row
from headwater.typing import FieldType, UserId


@dataclass(frozen=True, slots=True)
class SequenceDef:
    """A row of `_sequence`."""

    id: int
    owner: UserId
    name: str
    step: int
    min: int
    max: int
    start: int
    cache: int
    cycle: bool


def read_sequence(row: Row, code: Er) -> SequenceDef:
    """sequence_def_new_from_tuple; `code` is CREATE_SEQUENCE or ALTER_SEQUENCE."""
    name = row.string(2)
    if is_too_long(name):
        raise too_long(code, name, "sequence")
    check_identifier(name)
    sequence_id, owner = row.u32(0), row.u32(1)
    step, low, high, start, cache = (row.i64(field) for field in range(3, 8))
    cycle = row.boolean(8)
    if step == 0:
        raise er(code, name, "step option must be non-zero")
    if low > high:
        raise er(code, name, "max must be greater than or equal to min")
    if not low <= start <= high:
        raise er(code, name, "start must be between min and max")
    return SequenceDef(sequence_id, UserId(owner), name, step, low, high, start, cache, cycle)


def check_key(pk: IndexDef, field: int, space: str) -> None:
    """The field that a sequence fills must be an integer of the primary key (index_def_check_sequence)."""
    part = next((part for part in pk.parts if part.field == field), None)
    if part is None:
        raise er(Er.MODIFY_INDEX, pk.name, space, "sequence field must be a part of the index")
    if part.type not in (FieldType.UNSIGNED, FieldType.INTEGER):
        raise er(Er.MODIFY_INDEX, pk.name, space, "sequence cannot be used with a non-integer key")


class Sequence:
    """A sequence and where it stands."""

    __slots__ = ("access", "definition", "is_generated", "value")

    def __init__(self, definition: SequenceDef) -> None:
        self.definition = definition
        self.value: int | None = None
        """The last value given; None before the first and after a reset."""
        self.is_generated = False
        """Made by a space for its primary key: privileges on the space are enough."""
        self.access = Access()

    @property
    def id(self) -> int:
        return self.definition.id

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def owner(self) -> int:
        return self.definition.owner

    def next(self) -> int:
        """Step on and give the new value; SEQUENCE_OVERFLOW at the end of one that does not cycle."""
        self.value = self._after(self.value)
        return self.value

    def _after(self, value: int | None) -> int:
        rules = self.definition
        if value is None:
            return rules.start
        if rules.step > 0:
            if value < rules.min:
                return rules.min
            if value + rules.step <= min(rules.max, INT64_MAX):
                return value + rules.step
        else:
            if value > rules.max:
                return rules.max
            if value + rules.step >= max(rules.min, INT64_MIN):
                return value + rules.step
        if not rules.cycle:
            raise er(Er.SEQUENCE_OVERFLOW, rules.name)
        return rules.min if rules.step > 0 else rules.max

    def set(self, value: int) -> None:
        """The next value will be the one after this."""
        self.value = value

    def update(self, value: int) -> None:
        """Move on to a value that was used without asking, never back (sequence_update)."""
        step = self.definition.step
        if self.value is None or (step > 0 and value > self.value) or (step < 0 and value < self.value):
            self.value = value

    def reset(self) -> None:
        self.value = None

    def current(self) -> int:
        """SEQUENCE_NOT_STARTED before the first value."""
        if self.value is None:
            raise er(Er.SEQUENCE_NOT_STARTED, self.name)
        return self.value

"""Sequences by themselves, in a space, and in the rows that carry them."""

from __future__ import annotations

import pytest
from tests.store.dictionary import Dictionary
from tests.store.test_spaces import refusal

from headwater.errors import Er
from headwater.store import system
from headwater.store.context import Source
from headwater.store.options import INT64_MAX, INT64_MIN
from headwater.store.sequence import Sequence, SequenceDef
from headwater.typing import UserId

SEQUENCE, DATA, ATTACHED = system.SEQUENCE, system.SEQUENCE_DATA, system.SPACE_SEQUENCE


def sequence(step: int = 1, low: int = 1, high: int = INT64_MAX, start: int = 1, cycle: bool = False) -> Sequence:
    return Sequence(SequenceDef(1, UserId(1), "s", step, low, high, start, 0, cycle))


def row(number: int = 1, name: str = "s", owner: int = 1, **options: object) -> list[object]:
    fields = {"step": 1, "min": 1, "max": INT64_MAX, "start": 1, "cache": 0, "cycle": False} | options
    return [number, owner, name, *fields.values()]


# ---- the machine ----------------------------------------------------------------------------------


def test_a_sequence_begins_at_its_start_and_steps() -> None:
    steps = sequence(step=5, start=10)
    assert refusal(steps.current) == (Er.SEQUENCE_NOT_STARTED, "Sequence 's' is not started")
    assert [steps.next(), steps.next(), steps.current()] == [10, 15, 15]


@pytest.mark.parametrize(("step", "bound"), [(3, {"high": 7}), (-3, {"low": -5, "high": 1})])
def test_at_the_end_it_overflows_or_cycles(step: int, bound: dict[str, int]) -> None:
    ends = sequence(step=step, **bound)
    values = [ends.next(), ends.next(), ends.next()]
    assert values == ([1, 4, 7] if step > 0 else [1, -2, -5])
    assert refusal(ends.next) == (Er.SEQUENCE_OVERFLOW, "Sequence 's' has overflowed")
    assert ends.current() == values[-1]
    cycles = sequence(step=step, cycle=True, **bound)
    assert [cycles.next() for _ in range(4)] == [*values, 1]


@pytest.mark.parametrize(("step", "last"), [(2, INT64_MAX - 1), (-2, INT64_MIN + 1)])
def test_the_ends_of_64_bits_are_no_way_around(step: int, last: int) -> None:
    far = sequence(step=step, low=INT64_MIN, high=INT64_MAX)
    far.set(last)
    assert refusal(far.next)[0] == Er.SEQUENCE_OVERFLOW


def test_out_of_range_values_come_back_into_range() -> None:
    up = sequence(low=5, high=9, start=5)
    up.set(-3)
    assert up.next() == 5
    down = sequence(step=-1, low=5, high=9, start=9)
    down.set(20)
    assert down.next() == 9


def test_used_values_move_it_on_and_never_back() -> None:
    up, down = sequence(), sequence(step=-1, low=-100, high=0, start=0)
    for value in (5, 3, 7):
        up.update(value)
        down.update(-value)
    assert (up.current(), down.current()) == (7, -7)
    up.reset()
    assert up.next() == 1


# ---- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"step": 0}, "step option must be non-zero"),
        ({"min": 5, "max": 4}, "max must be greater than or equal to min"),
        ({"start": 0}, "start must be between min and max"),
    ],
)
def test_a_bad_sequence_is_refused(node: Dictionary, options: dict[str, object], text: str) -> None:
    assert refusal(node.insert, SEQUENCE, *row(**options)) == (
        Er.CREATE_SEQUENCE,
        f"Failed to create sequence 's': {text}",
    )
    node.insert(SEQUENCE, *row())
    assert refusal(node.replace, SEQUENCE, *row(**options)) == (Er.ALTER_SEQUENCE, f"Can't modify sequence 's': {text}")


def test_values_come_and_go_with_rows_of_sequence_data(node: Dictionary) -> None:
    node.insert(SEQUENCE, *row())
    one = node.schema.sequence(1)
    node.replace(DATA, 1, 41)
    assert one.next() == 42
    assert refusal(node.delete, SEQUENCE, 1) == (Er.DROP_SEQUENCE, "Can't drop sequence 's': the sequence has data")
    node.delete(DATA, 1)
    assert one.value is None
    assert refusal(node.replace, DATA, 9, 1) == (Er.NO_SUCH_SEQUENCE, "Sequence '9' does not exist")
    node.delete(SEQUENCE, 1)
    assert refusal(node.schema.sequence, 1)[0] == Er.NO_SUCH_SEQUENCE


def test_a_number_given_is_never_taken_back_but_a_dropped_sequence_is(node: Dictionary) -> None:
    node.insert(SEQUENCE, *row())
    node.replace(DATA, 1, 10)
    node.written()
    one = node.schema.sequence(1)
    mark = node.mark
    node.replace(DATA, 1, 20)
    node.failed(mark)
    assert one.current() == 20
    node.delete(DATA, 1)
    node.delete(SEQUENCE, 1)
    node.failed(mark)
    assert node.schema.sequence(1) is one
    assert one.current() == 10


def test_a_failed_journal_takes_a_new_definition_back(node: Dictionary) -> None:
    node.insert(SEQUENCE, *row())
    node.written()
    mark = node.mark
    node.replace(SEQUENCE, *row(step=7))
    node.insert(SEQUENCE, *row(2, "other"))
    node.failed(mark)
    assert node.schema.sequence(1).definition.step == 1
    assert list(node.schema.sequences) == [1]


# ---- in a space -----------------------------------------------------------------------------------


@pytest.fixture
def counted(node: Dictionary) -> Dictionary:
    """Space 512 takes its keys from sequence 1."""
    node.create_space()
    node.create_index(512, 0, [[0, "unsigned"]])
    node.insert(SEQUENCE, *row())
    node.insert(ATTACHED, 512, 1, False, 0, "")
    node.written()
    return node


def test_a_nil_key_becomes_the_next_number(counted: Dictionary) -> None:
    assert counted.insert(512, None, "a") == [1, "a"]
    assert counted.replace(512, None, "b") == [2, "b"]
    assert counted.insert(512, 10, "c") == [10, "c"]
    assert counted.insert(512, None, "d") == [11, "d"]
    assert counted.insert(512, 5, "e") == [5, "e"]
    assert counted.insert(512, None) == [12]


def test_the_number_may_stand_in_any_field_of_the_key(node: Dictionary) -> None:
    node.create_space()
    node.create_index(512, 0, [[0, "string"], [2, "integer"]])
    node.insert(SEQUENCE, *row(step=-1, min=-9, max=0, start=0))
    node.insert(ATTACHED, 512, 1, False, 2, "")
    assert node.insert(512, "a", "b", None, "c") == ["a", "b", 0, "c"]
    assert node.insert(512, "a", "b", None, "c") == ["a", "b", -1, "c"]


def test_replicas_and_recovery_follow_the_rows_and_snapshots_do_not(counted: Dictionary) -> None:
    one = counted.schema.sequence(1)
    counted.insert(512, 7, source=Source.PEER)
    assert one.value == 7
    counted.insert(512, 9, source=Source.XLOG)
    assert one.value == 9
    counted.insert(512, 99, source=Source.SNAPSHOT)
    assert one.value == 9


def test_a_failed_insert_keeps_its_number(counted: Dictionary) -> None:
    mark = counted.mark
    counted.insert(512, None)
    counted.failed(mark)
    assert counted.insert(512, None) == [2]


def test_the_values_go_into_a_snapshot(counted: Dictionary) -> None:
    counted.insert(512, None)
    counted.insert(512, None)
    counted.insert(SEQUENCE, *row(2, "unused"))
    assert counted.rows(DATA) == []
    counted.schema.store_sequences()
    assert counted.rows(DATA) == [[1, 2]]


def test_privileges_on_a_sequence_are_asked_unless_the_space_made_it(counted: Dictionary) -> None:
    ann = counted.create_user(32, "ann")
    counted.grant(32, "universe", 0, 24)
    counted.grant(32, "space", 512, 3)
    counted.user = ann
    text = "Write access to sequence 's' is denied for user 'ann'"
    assert refusal(counted.insert, 512, None) == (Er.ACCESS_DENIED, text)
    counted.user = None
    counted.delete(ATTACHED, 512)
    counted.insert(ATTACHED, 512, 1, True, 0, "")
    counted.user = ann
    counted.insert(512, None)


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ([513, 1, False, 0, ""], Er.NO_SUCH_SPACE, "Space '513' does not exist"),
        ([512, 9, False, 0, ""], Er.NO_SUCH_SEQUENCE, "Sequence '9' does not exist"),
        (
            [512, 1, False, 1, ""],
            Er.MODIFY_INDEX,
            "Can't create or modify index 'i0' in space 't': sequence field must be a part of the index",
        ),
        ([512, 1, False, 0, "a"], Er.UNSUPPORTED, "Headwater does not support sequences on a JSON path"),
    ],
)
def test_a_bad_attachment_is_refused(node: Dictionary, fields: list[object], code: Er, text: str) -> None:
    node.create_space()
    node.create_index(512, 0, [[0, "unsigned"]])
    node.insert(SEQUENCE, *row())
    assert refusal(node.insert, ATTACHED, *fields) == (code, text)
    assert node.schema.space(512).sequence is None


def test_only_integers_are_counted(node: Dictionary) -> None:
    node.create_space()
    node.create_index(512, 0, [[0, "string"]])
    node.insert(SEQUENCE, *row())
    text = "Can't create or modify index 'i0' in space 't': sequence cannot be used with a non-integer key"
    assert refusal(node.insert, ATTACHED, 512, 1, False, 0, "") == (Er.MODIFY_INDEX, text)


def test_attachments_are_not_changed_and_hold_key_and_sequence(counted: Dictionary) -> None:
    assert refusal(counted.replace, ATTACHED, 512, 1, True, 0, "") == (
        Er.UNSUPPORTED,
        'space "_space_sequence" does not support update',
    )
    assert refusal(counted.delete, SEQUENCE, 1)[1] == "Can't drop sequence 's': the sequence is in use"
    text = "Can't modify space 't': can not drop primary key while space sequence exists"
    assert refusal(counted.delete, system.INDEX, 512, 0) == (Er.ALTER_SPACE, text)
    counted.delete(ATTACHED, 512)
    counted.insert(ATTACHED, 512, 1, True, 0, "")
    counted.create_space(513, "u")
    counted.create_index(513, 0, [[0, "unsigned"]])
    text = "Can't modify space 'u': can not attach generated sequence"
    assert refusal(counted.insert, ATTACHED, 513, 1, False, 0, "") == (Er.ALTER_SPACE, text)


def test_failed_journals_attach_and_detach_back(counted: Dictionary) -> None:
    space, one = counted.schema.space(512), counted.schema.sequence(1)
    mark = counted.mark
    counted.delete(ATTACHED, 512)
    assert space.sequence is None
    assert space.kernel is not None
    assert space.kernel.fast
    counted.failed(mark)
    assert space.sequence is one
    assert not space.kernel.fast
    counted.delete(ATTACHED, 512)
    counted.written()
    mark = counted.mark
    counted.insert(ATTACHED, 512, 1, True, 0, "")
    counted.failed(mark)
    assert space.sequence is None
    assert not one.is_generated

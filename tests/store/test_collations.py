"""Rows of `_collation`, and the order that they give to strings."""

from __future__ import annotations

import sys

import pytest
from tests.store.dictionary import Dictionary
from tests.store.test_spaces import refusal

from headwater.errors import Er
from headwater.store import system
from headwater.typing import IteratorType

COLLATION = system.COLLATION
NONE, UNICODE, UNICODE_CI, BINARY = range(4)


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ([300, "", 1, "ICU", "", {}], Er.IDENTIFIER, None),
        ([300, "x", 1, "Y", "", {}], Er.CANT_CREATE_COLLATION, "unknown collation type"),
        ([300, "x", 1, "ICU", "l" * 31, {}], Er.CANT_CREATE_COLLATION, "collation locale is too long"),
        (
            [300, "x", 1, "ICU", "", {"strength": "x"}],
            Er.CANT_CREATE_COLLATION,
            "ICU wrong strength option setting, expected PRIMARY | SECONDARY | TERTIARY | QUATERNARY | IDENTICAL",
        ),
        (
            [300, "x", 1, "ICU", "", {"case_first": "x"}],
            Er.CANT_CREATE_COLLATION,
            "ICU wrong case_first option setting, expected OFF | UPPER_FIRST | LOWER_FIRST",
        ),
        ([300, "x", 1, "ICU", "", {"nothing": 1}], Er.WRONG_COLLATION_OPTIONS, None),
    ],
)
def test_a_bad_collation_is_refused(node: Dictionary, fields: list[object], code: Er, text: str | None) -> None:
    got, message = refusal(node.insert, COLLATION, *fields)
    assert got == code
    if text is not None:
        assert message == f"Failed to initialize collation: {text}."


def test_collations_in_use_stay_and_none_are_altered(node: Dictionary) -> None:
    node.insert(COLLATION, 300, "mine", 1, "ICU", "ru_RU", {"strength": "PRIMARY"})
    node.create_space(format=[{"name": "a", "type": "string", "collation": 300}])
    text = "Can't drop collation 'mine': collation is referenced by space format"
    assert refusal(node.delete, COLLATION, 300) == (Er.DROP_COLLATION, text)
    text = "Can't drop collation 'none': system collation"
    assert refusal(node.delete, COLLATION, 0) == (Er.DROP_COLLATION, text)
    assert refusal(node.replace, COLLATION, 300, "other", 1, "ICU", "", {}) == (
        Er.UNSUPPORTED,
        "collation does not support alter",
    )
    node.delete(system.SPACE, 512)
    node.written()
    mark = node.mark
    node.delete(COLLATION, 300)
    assert node.schema.collations.by_name("mine") is None
    node.failed(mark)
    assert node.schema.collations.by_name("mine") is not None


def sorted_by(node: Dictionary, collation: int, words: list[str], unique: bool = True) -> list[object]:
    node.create_space()
    node.create_index(512, 0, [[0, "unsigned"]])
    part = {"field": 1, "type": "string", "collation": collation}
    node.create_index(512, 1, [part], unique=unique)
    for number, word in enumerate(words):
        node.insert(512, number, word)
    return [fields[1] for fields in node.rows(512, 1)]  # type: ignore[index]


WORDS = ["b", "A", "ä", "B", "a", "z"]


@pytest.mark.parametrize("collation", [NONE, BINARY])
def test_bytewise_order(node: Dictionary, collation: int) -> None:
    assert sorted_by(node, collation, WORDS) == ["A", "B", "a", "b", "z", "ä"]


def test_unicode_order(node: Dictionary) -> None:
    pytest.importorskip("icu")
    assert sorted_by(node, UNICODE, WORDS) == ["a", "A", "ä", "b", "B", "z"]


def test_unicode_ci_takes_letters_for_equal_that_differ_in_case_and_accent(node: Dictionary) -> None:
    pytest.importorskip("icu")
    assert sorted_by(node, UNICODE_CI, WORDS, unique=False) == ["A", "ä", "a", "b", "B", "z"]
    assert len(node.rows(512, 1, ["Ä"], IteratorType.EQ)) == 3
    node.create_space(513, "u")
    node.create_index(513, 0, [{"field": 0, "type": "string", "collation": UNICODE_CI}])
    node.insert(513, "straße")
    with pytest.raises(Exception, match="STRASSE"):
        node.insert(513, "STRASSE")


def test_locales_order_as_their_readers_do(node: Dictionary) -> None:
    pytest.importorskip("icu")
    swedish = node.schema.collations.by_name("unicode_sv_s3")
    assert swedish is not None
    assert sorted_by(node, swedish.id, ["z", "ö", "o", "å", "a", "ä"]) == ["a", "o", "z", "å", "ä", "ö"]


def test_the_primary_key_under_another_collation_still_tells_tuples_apart(node: Dictionary) -> None:
    """Tuples that a collation finds equal are told apart by the same field in the primary key."""
    pytest.importorskip("icu")
    node.create_space()
    node.create_index(512, 0, [[0, "string"]])
    node.create_index(512, 1, [{"field": 0, "type": "string", "collation": UNICODE_CI}], unique=False)
    for word in ("B", "b", "A", "a"):
        node.insert(512, word)
    assert node.rows(512, 1) == [["A"], ["a"], ["B"], ["b"]]
    node.delete(512, "a")
    assert node.rows(512, 1) == [["A"], ["B"], ["b"]]


def test_without_icu_the_order_is_refused_by_name_and_the_row_is_kept(
    node: Dictionary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "icu", None)
    node.create_space(format=[{"name": "a", "type": "string", "collation": UNICODE}])
    text = "Headwater without PyICU (the extra 'icu') does not support the collation 'unicode'"
    part = {"field": 0, "type": "string", "collation": UNICODE}
    assert refusal(node.create_index, 512, 0, [part]) == (Er.UNSUPPORTED, text)
    node.create_index(512, 0, [{"field": 0, "type": "string", "collation": BINARY}])

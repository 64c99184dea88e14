"""Positions of a stream as JSON."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from headwater.pipeline.errors import PipelineError
from headwater.pipeline.offsets import (
    Offset,
    Phase,
    Position,
    Via,
    covers,
    joined,
    missing_range,
    shared,
    stream_position,
)

SET, OTHER, UUID_ = (UUID(f"{digit}" * 8 + "-1111-4111-8111-" + f"{digit}" * 12) for digit in "abc")


def test_a_position_is_the_same_text_however_it_was_come_by() -> None:
    one = stream_position(SET, {2: 7, 1: 5, 0: 9, 3: 0}, UUID_)
    two = stream_position(SET, {1: 5, 2: 7}, UUID_)
    assert one == two
    assert one.to_json() == two.to_json()
    assert json.loads(one.to_json()) == {str(SET): {"phase": "stream", "uuid": str(UUID_), "vclock": {"1": 5, "2": 7}}}
    assert Position.from_json(one.to_json()) == one


def test_a_position_in_a_snapshot_names_it_with_component_0_and_who_has_it() -> None:
    position = Position(SET, Phase.SNAPSHOT, {0: 2, 1: 40}, UUID_, 250, Via.CURSOR, OTHER, 1, "abc=")
    found = json.loads(position.to_json())[str(SET)]
    assert found == {
        "attempt": 1,
        "phase": "snapshot",
        "row": 250,
        "schema": "abc=",
        "server": str(OTHER),
        "uuid": str(UUID_),
        "vclock": {"0": 2, "1": 40},
        "via": "cursor",
    }
    assert list(found) == sorted(found)
    assert Position.from_json(position.to_json()) == position


def test_sets_of_an_offset_have_one_order() -> None:
    positions = [stream_position(each, {1: 1}, UUID_) for each in (OTHER, SET)]
    text = Offset.of(positions).to_json()
    assert text == Offset.of(reversed(positions)).to_json()
    assert Offset.read(json.loads(text)).to_json() == text
    assert text.index(str(SET)) < text.index(str(OTHER))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"index": 5}, "written by another source"),
        ({"v": 2, "sets": {}}, "a later version of Headwater"),
        ({"v": 1}, "cannot be read"),
        ({"v": 1, "sets": {"no uuid": {}}}, "cannot be read"),
        ({"v": 1, "sets": {str(SET): {"phase": "stream", "uuid": str(UUID_), "vclock": {"1": -1}}}}, "cannot be read"),
    ],
)
def test_what_is_no_offset_of_ours_is_refused_with_a_remedy(found: dict[str, object], words: str) -> None:
    with pytest.raises(PipelineError, match=words) as caught:
        Offset.read(found)
    assert "checkpoint" in str(caught.value)


def test_vclocks_are_compared_without_component_0() -> None:
    assert covers({1: 5, 2: 3}, {0: 100, 1: 5})
    assert not covers({1: 5}, {2: 1})
    assert joined({1: 5, 2: 3, 0: 8}, {1: 4, 3: 1}) == {1: 5, 2: 3, 3: 1}
    assert shared({0: 4, 1: 0, 2: 6}) == {2: 6}
    assert missing_range({1: 17, 2: 9}, {1: 40, 2: 3, 3: 2}) == "1: 18..40, 3: 1..2"

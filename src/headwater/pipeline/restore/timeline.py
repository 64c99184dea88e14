"""How rows are parted from each place of the logs on: which spaces count, whose numbers are watched, where definitions
change. A machine."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.pipeline.restore.buckets import Layout
from headwater.pipeline.restore.keyspec import KeySpec, KeySpecPart
from headwater.pipeline.restore.split import Setup, Stop
from headwater.pipeline.restore.system import Life, Place, SystemState
from headwater.typing import FieldType

_ANY_KEY = KeySpec((KeySpecPart(0, int(FieldType.ANY)),), is_ordered=False)
_BEFORE = -1
"""Row before the first one of a part."""


class Timeline:
    """Of one state and one layout."""

    def __init__(self, state: SystemState, layout: Layout) -> None:
        self._lives: Mapping[int, Life] = state.lives
        self._layout = layout
        self._epochs = state.sequences.epochs
        watched = {space_id for _, fields in self._epochs for space_id in fields}
        self._spaces = sorted(watched | set(layout.first))

    def at_snapshot(self, space_id: int) -> Setup | None:
        """For rows of the snapshot; their numbers are in `_sequence_data`."""
        return self._setup(space_id, None, -1) if self._lives[space_id].since is None else None

    def at_part(self, part: int) -> tuple[tuple[Setup, ...], int]:
        """What holds at the first row of a part, and its epoch."""
        place = Place(part, _BEFORE)
        found = (self._at(space_id, place) for space_id in self._spaces)
        return tuple(setup for setup in found if setup is not None), self._epoch(place)

    def stops(self, part: int) -> tuple[Stop, ...]:
        """Where something changes within a part."""
        return tuple(self._stop(place) for place in sorted(self._places(part)))

    def _places(self, part: int) -> set[Place]:
        found = {since for since, _ in self._epochs if since is not None and since.part == part}
        for life in self._lives.values():
            found |= {each.since for each in life.definitions if each.since is not None and each.since.part == part}
        return found

    def _stop(self, place: Place) -> Stop:
        before = Place(place.part, place.row - 1)
        setups = []
        for space_id in self._spaces:
            old, new = self._at(space_id, before), self._at(space_id, place)
            if old != new:
                setups.append(new if new is not None else Setup(space_id))
        marks = tuple(
            (self._layout.first[space_id], self._last(space_id), space_id, number)
            for space_id, life in self._lives.items()
            for number, each in enumerate(life.definitions)
            if number and each.since == place and space_id in self._layout.first
        )
        return Stop(place.row, tuple(setups), marks, self._epoch(place))

    def _epoch(self, place: Place) -> int:
        return sum(1 for since, _ in self._epochs[1:] if since is not None and since <= place)

    def _at(self, space_id: int, place: Place) -> Setup | None:
        """What holds behind a place."""
        field = self._epochs[self._epoch(place)][1].get(space_id, -1)
        return self._setup(space_id, place, field)

    def _setup(self, space_id: int, place: Place | None, field: int) -> Setup | None:
        life = self._lives.get(space_id)
        is_here = space_id in self._layout.first and life is not None
        if is_here and life is not None and (place is None or life.since is None or life.since <= place):
            key = life.now.key
            return Setup(space_id, key, tuple(self._layout.bounds[space_id]), self._layout.first[space_id], field)
        return Setup(space_id, _ANY_KEY, (), self._layout.count, field) if field >= 0 else None

    def _last(self, space_id: int) -> int:
        return self._layout.first[space_id] + len(self._layout.bounds[space_id])

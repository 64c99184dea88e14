"""What sequences have come to (sequence.c; alter.cc, on_replace_dd_sequence_data).

`_sequence_data` has what was set or drawn by hand. A number that a row of a space brings moves the sequence of that
space on, never back, and no row tells it. Between two events the order of such rows does not matter, only their
greatest number; so numbers are gathered by epoch, from one event to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.store import system
from headwater.wire.msgpack import unpack

if TYPE_CHECKING:
    from headwater.pipeline.restore.system import Place

_STEP = 3
"""Field of `_sequence`."""


@dataclass(frozen=True, slots=True)
class _Event:
    place: Place
    attachments: Mapping[int, tuple[int, int]] | None = None
    """Space → (sequence, field) from here on."""
    sequence: int = 0
    step: int | None = None
    """It steps so from here on; 0: it is gone."""
    value: int | None = None
    is_set: bool = False
    """Its value is this one from here on; None: it has not begun."""


class Sequences:
    """All of them."""

    def __init__(
        self, definitions: Iterable[bytes], data: Iterable[bytes], attachments: Mapping[int, tuple[int, int]]
    ) -> None:
        """As the snapshot has them."""
        self._steps: dict[int, int] = {row[0]: row[_STEP] for row in map(unpack, definitions)}
        self._values: dict[int, int] = {row[0]: row[1] for row in map(unpack, data)}
        self._attachments = attachments
        self.events: list[_Event] = []

    @property
    def epochs(self) -> Sequence[tuple[Place | None, Mapping[int, int]]]:
        """(since when, space → field to watch), one for each epoch."""
        found: list[tuple[Place | None, Mapping[int, int]]] = [(None, _fields(self._attachments))]
        for event in self.events:
            watched = found[-1][1] if event.attachments is None else _fields(event.attachments)
            found.append((event.place, watched))
        return found

    def changed(self, space_id: int, row: Sequence[Any], place: Place, *, is_gone: bool) -> None:
        """A row of `_sequence` or `_sequence_data` came, or went."""
        if space_id == system.SEQUENCE:
            self.events.append(_Event(place, sequence=row[0], step=0 if is_gone else row[_STEP]))
        else:
            self.events.append(_Event(place, sequence=row[0], value=None if is_gone else row[1], is_set=True))

    def attached(self, attachments: Mapping[int, tuple[int, int]], place: Place) -> None:
        self.events.append(_Event(place, attachments=attachments))

    def values(self, numbers: Iterable[tuple[int, Mapping[int, tuple[int, int]]]]) -> dict[int, int]:
        """By sequence, at the end. `numbers`: (epoch, space → least and greatest number that rows brought)."""
        by_epoch: dict[int, list[Mapping[int, tuple[int, int]]]] = {}
        for epoch, found in numbers:
            by_epoch.setdefault(epoch, []).append(found)
        values, steps, attachments = dict(self._values), dict(self._steps), self._attachments
        for epoch in range(len(self.events) + 1):
            for found in by_epoch.get(epoch, ()):
                for space_id, (least, greatest) in found.items():
                    _move(values, steps, attachments[space_id][0], least, greatest)
            if epoch == len(self.events):
                break
            event = self.events[epoch]
            if event.attachments is not None:
                attachments = event.attachments
            elif event.is_set:
                _set(values, event.sequence, event.value)
            elif event.step:
                steps[event.sequence] = event.step
            else:
                steps.pop(event.sequence, None)
                values.pop(event.sequence, None)
        return values


def _fields(attachments: Mapping[int, tuple[int, int]]) -> Mapping[int, int]:
    return {space_id: field for space_id, (_, field) in attachments.items()}


def _set(values: dict[int, int], sequence: int, value: int | None) -> None:
    if value is None:
        values.pop(sequence, None)
    else:
        values[sequence] = value


def _move(values: dict[int, int], steps: Mapping[int, int], sequence: int, least: int, greatest: int) -> None:
    """sequence_update"""
    before = values.get(sequence)
    if steps.get(sequence, 1) > 0:
        values[sequence] = greatest if before is None else max(before, greatest)
    else:
        values[sequence] = least if before is None else min(before, least)

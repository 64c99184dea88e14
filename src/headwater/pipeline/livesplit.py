"""Ranges of about the same number of tuples, found by stepping through an index on the server.

Each step is a SELECT of one tuple with an offset: the server passes over so many tuples and sends one. Steps are small,
so that none holds up the server for more than some milliseconds, and grow with the space.
"""

from __future__ import annotations

from headwater.client import statements
from headwater.client.pipe import Pipe
from headwater.pipeline.keyrange import Cutter, KeyRange, Order
from headwater.typing import IteratorType
from headwater.wire.msgpack import unpack

__all__ = ["split"]

_STEP_FIRST, _STEP_MOST = 256, 1 << 16
_KEPT_PER_PART = 16


def split(pipe: Pipe, order: Order, wanted: KeyRange, parts: int) -> list[KeyRange]:
    """At most so many ranges that make up this one."""
    if parts < 2 or not order.is_total or not order.is_known or wanted.is_point:
        return [wanted]
    keys = _borders(pipe, order, wanted, parts)
    chosen = [keys[number * len(keys) // parts] for number in range(1, parts) if keys]
    borders = list(dict.fromkeys(chosen))
    begins = [(wanted.begin, wanted.with_begin), *((key, True) for key in borders)]
    ends = [*((key, False) for key in borders), (wanted.end, wanted.with_end)]
    return [
        KeyRange(begin, end, with_begin, with_end)
        for (begin, with_begin), (end, with_end) in zip(begins, ends, strict=True)
    ]


def _borders(pipe: Pipe, order: Order, wanted: KeyRange, parts: int) -> list[tuple[object, ...]]:
    """Keys with about the same number of tuples between them."""
    key_def = order.key_def()
    cutter = Cutter(order, wanted)
    keys: list[tuple[object, ...]] = []
    step, iterator, key = _STEP_FIRST, wanted.first_iterator, wanted.first_key
    while True:
        asked = statements.select(order.space.id, order.index.id, iterator=iterator, key=key, limit=1, offset=step)
        found = pipe.tuples(asked)
        if not found or not cutter.inside(1, found.__getitem__):
            return keys
        key, iterator = key_def.extract(found[0]), IteratorType.GE
        keys.append(tuple(unpack(key)))
        if len(keys) >= _KEPT_PER_PART * parts and step < _STEP_MOST:
            keys = keys[1::2]
            step *= 2

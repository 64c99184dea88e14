"""A conflict hook: a function of the user's that decides about each row of a peer. Its faults are told as its own."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from headwater.errors import BoxError, Er, er
from headwater.options import Options
from headwater.replication.conflict import (
    Answer,
    Evict,
    Hook,
    Judge,
    Keep,
    PeerRow,
    Put,
    Rival,
    Sight,
    Stop,
    Take,
    values,
)
from headwater.store.cluster import Cluster
from headwater.txn.base import PRIMARY, index_of, kernel_of
from headwater.wire.constants import type_name
from headwater.wire.msgpack import pack, unpack
from headwater.wire.xrow import Row


class Asking(Judge):
    """Asks the function `name`."""

    sees_all = True

    def __init__(
        self, options: Options, name: str, hook: Hook, members: Callable[[], Cluster], now: Callable[[], float]
    ) -> None:
        super().__init__(options)
        self._name = name
        self._hook = hook
        self._members = members
        self._now = now

    def sees(self, row: Row, sight: Sight) -> Answer:
        rivals = sight.find_rivals()
        shown = self._show(row, sight, rivals)
        match self._ask(shown):
            case Stop(words):
                raise self._fault(shown, words)
            case Keep() as answer:
                return answer
            case Put(made):
                return Put(self._packed(shown, sight, made))
            case Take(evict) as answer:
                if evict and rivals:
                    order = index_of(kernel_of(sight.space), PRIMARY).key_def
                    raise Evict(sight.space, [order.extract(rival.tuple) for rival in rivals])
                return answer
            case other:
                raise self._fault(shown, f"answered {other!r}, not Take, Keep, Put or Stop")

    def _show(self, row: Row, sight: Sight, rivals: tuple[Rival, ...]) -> PeerRow:
        member = self._members().by_id(row.replica_id)
        return PeerRow(
            space_id=sight.space.id,
            space=sight.space.name,
            kind=type_name(row.type) or str(row.type),
            key=tuple(unpack(sight.key)),
            old=values(sight.old),
            new=values(sight.new),
            rivals=tuple((rival.index, list(unpack(rival.tuple))) for rival in rivals),
            origin=row.replica_id,
            origin_uuid=member.uuid if member is not None else None,
            lsn=row.lsn,
            timestamp=row.timestamp,
            now=self._now(),
        )

    def _ask(self, shown: PeerRow) -> object:
        try:
            return self._hook(shown)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            words = f"raised {type(error).__name__}: {error} ({where.filename}:{where.lineno})"
            raise self._fault(shown, words) from error

    def _packed(self, shown: PeerRow, sight: Sight, made: object) -> bytes:
        if not isinstance(made, list | tuple):
            raise self._fault(shown, f"gave {made!r} for a tuple")
        try:
            data = pack(list(made))
        except (TypeError, ValueError, OverflowError) as error:
            raise self._fault(shown, f"gave a tuple that cannot be packed: {error}") from None
        order = index_of(kernel_of(sight.space), PRIMARY).key_def
        try:
            is_same = order.compare_with_key(data, sight.key) == 0
        except (ValueError, TypeError):
            is_same = False
        if not is_same:
            raise self._fault(shown, f"gave {made!r}, which has not the primary key {list(shown.key)!r}")
        return data

    def _fault(self, shown: PeerRow, words: str) -> BoxError:
        where = f"row {{{shown.origin}: {shown.lsn}}} of space '{shown.space}'"
        return er(Er.PROC_LUA, f"conflict hook '{self._name}', {where}: {words}")

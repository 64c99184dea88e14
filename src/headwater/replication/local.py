"""Rows of a local system space that the node writes itself: they are in its journal and never leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.typing import IteratorType, SpaceId
from headwater.wire.constants import Key, Type
from headwater.wire.mpwrite import pack_map_head, pack_uint

if TYPE_CHECKING:
    from headwater.kernels import MemtxSpace
    from headwater.replication.host import Host

_LOCAL = 1
"""The group of rows that stay here."""
_EMPTY = b"\x90"


class LocalSpace:
    """One such space, which need not be there. What is written is prepared; the caller lets the journal settle."""

    def __init__(self, host: Host, space_id: SpaceId) -> None:
        self._host = host
        self._id = space_id

    @property
    def exists(self) -> bool:
        return self._kernel is not None

    @property
    def _kernel(self) -> MemtxSpace | None:
        space = self._host.schema.spaces.get(self._id)
        return space.kernel if space is not None and space.pk is not None else None

    def tuples(self) -> list[bytes]:
        """In the order of the primary key."""
        kernel = self._kernel
        index = kernel.index(0) if kernel is not None else None
        return [] if index is None else index.select(IteratorType.ALL, _EMPTY)

    def replace(self, data: bytes) -> None:
        kernel = self._kernel
        assert kernel is not None, "no such space"
        kernel.replace(data)
        self._write(Type.REPLACE, Key.TUPLE, data)

    def delete(self, key: bytes) -> None:
        kernel = self._kernel
        assert kernel is not None, "no such space"
        kernel.delete(0, key)
        self._write(Type.DELETE, Key.KEY, key)

    def _write(self, type_: Type, key: Key, value: bytes) -> None:
        memtx = self._host.memtx
        memtx.timestamp = self._host.world.clock.time()
        space_id = pack_uint(Key.SPACE_ID) + pack_uint(self._id)
        memtx.add_row(type_, _LOCAL, pack_map_head(2) + space_id + pack_uint(key) + value)

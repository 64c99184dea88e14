"""The dictionary at a position of a stream, packed so small that it travels in the offset.

After a restart Spark plans its last batch again, from the offsets in its checkpoint alone. The rows of that batch are
to be read under the definitions that held then, and a server only tells what holds now. So the checkpoint itself has
them: what is needed of each space, and nothing about those of the system, which are the same everywhere.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping, Sequence

from headwater.errors import HeadwaterError
from headwater.kernels.columns import RowError, pick
from headwater.pipeline.dictionary import WATCHED, Dictionary
from headwater.pipeline.errors import PipelineError
from headwater.store import system
from headwater.store.bootstrap import bootstrap_rows
from headwater.store.bootstrap_tables import V3_8_0
from headwater.wire.msgpack import pack, unpack
from headwater.wire.xrow import Row, decode_row

_FORMAT = 6
"""Field of `_space`."""


class History:
    """Packs and unpacks. A stream of typed rows needs formats too, also of spaces that may take its space's name."""

    def __init__(self, space: str | None = None) -> None:
        self._space = space
        self._known: dict[str, Dictionary] = {}
        """What was packed or unpacked last."""

    def pack(self, dictionary: Dictionary) -> str:
        wanted = dictionary.find(self._space) if self._space is not None else None
        kept = []
        for space_id, packed in dictionary.tuples():
            fields = unpack(packed)
            if system.is_system(fields[0]) and (wanted is None or fields[0] != wanted.id):
                continue
            if self._space is None:
                if space_id == system.INDEX and fields[1] != 0:
                    continue
                if space_id == system.SPACE and len(fields) > _FORMAT:
                    packed = pack([*fields[:_FORMAT], []])
            kept.append((space_id, packed))
        text = base64.b64encode(zlib.compress(pack(sorted(kept)), 9)).decode()
        self._known = {text: dictionary.copy()}
        return text

    def unpack(self, schema: str) -> Dictionary:
        """A copy, to be moved on."""
        found = self._known.get(schema)
        if found is None:
            found = unpack_schema(schema)
            self._known = {schema: found}
        return found.copy()

    def after(self, schema: str, changes: Iterable[bytes]) -> str:
        """The dictionary behind rows of `_space` and `_index`."""
        dictionary = self.unpack(schema)
        for row in changes:
            dictionary.apply_bytes(row)
        return self.pack(dictionary)


def unpack_schema(schema: str) -> Dictionary:
    """Of no text: the spaces of the system."""
    try:
        tuples = unpack(zlib.decompress(base64.b64decode(schema, validate=True))) if schema else []
        return Dictionary.from_tuples([*bootstrap_rows(V3_8_0), *map(tuple, tuples)])
    except (binascii.Error, zlib.error, HeadwaterError, TypeError, ValueError) as error:
        raise PipelineError(
            f"The checkpoint of this query holds definitions of spaces that cannot be read: {error}. If it was changed "
            "by hand, take the file in its directory `offsets` back; otherwise begin with another checkpointLocation."
        ) from None


def changes_in(packets: bytes) -> tuple[bytes, ...]:
    """The rows of `_space` and `_index` among packets."""
    try:
        return tuple(packets[begin:end] for begin, end in pick(packets, 0, WATCHED, True))
    except RowError as error:
        raise PipelineError(f"The server sends a row that cannot be read: {error.reason}.") from None


def rows_between(changes: Sequence[bytes], low: Mapping[int, int], high: Mapping[int, int]) -> list[bytes]:
    """Those with low < LSN <= high, and those without LSN, which are of a snapshot."""

    def is_between(row: Row) -> bool:
        return not row.lsn or low.get(row.replica_id, 0) < row.lsn <= high.get(row.replica_id, 0)

    return [change for change in changes if is_between(decode_row(change)[0])]

"""A live node, Headwater or Tarantool, as a source of data: SELECT page by page, each behind the primary key that the
one before it ended with. Every version can do that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from headwater.cli.diffsource import INDEX_ID, SPACE_ID, CannotCompareError, Part, parts_of
from headwater.client.link import WireClient
from headwater.kernels import mp_array_fields, mp_next
from headwater.typing import IteratorType, SpaceId
from headwater.uri import Uri
from headwater.wire import request
from headwater.wire.ballot import decode_ballot
from headwater.wire.constants import Key, Type
from headwater.wire.mpwrite import pack_map_head, pack_uint
from headwater.wire.xrow import Row

PAGE_BYTES = 1 << 20
"""How much a page should have; a node is not kept busy for long by one."""
FIRST_PAGE = 64
LARGEST_PAGE = 20_000
AT_ONCE = 500
"""How many tuples are asked for by their keys before the answers are read."""
NO_KEY = b"\x90"


class LiveSource:
    """One connection."""

    is_live = True

    def __init__(self, uri: Uri) -> None:
        self.name = str(uri)
        self._client = WireClient(uri)

    def close(self) -> None:
        self._client.close()

    def vclock(self) -> Mapping[int, int]:
        """As everybody may know it."""
        return decode_ballot(self._client.ask(Type.VOTE)).vclock

    def parts(self) -> dict[str, Part]:
        spaces = [data for page in self._pages(SPACE_ID, (0,)) for data in page]
        indexes = [data for page in self._pages(INDEX_ID, (0, 1)) for data in page]
        return parts_of(spaces, indexes)

    def tuples(self, part: Part) -> Iterator[Sequence[bytes]]:
        return map(part.common, self._pages(part.id, part.key))

    def get(self, part: Part, keys: Sequence[bytes]) -> list[bytes | None]:
        found: list[bytes | None] = []
        for at in range(0, len(keys), AT_ONCE):
            found += self._get(part.id, keys[at : at + AT_ONCE])
        return found

    def _get(self, space: SpaceId, keys: Sequence[bytes]) -> Iterator[bytes | None]:
        syncs = [self._client.next_sync() for _ in keys]
        packets = (
            request.encode(Type.SELECT, sync, _select(space, IteratorType.EQ, key, 1))
            for sync, key in zip(syncs, keys, strict=True)
        )
        self._client.send(b"".join(packets))
        for row in self._client.answers(syncs):
            tuples = self._tuples(row)
            yield tuples[0] if tuples else None

    def _pages(self, space: SpaceId, key: tuple[int, ...]) -> Iterator[list[bytes]]:
        part = Part(space, "", key)
        iterator, after, limit = IteratorType.ALL, NO_KEY, FIRST_PAGE
        while True:
            page = self._tuples(self._client.ask(Type.SELECT, _select(space, iterator, after, limit)))
            if page:
                yield page
            if len(page) < limit:
                return
            iterator, after = IteratorType.GT, part.key_of(page[-1])
            size = max(1, sum(map(len, page)) // len(page))
            limit = min(LARGEST_PAGE, max(1, PAGE_BYTES // size), limit * 8)

    def _tuples(self, row: Row) -> list[bytes]:
        body = row.body
        at = 1
        for _ in range(body[0] & 0x0F if body else 0):
            if body[at] == Key.DATA:
                fields = mp_array_fields(body, at + 1)
                return [body[begin:end] for begin, end in pairwise(fields)]
            at = mp_next(body, mp_next(body, at))
        raise CannotCompareError(f"{self.name}: the answer to a SELECT has no tuples")


def _select(space: SpaceId, iterator: IteratorType, key: bytes, limit: int) -> bytes:
    pairs = (
        (Key.SPACE_ID, pack_uint(space)),
        (Key.INDEX_ID, pack_uint(0)),
        (Key.LIMIT, pack_uint(limit)),
        (Key.OFFSET, pack_uint(0)),
        (Key.ITERATOR, pack_uint(iterator)),
        (Key.KEY, key),
    )
    return pack_map_head(len(pairs)) + b"".join(pack_uint(name) + value for name, value in pairs)

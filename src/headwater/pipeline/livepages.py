"""Tuples of a live space, page by page: each page is one SELECT, asked for while the one before it is decoded.

Behind the first page the next one begins behind the last tuple that came: by its key, where a key says which tuple it
is, so that any server can do it; by the tuple itself on servers from 2.11 on. A HASH index has no such order: it is
read by one request. When the server goes away, another member that has at least what the reader was promised goes on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headwater.client import ConnectionFailed, statements
from headwater.client.pipe import Load, Pipe
from headwater.errors import BoxError
from headwater.kernels import mp_array_fields
from headwater.pipeline.errors import PipelineError
from headwater.pipeline.keyrange import Cutter, KeyRange, Order
from headwater.pipeline.leader import Seeker, is_elsewhere
from headwater.typing import IteratorType
from headwater.wire.body import fields
from headwater.wire.constants import Key, MpType, Type
from headwater.wire.xrow import Row

__all__ = ["Page", "Pages", "Reading"]

_FIRST_ROWS = 1000
_WHOLE = 0xFFFFFFFF
_STREAM = 1


@dataclass(frozen=True, slots=True)
class Reading:
    """How pages are asked for."""

    order: Order
    rows_max: int
    """Of a page."""
    bytes_wanted: int
    """Of a page; a server counts tuples, so it is a matter of experience."""
    read_view: bool
    """All pages in one transaction."""
    from_leader: bool
    at_least: Mapping[int, int]
    """Whoever is read must be at this vclock."""


@dataclass(slots=True)
class Page:
    """Tuples in a row; number i is data[offsets[i]:offsets[i + 1]]."""

    offsets: array[int]
    data: bytes
    count: int

    def tuple(self, number: int) -> bytes:
        return self.data[self.offsets[number] : self.offsets[number + 1]]

    @property
    def size(self) -> int:
        return self.offsets[self.count] - self.offsets[0]


class Pages:
    """Pages of one range."""

    def __init__(self, reading: Reading, range: KeyRange, seeker: Seeker, first_host: int = 0) -> None:
        self._reading = reading
        self._range = range
        self._seeker = seeker
        self._first_host = first_host
        self._limit = min(_FIRST_ROWS, reading.rows_max)
        self._last: bytes | None = None
        """The last tuple that came."""
        self._pipe: Pipe | None = None
        self.host = ""
        """Who is being read."""

    def __iter__(self) -> Iterator[Page]:
        try:
            if self._reading.order.is_tree:
                yield from self._walk()
            else:
                yield from self._whole()
        finally:
            self.close()

    def close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    # ---- a tree

    def _walk(self) -> Iterator[Page]:
        cutter = Cutter(self._reading.order, self._range) if self._range.end is not None else None
        asked = self._ask("")
        while True:
            page, limit = self._answer(asked)
            self._learn(page)
            inside = page.count if cutter is None else cutter.inside(page.count, page.tuple)
            is_last = inside < page.count or page.count < limit
            if not is_last:
                self._last = page.tuple(page.count - 1)
                asked = self._ask("")
            if inside:
                page.count = inside
                yield page
            if is_last:
                return

    def _whole(self) -> Iterator[Page]:
        """All tuples by one request."""
        self._limit = _WHOLE
        page, _ = self._answer(self._ask(""))
        if page.count:
            yield page

    def _learn(self, page: Page) -> None:
        """How many tuples the next page may have."""
        if page.count:
            wanted = self._reading.bytes_wanted * page.count // max(page.size, 1)
            self._limit = max(1, min(wanted, 4 * self._limit, self._reading.rows_max))

    # ---- requests

    def _ask(self, avoid: str) -> tuple[Load, int, int]:
        """Begin to ask for the next page: (load, sync, limit)."""
        while True:
            try:
                pipe = self._pipe or self._connect(avoid)
                sync, packet = pipe.wanted(Type.SELECT, self._select(pipe), _STREAM if self._reading.read_view else 0)
                return pipe.post([packet], 0, 0, (sync,)), sync, self._limit
            except ConnectionFailed as error:
                avoid = self._gone(error)

    def _answer(self, asked: tuple[Load, int, int]) -> tuple[Page, int]:
        load, sync, limit = asked
        while True:
            pipe = self._pipe
            assert pipe is not None, "it was asked"
            try:
                pipe.settle(load)
                answer = load.answers[sync]
                if isinstance(answer, BoxError):
                    raise answer
                return _page_of(answer), limit
            except (BoxError, ConnectionFailed) as error:
                if not is_elsewhere(error):
                    raise PipelineError(f"{pipe.uri} refuses to be read: {error}") from None
                load, sync, limit = self._ask(self._gone(error))

    def _gone(self, error: Exception) -> str:
        """Who shall not be asked next."""
        address = self._pipe.uri.address if self._pipe is not None else ""
        self.close()
        if self._reading.read_view and self.host:
            raise PipelineError(
                f"{self.host} went away while a read view of it was read: {error}. The picture of another member is "
                "another one; read again."
            ) from None
        return address

    def _connect(self, avoid: str) -> Pipe:
        reading = self._reading
        if reading.from_leader:
            self._pipe = self._seeker.leader(avoid)
        else:
            self._pipe = self._seeker.any(self._first_host, reading.at_least, avoid)
        self.host = str(self._pipe.uri)
        if reading.read_view:
            self._pipe.call(Type.BEGIN, b"", _STREAM)
        return self._pipe

    def _select(self, pipe: Pipe) -> bytes:
        order, wanted = self._reading.order, self._range
        space, index = order.space.id, order.index.id
        if self._last is None:
            return statements.select(
                space, index, iterator=wanted.first_iterator, key=wanted.first_key, limit=self._limit
            )
        if order.is_total:
            key = order.key_def().extract(self._last)
            return statements.select(space, index, iterator=IteratorType.GT, key=key, limit=self._limit)
        if not pipe.has_pages:
            raise PipelineError(
                f"{pipe.uri} (version {pipe.version}) cannot go on in the index '{order.index.name}' of space "
                f"'{order.space.name}', whose keys do not say which tuple it is: servers from 2.11 on can. Read by "
                "another index (option 'index')."
            )
        iterator = IteratorType.GE if not wanted.is_point else IteratorType.EQ
        return statements.select(
            space, index, iterator=iterator, key=wanted.first_key, limit=self._limit, after=self._last
        )


def _page_of(row: Row) -> Page:
    for key, kind, at, _ in fields(row.body, 0):
        if key == Key.DATA and kind == MpType.ARRAY:
            borders = mp_array_fields(row.body, at)
            return Page(array("i", borders), row.body, len(borders) - 1)
    return Page(array("i", [0]), b"", 0)

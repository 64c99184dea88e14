"""Two sources, space by space: checksums first, and for spaces that differ the tuples that do.

Live nodes go on changing while they are read. A tuple counts as different when it is so each time it is looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from headwater.cli.diffdigest import Digest, gather, portions
from headwater.cli.diffsource import SEQUENCE_DATA_ID, CannotCompareError, Part, Source

GATHERED_ROWS = 200_000
"""How many tuples of a side are in memory at once, about."""
LOOKED_AT_ONCE = 1000
LOOKS = 4
"""How often a difference of live nodes is looked at before it is believed."""
PAUSE_SECONDS = 0.25

Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Difference:
    """One primary key."""

    space: str
    a: bytes | None
    b: bytes | None


@dataclass(slots=True)
class SpaceResult:
    """One space."""

    name: str
    rows_a: int | None
    """None: it is not there."""
    rows_b: int | None
    checksum_a: str = ""
    checksum_b: str = ""
    differences: list[Difference] = field(default_factory=list)
    is_cut: bool = False
    """There are more of them."""
    moved: bool = False
    """It differed when it was read, and on a second look no more."""

    @property
    def is_same(self) -> bool:
        if self.rows_a is None or self.rows_b is None:
            return False
        return self.moved or (self.rows_a == self.rows_b and self.checksum_a == self.checksum_b)


class Comparison:
    """Of two sources that are open."""

    def __init__(self, a: Source, b: Source, *, limit: int, sleep: Sleep = time.sleep) -> None:
        """`limit`: how many differences of a space are looked for; 0 is all."""
        self.a = a
        self.b = b
        self.limit = limit
        self._sleep = sleep
        self._is_live = a.is_live or b.is_live
        self._quiet_at: tuple[dict[int, int], dict[int, int]] | None = None
        """Where the two stood, each in its place, while time went by."""

    def run(self, wanted: Sequence[str] = (), *, system: bool = True) -> Iterator[SpaceResult]:
        """Every space, or the `wanted` ones by name or id; those that only one has, too."""
        parts_a, parts_b = self.a.parts(), self.b.parts()
        for name in self._names(parts_a, parts_b, wanted, system=system):
            one, two = parts_a.get(name), parts_b.get(name)
            yield self._space(one, two) if one and two else self._alone(name, one, two)

    def _names(
        self, parts_a: dict[str, Part], parts_b: dict[str, Part], wanted: Sequence[str], *, system: bool
    ) -> list[str]:
        both = sorted({**parts_b, **parts_a}.values(), key=lambda part: (part.id, part.name))
        if wanted:
            absent = [each for each in wanted if not any(_is_called(part, each) for part in both)]
            if absent:
                raise CannotCompareError(f"no space '{absent[0]}' that could be compared, neither here nor there")
            return [part.name for part in both if any(_is_called(part, each) for each in wanted)]
        return [part.name for part in both if (system or not part.is_system) and self._is_comparable(part)]

    def _is_comparable(self, part: Part) -> bool:
        """A live node answers a SELECT from `_sequence_data` with what was stored last, which is not what its sequences
        have come to (sequence.c, sequence_data_get); snapshots have that."""
        return part.id != SEQUENCE_DATA_ID or not self._is_live

    def _alone(self, name: str, one: Part | None, two: Part | None) -> SpaceResult:
        if one is not None:
            return SpaceResult(name, _digest(self.a, one).rows, None)
        assert two is not None
        return SpaceResult(name, None, _digest(self.b, two).rows)

    def _space(self, one: Part, two: Part) -> SpaceResult:
        with ThreadPoolExecutor(1) as other:
            reading = other.submit(_digest, self.b, two)
            digest_a = _digest(self.a, one)
            digest_b = reading.result()
        result = SpaceResult(one.name, digest_a.rows, digest_b.rows, digest_a.checksum, digest_b.checksum)
        if not digest_a.is_equal(digest_b):
            found = self._differences(one, two, digest_a, digest_b)
            for difference in found:
                if self.limit and len(result.differences) == self.limit:
                    result.is_cut = True
                    break
                result.differences.append(difference)
            result.moved = not result.differences
        return result

    # ---- which tuples

    def _differences(self, one: Part, two: Part, digest_a: Digest, digest_b: Digest) -> Iterator[Difference]:
        rows = max(digest_a.rows, digest_b.rows)
        seen: set[bytes] = set()
        for portion in portions(digest_a.differing(digest_b), rows, GATHERED_ROWS):
            tuples_a = gather(self.a.tuples(one), portion)
            tuples_b = gather(self.b.tuples(two), portion)
            only_a = [data for number, data in tuples_a.items() if number not in tuples_b]
            only_b = [data for number, data in tuples_b.items() if number not in tuples_a]
            if one.key != two.key:
                yield from (Difference(one.name, data, None) for data in only_a)
                yield from (Difference(one.name, None, data) for data in only_b)
                continue
            keys = dict.fromkeys(one.key_of(data) for data in (*only_a, *only_b))
            fresh = [key for key in keys if key not in seen]
            seen.update(fresh)
            for at in range(0, len(fresh), LOOKED_AT_ONCE):
                yield from self._look(one, two, fresh[at : at + LOOKED_AT_ONCE])

    def _look(self, one: Part, two: Part, keys: Sequence[bytes]) -> list[Difference]:
        """What is different under these keys, and stays it."""
        found: list[Difference] = []
        for _ in range(LOOKS):
            pairs = zip(keys, self.a.get(one, keys), self.b.get(two, keys), strict=True)
            different = [(key, a, b) for key, a, b in pairs if a != b]
            keys = [key for key, _, _ in different]
            found = [Difference(one.name, a, b) for _, a, b in different]
            if not found or self._is_quiet():
                break
        return found

    def _is_quiet(self) -> bool:
        """Is no row on its way? Both have the same rows then, or neither has got any for a while."""
        if not self._is_live:
            return True
        now = self._vclocks()
        if now[0] != now[1] and now != self._quiet_at:
            self._sleep(PAUSE_SECONDS)
            before, now = now, self._vclocks()
            self._quiet_at = now if now == before else None
        return now[0] == now[1] or now == self._quiet_at

    def _vclocks(self) -> tuple[dict[int, int], dict[int, int]]:
        return dict(self.a.vclock()), dict(self.b.vclock())


def _is_called(part: Part, wanted: str) -> bool:
    return wanted in (part.name, str(part.id))


def _digest(source: Source, part: Part) -> Digest:
    digest = Digest()
    for tuples in source.tuples(part):
        digest.add(tuples)
    return digest

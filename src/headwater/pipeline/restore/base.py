"""What a plan must know of the snapshot that it starts from: the system spaces, and where in it which keys lie."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.kernels.split import Stop, Survey
from headwater.pipeline.blocks import Blocks, parts
from headwater.pipeline.errors import SourceDamaged
from headwater.pipeline.restore.facts import FREE, SYSTEM_MAX
from headwater.pipeline.restore.sources import File
from headwater.pipeline.restore.survey import opened
from headwater.pipeline.storage import Storage
from headwater.wire.request import of_row
from headwater.wire.xrow import Row, decode_row
from headwater.xlog.format import MAGIC_EOF

MARKS_MAX = 256
MARK_STEP = 1 << 20
_ALL = (-1,) * 32
_REMEDY = "Move it away to start from an older snapshot, or add the directory of another member (--from)."


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a stretch of the snapshot begins, and its first row."""

    offset: int
    space_id: int
    row: bytes


@dataclass(slots=True)
class Base:
    """A snapshot."""

    file: File
    time: float = 0.0
    """Of its rows."""
    system: list[tuple[int, bytes]] = field(default_factory=list)
    """(space, tuple) of the system spaces."""
    specials: list[Row] = field(default_factory=list)
    """RAFT and PROMOTE."""
    marks: list[Mark] = field(default_factory=list)
    """By growing offset: rows lie between them in the order of space and primary key."""
    end: int = 0
    """Offset of the end marker."""


def read_base(file: File) -> Base:
    """SourceDamaged if it is not whole."""
    base = Base(file)
    with opened(file.path, file.size) as blocks:
        base.end = file.size - len(MAGIC_EOF)
        if blocks.source.read_at(base.end, len(MAGIC_EOF)) != MAGIC_EOF:
            raise SourceDamaged(
                file.path, file.size, None, "the snapshot has no end marker: it is not complete", _REMEDY
            )
        _read_system(blocks, base)
        _read_marks(blocks, base)
        if base.marks:
            _read_end(blocks, base)
    return base


def first_time(file: File) -> float:
    """Of the first row of a file; 0 if it has none, or none that is whole."""
    try:
        with opened(file.path, file.size) as blocks:
            blocks.seek(file.begin)
            rows = blocks.next(file.begin + 1)
            return decode_row(rows, 0)[0].timestamp if rows else 0.0
    except SourceDamaged:
        return 0.0


def _read_system(blocks: Blocks, base: Base) -> None:
    """Blocks up to the first one with other rows."""
    survey = Survey(_ALL, FREE, float("inf"), SYSTEM_MAX)
    blocks.seek(base.file.begin)
    while all(space_id <= SYSTEM_MAX for space_id in survey.spaces()):
        rows = blocks.next(blocks.end + 1)
        if rows is None:
            break
        _take(survey, rows, base)
        base.time = base.time or decode_row(rows, 0)[0].timestamp
    if not base.system:
        words = "the snapshot holds no system spaces"
        raise SourceDamaged(base.file.path, base.file.begin, None, words, _REMEDY)


def _take(survey: Survey, rows: bytes, base: Base) -> None:
    at, why = 0, Stop.WORD
    while why == Stop.WORD:
        at, stopped = survey.walk(rows, at)
        why = Stop(stopped)
        for _, begin, _ in survey.take_notable():
            row = decode_row(rows, begin)[0]
            request = of_row(row) if row.type < 30 else None
            if request is None:
                base.specials.append(row)
            elif request.tuple is not None:
                base.system.append((request.space_id, request.tuple))


def _read_marks(blocks: Blocks, base: Base) -> None:
    file = base.file
    step = max(MARK_STEP, file.size // MARKS_MAX)
    source = Storage().open(file.path, file.size)
    try:
        borders = parts(source, file.begin, step)
    finally:
        source.close()
    for part in borders:
        blocks.seek(part.begin)
        rows = blocks.next(part.begin + 1)
        if rows is None:
            break
        row, end = decode_row(rows, 0)
        space_id = of_row(row).space_id if row.type < 30 else SYSTEM_MAX
        base.marks.append(Mark(part.begin, space_id, rows[:end]))


def _read_end(blocks: Blocks, base: Base) -> None:
    """Before 2.11.4 the state of election and queue came last. It stands in the last block then."""
    survey = Survey(_ALL, FREE, float("inf"), -1)
    blocks.seek(base.marks[-1].offset)
    for rows in blocks.read(base.end):
        if not base.specials:
            _take(survey, rows, base)

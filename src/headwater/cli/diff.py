"""`headwater diff A B`: do two nodes, data directories or snapshots hold the same data?

Exit codes: 0 they do; 1 they do not; 2 the command line is wrong, or one of them could not be read.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.cli.diffcompare import Comparison, Difference, SpaceResult
from headwater.cli.diffsource import CannotCompareError, Source
from headwater.cli.rowtext import plain
from headwater.cli.statusdraw import shown_vclock
from headwater.cli.statusnode import missing
from headwater.client.link import ConnectionFailed
from headwater.errors import BoxError, system_words
from headwater.uri import UriError, parse_uri
from headwater.wire.msgpack import unpack

EXIT_DIFFERENT = 1
EXIT_USAGE = 2

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Place = Annotated[
    str,
    typer.Argument(help="[USER:PASSWORD@]HOST:PORT of a node, a data directory, or a .snap file.", show_default=False),
]


@dataclass(slots=True)
class Report:
    """What was found."""

    names: tuple[str, str]
    before: tuple[Mapping[int, int], Mapping[int, int]]
    """Where the two stood when their data was read."""
    after: tuple[Mapping[int, int], Mapping[int, int]] = ({}, {})
    spaces: list[SpaceResult] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        return all(space.is_same for space in self.spaces)

    def notes(self) -> Iterator[str]:
        """What to think of before the verdict is believed."""
        for letter, before, after in zip("AB", self.before, self.after, strict=True):
            if before != after:
                yield f"{letter} was written to meanwhile: from {shown_vclock(before)} to {shown_vclock(after)}"
        one, two = self.after
        if one == two:
            return
        words = []
        for letter, has, lacks in (("A", two, one), ("B", one, two)):
            rows = missing(has, lacks)
            if rows:
                parts = ", ".join(f"{count:,} of replica {id_}" for id_, count in sorted(rows.items()))
                words.append(f"{letter} has not got {sum(rows.values()):,} rows ({parts})")
        yield f"they stand at different vclocks: {'; '.join(words)}"


def diff(
    a: Place,
    b: Place,
    space: Annotated[list[str] | None, typer.Option(help="Only this space, by number or name; repeatable.")] = None,
    system: Annotated[bool, typer.Option("--system/--no-system", help="System spaces, too: users, indexes, …")] = True,
    limit: Annotated[int, typer.Option(help="Show so many tuples of a space; 0: all that differ.", min=0)] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Compare all tuples by checksums, and show those that differ. Local and temporary spaces are left out."""
    try:
        with ExitStack() as stack, _warnings():
            sources = [stack.enter_context(closing(open_source(text))) for text in (a, b)]
            report = compare(*sources, wanted=space or (), system=system, limit=limit)
    except (BoxError, ConnectionFailed, CannotCompareError, UriError) as error:
        print(f"headwater diff: {error.message if isinstance(error, BoxError) else error}", file=sys.stderr)
        raise typer.Exit(EXIT_USAGE) from None
    except OSError as error:
        print(f"headwater diff: {error.filename}: {system_words(error)}", file=sys.stderr)
        raise typer.Exit(EXIT_USAGE) from None
    if as_json:
        print(json.dumps(json_of(report), ensure_ascii=False))
    else:
        print_report(report)
    if not report.is_same:
        raise typer.Exit(EXIT_DIFFERENT)


app.command()(diff)


def open_source(text: str) -> Source:
    """What looks like a path is one; everything else is an address."""
    path = Path(text)
    if path.is_dir() or path.suffix == ".snap":
        from headwater.cli.difffiles import FileSource

        return FileSource(path)
    if path.is_file() or ("/" in text and not text.startswith("unix") and not path.is_socket()):
        problem = "Neither a directory nor a .snap file" if path.exists() else "No such file or directory"
        raise CannotCompareError(f"{text}: {problem}")
    from headwater.cli.difflive import LiveSource

    return LiveSource(parse_uri(text))


def compare(a: Source, b: Source, *, wanted: Sequence[str], system: bool, limit: int) -> Report:
    report = Report((a.name, b.name), (a.vclock(), b.vclock()))
    report.spaces += Comparison(a, b, limit=limit).run(wanted, system=system)
    report.after = (a.vclock(), b.vclock())
    return report


@contextmanager
def _warnings() -> Iterator[None]:
    """What recovery finds worth a word."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter("headwater diff: %(message)s"))
    root = logging.getLogger("headwater")
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


# ---- for people


def print_report(report: Report) -> None:
    for letter, name, vclock in zip("AB", report.names, report.after, strict=True):
        print(f"{letter}  {name}  {shown_vclock(vclock)}")
    for space in report.spaces:
        if not space.is_same:
            for line in space_lines(space):
                print(line)
    for note in report.notes():
        print(f"note: {note}")
    print(verdict(report))


def space_lines(space: SpaceResult) -> Iterator[str]:
    if space.rows_b is None:
        yield f"space {space.name}: only A has it, with {space.rows_a:,} tuples"
        return
    if space.rows_a is None:
        yield f"space {space.name}: only B has it, with {space.rows_b:,} tuples"
        return
    yield f"space {space.name}: different; A has {space.rows_a:,} tuples, B has {space.rows_b:,}"
    for difference in space.differences:
        yield from _difference_lines(difference)
    if space.is_cut:
        yield "    and more (--limit)"


def _difference_lines(difference: Difference) -> Iterator[str]:
    a, b = difference.a, difference.b
    if b is None:
        yield f"    only in A  {tuple_text(a)}"
    elif a is None:
        yield f"    only in B  {tuple_text(b)}"
    else:
        one, two = tuple_text(a), tuple_text(b)
        if one == two:
            yield f"    equal values in other bytes  {one}"
        else:
            yield f"    in A       {one}"
            yield f"      in B     {two}"


def tuple_text(data: bytes | None) -> str:
    return json.dumps(_value(data), ensure_ascii=False)


def _value(data: bytes | None) -> Any:
    return None if data is None else plain(unpack(data))


def verdict(report: Report) -> str:
    spaces = report.spaces
    rows = sum(space.rows_a or 0 for space in spaces)
    different = sum(not space.is_same for space in spaces)
    if different:
        return f"different: {different} of {len(spaces)} spaces"
    moved = sum(space.moved for space in spaces)
    words = f"; {moved} of them changed while they were read" if moved else ""
    return f"same: {rows:,} tuples in {len(spaces)} spaces{words}"


# ---- for machines


def json_of(report: Report) -> dict[str, Any]:
    """Keys stay; new ones may come."""
    return {
        "same": report.is_same,
        "a": {"name": report.names[0], "vclock": dict(report.after[0]), "vclock_before": dict(report.before[0])},
        "b": {"name": report.names[1], "vclock": dict(report.after[1]), "vclock_before": dict(report.before[1])},
        "notes": list(report.notes()),
        "spaces": [_space_json(space) for space in report.spaces],
    }


def _space_json(space: SpaceResult) -> dict[str, Any]:
    return {
        "space": space.name,
        "same": space.is_same,
        "rows_a": space.rows_a,
        "rows_b": space.rows_b,
        "checksum_a": space.checksum_a,
        "checksum_b": space.checksum_b,
        "changed_meanwhile": space.moved,
        "differences": [{"a": _value(each.a), "b": _value(each.b)} for each in space.differences],
        "is_cut": space.is_cut,
    }

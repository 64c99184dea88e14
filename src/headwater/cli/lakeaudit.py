"""`headwater lake audit`: do replicas, data directories, snapshots and a lake hold the same data at one vclock?

Exit codes: 0 they do; 1 they do not; 2 the command line is wrong, or something could not be compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.lakeguard import EXIT_USAGE, fail
from headwater.cli.lakerestore import Conf, Master, NoSpark, runner_of, target_of
from headwater.cli.rowtext import plain

if TYPE_CHECKING:
    from headwater.pipeline.audit import Audit, SpaceAudit
    from headwater.pipeline.auditcompare import Difference

EXIT_DIFFERENT = 1

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def audit(
    places: Annotated[
        list[str],
        typer.Argument(help="[USER:PASSWORD@]HOST:PORT, a data directory, a .snap file, or a lake; two at least."),
    ],
    at: Annotated[str, typer.Option(help="For directories: a vclock or a time instead of their end.")] = "latest",
    space: Annotated[list[str] | None, typer.Option(help="Only this space, by name or id; repeatable.")] = None,
    system: Annotated[bool, typer.Option("--system/--no-system", help="System spaces, too: users, indexes, …")] = True,
    across_sets: Annotated[
        bool, typer.Option("--across-sets", help="They may be of different sets; who they are is not compared.")
    ] = False,
    replicaset: Annotated[str, typer.Option(help="Which set of a lake, if it has several.")] = "",
    limit: Annotated[int, typer.Option(help="Show so many keys of a space; 0: all that differ.", min=0)] = 10,
    timeout: Annotated[float, typer.Option(help="Seconds for a live server to come to the vclock.")] = 60.0,
    spool: Annotated[str, typer.Option(help="A directory for the data of live servers while they are compared.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    no_spark: NoSpark = False,
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Compare all data at one vclock, and list what differs. Live servers may be written to meanwhile: each is read as
    it was at that vclock, so that a difference is one. Local and temporary spaces are left out, and what sequences have
    come to.

    headwater lake audit 127.0.0.1:3301 127.0.0.1:3302 data/lake
    """
    with _guarded():
        from headwater.pipeline.audit import AuditWish
        from headwater.pipeline.audit import audit as compare

        wish = AuditWish(
            tuple(places),
            target_of(at),
            frozenset(space or ()),
            system,
            across_sets,
            replicaset,
            limit,
            timeout,
            spool,
        )
        with runner_of("headwater lake audit", no_spark, master, conf) as (runner, bars):
            bar = bars.add("reading live servers")
            found = compare(runner, wish, bar.advance)
            bars.remove(bar)
        if as_json:
            print(json.dumps(json_of(found), ensure_ascii=False))
        else:
            for line in report(found):
                print(line)
    if not found.is_same:
        raise typer.Exit(EXIT_DIFFERENT)


@contextmanager
def _guarded() -> Iterator[None]:
    """Everything that goes wrong is no verdict."""
    from headwater.errors import HeadwaterError

    try:
        yield
    except ModuleNotFoundError as error:
        fail("audit", f"the package '{error.name}' is not here: pip install 'headwater[spark]'", EXIT_USAGE)
    except HeadwaterError as error:
        fail("audit", str(getattr(error, "message", error)), EXIT_USAGE)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


# ---- for people


def report(found: Audit) -> Iterator[str]:
    for each in found.places:
        was = f"  read at {each.position}" if each.position is not None else ""
        yield f"{each.letter}  {each.name}{was}"
    yield f"compared at {found.vclock}"
    for space in found.spaces:
        if not space.is_same:
            yield from _space_lines(found, space)
    for note in found.notes:
        yield f"note: {note}"
    yield verdict(found)


def _space_lines(found: Audit, space: SpaceAudit) -> Iterator[str]:
    letters = [each.letter for each in found.places]
    rows = ", ".join(
        f"{letter} has {count:,} tuples" if count is not None else f"{letter} has no such space"
        for letter, count in zip(letters, space.rows, strict=True)
    )
    keys = f" under {space.differing:,} keys" if space.differing else ""
    yield f"space {space.name}: different{keys}; {rows}{'; ' + space.note if space.note else ''}"
    for difference in space.differences:
        yield f"    key {_text(difference.key)}"
        for letter, packed in zip(letters, difference.tuples, strict=True):
            yield f"        {letter}  {_text(packed) if packed is not None else '–'}"
    if space.differing > len(space.differences):
        yield "    and more (--limit)"


def verdict(found: Audit) -> str:
    different = sum(not space.is_same for space in found.spaces)
    if different:
        return f"different: {different} of {len(found.spaces)} spaces"
    rows = sum(max((count or 0 for count in space.rows), default=0) for space in found.spaces)
    return f"same: {rows:,} tuples in {len(found.spaces)} spaces at {len(found.places)} places"


def _text(packed: bytes) -> str:
    return json.dumps(_value(packed), ensure_ascii=False)


def _value(packed: bytes | None) -> Any:
    from headwater.wire.msgpack import unpack

    return None if packed is None else plain(unpack(packed))


# ---- for machines


def json_of(found: Audit) -> Mapping[str, Any]:
    """Keys stay; new ones may come."""
    return {
        "same": found.is_same,
        "vclock": found.vclock.as_dict(),
        "places": [
            {"letter": each.letter, "name": each.name, "kind": each.kind.value, "vclock": _vclock(each.position)}
            for each in found.places
        ],
        "notes": found.notes,
        "spaces": [
            {
                "space": space.name,
                "same": space.is_same,
                "rows": space.rows,
                "checksums": [f"{sum_:016x}" for sum_ in space.sums],
                "differing_keys": space.differing,
                "note": space.note,
                "differences": [_difference(each) for each in space.differences],
            }
            for space in found.spaces
        ],
    }


def _difference(difference: Difference) -> Mapping[str, Any]:
    return {"key": _value(difference.key), "tuples": [_value(each) for each in difference.tuples]}


def _vclock(position: Any) -> Mapping[int, int] | None:
    return None if position is None else dict(position.as_dict())

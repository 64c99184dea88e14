"""`headwater lake load`: a data directory out of Parquet files, for a server that starts with its data in place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from headwater.cli.lakeguard import EXIT_USAGE, fail, guarded, spark_session
from headwater.cli.lakerestore import Conf, Master, Shown, json_of, summary

if TYPE_CHECKING:
    from headwater.pipeline.restore.load import LoadWish

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def load(
    tables: Annotated[list[str], typer.Argument(metavar="SPACE=PATH...", help="Which file goes into which space.")],
    to: Annotated[Path, typer.Option(help="The directory to make: it must be empty, or not exist.")],
    like: Annotated[
        str, typer.Option(help="A data directory or snapshot whose definitions and users are taken; not its tuples.")
    ] = "",
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="SPACE=COLUMN,…", help="Primary key of a space that is to be made; may be repeated."),
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="SPACE.COLUMN=TYPE", help="Type of a field, such as unsigned; may be repeated."),
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="What Spark reads the files as.")] = "parquet",
    schema_version: Annotated[
        str, typer.Option(help="Of the system spaces, without --like: 2.3.1 for Tarantool 2.6, 2.11.5, or 3.8.0.")
    ] = "3.8.0",
    instance_uuid: Annotated[str, typer.Option(help="UUID of the instance; drawn anew without.")] = "",
    replicaset_uuid: Annotated[str, typer.Option(help="UUID of its set; drawn anew without.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Build a data directory from which Headwater and Tarantool start, with the rows of files in its spaces. Columns go
    into the fields of their names. Two rows with one primary key are refused; unique secondary indexes are looked at by
    the server when it starts.

    headwater lake load users=users.parquet --key users=id --type users.id=unsigned --to /var/lib/headwater/new
    """
    paths = _pairs("SPACE=PATH", tables)
    with guarded("load"):
        from headwater.cli.lakesync import pairs
        from headwater.pipeline.progress import Bars
        from headwater.pipeline.restore.load import load as build
        from headwater.pipeline.restore.runner import SparkRunner
        from headwater.pipeline.restore.staging import Staging
        from headwater.pipeline.session import check

        wish = _wish(str(to), like, key or (), type_ or (), schema_version, (instance_uuid, replicaset_uuid))
        Staging(to).check()
        check()
        with spark_session("headwater lake load", master, pairs("--conf", conf)) as spark, Bars() as bars:
            frames = {space: spark.read.format(format_).load(path) for space, path in paths.items()}
            say = (lambda line: None) if as_json else bars.print
            built = build(spark, SparkRunner(spark, Shown(bars)), frames, wish, say)
        if as_json:
            print(json.dumps(json_of(built)))
            return
        for line in summary(built):
            print(line)


def _wish(
    to: str, like: str, keys: Sequence[str], types: Sequence[str], version: str, uuids: tuple[str, str]
) -> LoadWish:
    from headwater.pipeline.restore.identity import Identity
    from headwater.pipeline.restore.load import LoadWish, NewSpace

    wanted: dict[str, dict[str, str]] = {}
    for name, kind in _pairs("--type", types).items():
        space, dot, column = name.partition(".")
        if not dot:
            fail("load", f"--type is '{name}={kind}'; it should be SPACE.COLUMN=TYPE", EXIT_USAGE)
        wanted.setdefault(space, {})[column] = kind.lower()
    spaces = {
        space: NewSpace(tuple(word.strip() for word in columns.split(",") if word.strip()), wanted.pop(space, {}))
        for space, columns in _pairs("--key", keys).items()
    }
    if wanted:
        fail("load", f"--type names the space '{next(iter(wanted))}', which has no --key", EXIT_USAGE)
    try:
        major, minor, patch = map(int, version.split("."))
        instance, replicaset = (UUID(text) if text else None for text in uuids)
    except ValueError:
        fail("load", "a version is three numbers, like 2.3.1, and a UUID has 36 characters", EXIT_USAGE)
    return LoadWish(to, like, spaces, (major, minor, patch), Identity(False, instance, replicaset))


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            fail("load", f"{option} is '{text}'; a name, an equals sign and a value are wanted", EXIT_USAGE)
        if name in found:
            fail("load", f"{option} speaks of '{name}' twice", EXIT_USAGE)
        found[name] = value
    return found

"""`headwater lake status`: what a lake holds, how far it is behind, how fast it goes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group
from rich.table import Table

from headwater.cli.lakeguard import EXIT_USAGE, ago, fail, guarded, size

if TYPE_CHECKING:
    from headwater.cli.statusnode import Node
    from headwater.pipeline.lake.status import LakeStatus, SetStatus

WIDTH_WITHOUT_TERMINAL = 200
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class Server:
    """A server of a set, as far as it concerns the lake."""

    address: str
    replicaset: str
    behind: int | None
    """Rows that it has and the lake not; None if the lake does not follow its set."""
    retained: int | None
    """Rows that it keeps for the lake's stream; None if it does not say so."""
    remark: str


@app.command()
def status(
    lake: Annotated[Path, typer.Argument(help="The lake.")],
    hosts: Annotated[
        str, typer.Option(help="Servers to compare with: HOST:PORT,… of all sets; with USER@ if guest may not look.")
    ] = "",
    password_file: Annotated[Path | None, typer.Option(help="Holds the password of the user in --hosts.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that a server has for an answer.", min=0.1)] = 3.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Tables with rows, files and versions; where the stream of each set is; lag and rate. With --hosts: how many rows
    the servers have that the lake has not, and how many they keep for it."""
    with guarded("status"):
        from headwater.pipeline.lake.layout import Lake
        from headwater.pipeline.lake.status import status as look_at

        there = Lake(lake)
        found = look_at(there, is_written=there.is_written)
        servers = list(_servers(found.sets, hosts, password_file, timeout)) if hosts else []
        if as_json:
            print(json.dumps(found.to_json() | {"servers": [asdict(each) for each in servers]}, default=str))
        else:
            _console().print(_drawn(found, servers))


# ---- servers --------------------------------------------------------------------------------------


def _servers(sets: Sequence[SetStatus], hosts: str, password_file: Path | None, timeout: float) -> Iterator[Server]:
    from headwater.cli.statusask import look

    picture = look(uris_of("status", hosts, password_file), follow=False, timeout=timeout)
    for node in picture.nodes:
        yield server_of(node, sets)
    for silent in picture.silent:
        yield Server(silent.address, "", None, None, f"does not answer: {silent.error}")


def uris_of(command: str, hosts: str, password_file: Path | None) -> list[Any]:
    """Addresses with their logins."""
    from dataclasses import replace

    from headwater.uri import UriError, parse_uri

    try:
        password = password_file.read_text(encoding="utf-8").rstrip("\r\n") if password_file else ""
        found = [parse_uri(word) for word in hosts.replace(";", ",").split(",") if word.strip()]
    except (OSError, UriError) as error:
        fail(command, str(error), EXIT_USAGE)
    return [replace(uri, password=password) if uri.login and not uri.password else uri for uri in found]


def server_of(node: Node, sets: Sequence[SetStatus]) -> Server:
    """One node, beside the stream that follows its set."""
    mine = next((each for each in sets if each.replicaset == node.replicaset_uuid), None)
    if mine is None:
        remark = "does not say which set it is of" if node.denied else "the lake does not follow its set"
        return Server(node.address, node.replicaset_uuid, None, None, node.denied or remark)
    behind = sum(max(0, lsn - mine.vclock.get(replica, 0)) for replica, lsn in node.vclock.items() if replica)
    remark = "" if mine.phase == "stream" else "behind its snapshot, which is being taken"
    return Server(node.address, mine.replicaset, behind, _retained(node, mine), remark)


def _retained(node: Node, mine: SetStatus) -> int | None:
    """By the consumer under the stream's UUID (box.info.gc; of anonymous replicas since 3.3)."""
    for consumer in node.consumers:
        if mine.uuid and mine.uuid in consumer.name:
            signature = sum(lsn for replica, lsn in node.vclock.items() if replica)
            return max(0, signature - (sum(consumer.vclock.values()) or consumer.signature))
    return None


# ---- drawing --------------------------------------------------------------------------------------


def _drawn(found: LakeStatus, servers: Sequence[Server]) -> Group:
    parts: list[Any] = [*_lines(found), "", _tables(found)]
    if found.sets:
        parts += ["", _sets(found.sets)]
    if servers:
        parts += ["", _asked(servers)]
    return Group(*parts)


def _lines(found: LakeStatus) -> Iterator[str]:
    rate = f", {found.rows_per_second:,.0f} rows a second of late" if found.rows_per_second is not None else ""
    yield f"{found.root}: {'a sync writes into it' if found.is_written else 'nobody writes into it now'}{rate}"
    if found.bronze_batch < 0:
        yield "nothing is in it yet"
        return
    newest = f", newest change {ago(found.newest)}" if found.newest is not None else ""
    yield f"bronze: batch {found.bronze_batch}, committed {ago(found.committed)}{newest}"
    behind = found.bronze_batch - found.silver_batch
    late = "up to date" if behind == 0 else f"{behind} batches behind"
    yield f"silver: batch {found.silver_batch}, {late}"


def _tables(found: LakeStatus) -> Table:
    table = _columns("table", "rows>", "files>", "size>", "version>", "changed>", "place")
    for each in found.tables:
        cells = (f"{each.rows:,}", f"{each.files:,}", size(each.bytes), str(each.version), ago(each.changed))
        table.add_row(each.name, *cells, each.place)
    return table


def _sets(sets: Sequence[SetStatus]) -> Table:
    table = _columns("replica set", "phase", "position")
    for each in sets:
        row = f", row {each.row:,} of it" if each.phase == "snapshot" else ""
        table.add_row(each.replicaset, each.phase, _vclock(each.vclock) + row)
    return table


def _asked(servers: Sequence[Server]) -> Table:
    table = _columns("server", "rows behind>", "rows retained>", "")
    for each in servers:
        behind = "?" if each.behind is None else f"{each.behind:,}"
        retained = "?" if each.retained is None else f"{each.retained:,}"
        table.add_row(each.address, behind, retained, each.remark)
    return table


def _columns(*names: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name.removesuffix(">"), justify="right" if name.endswith(">") else "left", overflow="fold")
    return table


def _vclock(vclock: Mapping[int, int]) -> str:
    return "{" + ", ".join(f"{replica}: {lsn}" for replica, lsn in sorted(vclock.items())) + "}"


def _console() -> Console:
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = WIDTH_WITHOUT_TERMINAL
    return console

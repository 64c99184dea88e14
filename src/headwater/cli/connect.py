"""`headwater connect URI`: a prompt on a running node, Headwater or Tarantool.

At a terminal it has history, completion and tables. With commands on its standard input (or by `--execute`) it answers
in lines of JSON, names errors on its error stream, and ends with 1 if there was one.
"""

from __future__ import annotations

import asyncio
import getpass
import io
import logging
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any

import typer

from headwater.cli.shell.language import Meta, parse
from headwater.cli.shell.literals import ParseError
from headwater.errors import Er, system_words
from headwater.uri import Uri, UriError, parse_uri

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

EXIT_FAILED = 1
EXIT_USAGE = 2
_RETRY_SECONDS = 0.05
_LEAD = "box.ctl.make_bootstrap_leader"
"""What a node is told that has nothing yet, not even a schema that could be asked for."""


@app.command()
def connect(
    uri: Annotated[str, typer.Argument(metavar="URI", help="[USER[:PASSWORD]@]HOST:PORT, PORT or unix/:PATH")],
    execute: Annotated[
        list[str] | None, typer.Option("--execute", "-e", help="Do this and leave; may be given again.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that connecting may take.")] = 5.0,
    wait: Annotated[float, typer.Option(help="Seconds to try again for while nobody serves there yet.")] = 0.0,
) -> None:
    """A prompt on a running node, Headwater or Tarantool. Type \\help there."""
    try:
        address = parse_uri(uri)
    except UriError as error:
        print(f"headwater: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_USAGE) from None
    if not address.host and not address.is_unix:
        address = replace(address, host="127.0.0.1")
    interactive = execute is None and sys.stdin.isatty()
    password = address.password
    if address.login and not password and interactive:
        password = getpass.getpass(f"Password of {address.login}: ")
    lines = None if interactive else execute if execute is not None else sys.stdin
    try:
        code = asyncio.run(_session(address, password, timeout, wait, lines))
    except KeyboardInterrupt:
        code = EXIT_FAILED
    raise typer.Exit(code)


async def _session(address: Uri, password: str, timeout: float, wait: float, lines: Iterable[str] | None) -> int:
    from headwater.cli.shell.runner import SHOWN_LIMIT, Runner

    try:
        has_schema = not (isinstance(lines, list) and all(line.startswith(_LEAD) for line in lines))
        connection = await _patiently(address, password, timeout, wait, has_schema=has_schema)
    except Exception as error:  # the connector's own kinds are many, and each is the end
        print(f"headwater: cannot connect to {address}: {_reason(error)}", file=sys.stderr)
        return EXIT_FAILED
    try:
        if lines is None:
            await _prompt(Runner(connection, limit=SHOWN_LIMIT), address, connection)
            return 0
        return await _batch(Runner(connection), lines)
    finally:
        await connection.disconnect()


async def _patiently(address: Uri, password: str, timeout: float, wait: float, *, has_schema: bool) -> Any:
    """A node that was started a moment ago does not listen yet, or has not recovered."""
    loop = asyncio.get_running_loop()
    end = loop.time() + wait
    while True:
        try:
            return await _connected(address, password, timeout, has_schema=has_schema)
        except Exception as error:
            is_early = isinstance(error, ConnectionRefusedError | FileNotFoundError) or _code(error) == Er.LOADING
            if not is_early or loop.time() >= end:
                raise
        await asyncio.sleep(_RETRY_SECONDS)


async def _connected(address: Uri, password: str, timeout: float, *, has_schema: bool = True) -> Any:
    import asynctnt

    # What the connector logs is told here, once; and when it is refused it leaves a future that nobody looks at.
    logging.getLogger("asynctnt").addHandler(logging.NullHandler())
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    connection = asynctnt.Connection(
        host=address.host,
        port=int(address.service) if address.service.isdigit() else address.service,
        username=address.login or None,
        password=(password or "") if address.login else None,
        reconnect_timeout=0,
        connect_timeout=timeout,
        fetch_schema=has_schema,
        auto_refetch_schema=has_schema,
    )
    async with asyncio.timeout(timeout):
        await connection.connect()
    return connection


def _code(error: BaseException) -> int | None:
    """Of what a server answered."""
    return getattr(error, "code", None)


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError):
        return system_words(error)
    return str(getattr(error, "message", "") or error) or type(error).__name__


async def _batch(runner: Any, lines: Iterable[str]) -> int:
    """Every line; errors do not stop the next one."""
    from headwater.cli.shell.runner import RefusedError
    from headwater.cli.shell.show import json_lines

    code = 0
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # strings that are not UTF-8 leave as they came
    for number, line in enumerate(lines, 1):
        try:
            command = parse(line)
            if command == Meta("q"):
                break
            if command is not None:
                for found in json_lines(await runner.run(command)):
                    print(found)
                sys.stdout.flush()
        except (ParseError, RefusedError) as error:
            print(f"line {number}: {error}", file=sys.stderr, flush=True)
            code = EXIT_FAILED
    return code


async def _prompt(runner: Any, address: Uri, connection: Any) -> None:
    from rich.console import Console

    from headwater.cli.shell.prompt import make_session
    from headwater.cli.shell.runner import RefusedError
    from headwater.cli.shell.show import show

    console = Console()
    version = ".".join(str(part) for part in connection.version or ())
    console.print(f"{address} speaks Tarantool {version}; \\help tells what can be typed", style="dim")
    session = make_session(runner, _history_path())
    while True:
        try:
            command = parse(await session.prompt_async(f"{address}> "))
            if command == Meta("q"):
                return
            if command is not None:
                show(console, await runner.run(command))
        except (ParseError, RefusedError) as error:
            console.print(str(error), style="red", markup=False)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def _history_path() -> str:
    """HEADWATER_HISTORY, or where state belongs."""
    given = os.environ.get("HEADWATER_HISTORY")
    if given:
        return given
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    directory = os.path.join(state, "headwater")
    os.makedirs(directory, mode=0o700, exist_ok=True)
    return os.path.join(directory, "history")

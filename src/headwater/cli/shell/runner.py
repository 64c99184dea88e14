"""Doing what a line asks for, over a connector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import asynctnt
from asynctnt.exceptions import TarantoolError

from headwater.cli.shell.language import META, Call, Command, Meta, Read, Write
from headwater.errors import HeadwaterError, system_words

SYSTEM_ID_MAX = 511
VINDEX = 289
SHOWN_LIMIT = 100
"""Tuples that a select shows if it names no limit, at a prompt."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Tuples, with the names of their fields as far as the format has them."""

    names: list[str]
    rows: list[list[Any]]
    more: bool = False
    """There may be more than these."""


@dataclass(frozen=True, slots=True)
class Values:
    """What a procedure returned."""

    values: list[Any]


@dataclass(frozen=True, slots=True)
class Text:
    text: str


Answer = Rows | Values | Text


class RefusedError(HeadwaterError):
    """The server answered with an error, or cannot be asked; the text is for people."""


class Runner:
    """One connection, and the schema that the connector has fetched over it."""

    def __init__(self, connection: asynctnt.Connection, *, limit: int | None = None) -> None:
        self._connection = connection
        self._limit = limit
        """For a select that names none."""

    async def run(self, command: Command) -> Answer:
        try:
            if not self._connection.is_connected:
                await self._connection.connect()  # once for each line: a node that was restarted is there again
            match command:
                case Read():
                    return await self._read(command)
                case Write():
                    return await self._write(command)
                case Call():
                    return await self._call(command)
                case Meta():
                    return await self._meta(command)
        except TarantoolError as error:
            raise RefusedError(str(getattr(error, "message", error))) from error
        except TimeoutError as error:
            raise RefusedError("no answer in time") from error
        except OSError as error:
            raise RefusedError(f"the connection failed: {system_words(error)}") from error

    async def _call(self, command: Call) -> Values:
        """Maybe the schema is another one afterwards: the connector then fetches it before the next line needs it."""
        found = await self._connection.call(command.name, command.args)
        if self._connection.fetch_schema and found.schema_id > self._connection.schema_id:
            await self._connection.refetch_schema()
        return Values(_plain(list(found)))

    async def _read(self, command: Read) -> Rows:
        limit = 1 if command.single else command.options.get("limit", self._limit)
        options: dict[str, Any] = {"index": command.index if command.index is not None else 0}
        if limit is not None:
            options["limit"] = limit
        if "offset" in command.options:
            options["offset"] = command.options["offset"]
        if "iterator" in command.options:
            options["iterator"] = str(command.options["iterator"]).upper()
        found = await self._connection.select(await self._space(command.space), command.key, **options)
        rows = [list(row) for row in found]
        cut = not command.single and "limit" not in command.options and limit is not None and len(rows) == limit
        return Rows(self.fields(command.space), _plain(rows), more=cut)

    async def _write(self, command: Write) -> Rows:
        space = await self._space(command.space)
        key = self._ordered(command.space, command.key)
        operations = [self._operation(command.space, operation) for operation in command.operations]
        index = command.index if command.index is not None else 0
        match command.kind:
            case "insert":
                found = await self._connection.insert(space, key)
            case "replace":
                found = await self._connection.replace(space, key)
            case "delete":
                found = await self._connection.delete(space, key, index=index)
            case "update":
                found = await self._connection.update(space, key, operations, index=index)
            case _:
                found = await self._connection.upsert(space, key, operations)
        return Rows(self.fields(command.space), _plain([list(row) for row in found]))

    async def _space(self, name: str) -> int | str:
        """A name that is not known may be that of a space which somebody else has just made."""
        if name.isdigit():
            return int(name)
        if all(space.name != name for space in self.spaces(system=True)):
            await self._connection.refetch_schema()
        return name

    def _ordered(self, space: str, tuple: list[Any] | dict[str, Any]) -> list[Any]:
        """A map of field names as a tuple; what it does not name is nil."""
        if not isinstance(tuple, Mapping):
            return tuple
        names = self.fields(space)
        if unknown := [name for name in tuple if name not in names]:
            raise RefusedError(
                f"space {space} has no field '{unknown[0]}'; it has {', '.join(names) or 'no named ones'}"
            )
        last = max((names.index(name) for name in tuple), default=-1)
        return [tuple.get(name) for name in names[: last + 1]]

    def _operation(self, space: str, operation: list[Any]) -> list[Any]:
        """Field names become numbers: a server before 2.3 knows no names here."""
        names = self.fields(space)
        if len(operation) > 1 and operation[1] in names:
            return [operation[0], names.index(operation[1]), *operation[2:]]
        return operation

    async def _meta(self, command: Meta) -> Answer:
        match command.name:
            case "spaces":
                rows = [[space.sid, space.name, space.engine] for space in self.spaces()]
                return Rows(["id", "name", "engine"], rows)
            case "d":
                return await self._describe(command.argument)
        return Text(help_text())

    async def _describe(self, name: str) -> Rows:
        found = next((space for space in self.spaces(system=True) if space.name == name), None)
        if found is None:
            raise RefusedError(f"no space '{name}' is visible" if name else "\\d takes the name of a space")
        fields = found.metadata.fields if found.metadata else ()
        rows = [["field", field.name, field.type, "nullable" if field.is_nullable else ""] for field in fields or ()]
        for index in await self._connection.select(VINDEX, [found.sid]):
            _, _, index_name, kind, options, *_ = index
            rows.append(["index", index_name, kind, "unique" if options.get("unique") else ""])
        return Rows(["what", "name", "type", ""], rows)

    # ---- the schema, also for completion ---------------------------------------------------------------

    def spaces(self, *, system: bool = False) -> Iterator[Any]:
        """Spaces that the user may know of, by id."""
        schema = self._connection.schema
        by_id = {key: space for key, space in (schema.spaces if schema else {}).items() if isinstance(key, int)}
        for _, space in sorted(by_id.items()):
            if system or space.sid > SYSTEM_ID_MAX:
                yield space

    def fields(self, name: str) -> list[str]:
        for space in self.spaces(system=True):
            if name in (space.name, str(space.sid)) and space.metadata:
                return [field.name for field in space.metadata.fields or ()]
        return []


def help_text() -> str:
    from headwater.cli.shell import language

    return (
        (language.__doc__ or "").strip() + "\n\n" + "\n".join(f"    \\{name:<8} {what}" for name, what in META.items())
    )


def _plain(value: Any) -> Any:
    """The connector's tuples as lists."""
    if isinstance(value, asynctnt.TarantoolTuple):
        return [_plain(item) for item in value]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value

"""The line editor: history, and completion from the schema that the connection has fetched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory

from headwater.cli.shell.language import META, METHODS, READS, SPACE_ONLY, WRITES
from headwater.cli.shell.runner import Runner

_INDEX_VERBS = (*READS, "update", "delete", "count", "len", "min", "max", "random")
_SPACE_VERBS = (*READS, *WRITES, *METHODS, *SPACE_ONLY)
_PROCEDURES = (
    "box.info",
    "box.cfg",
    "box.snapshot",
    "box.stat",
    "box.stat.net",
    "box.slab.info",
    "box.info.memory",
    "box.info.gc",
    "box.schema.space.create",
    "box.schema.user.create",
    "box.schema.user.grant",
    "box.schema.user.revoke",
    "box.schema.user.passwd",
    "box.schema.user.info",
    "box.schema.user.drop",
    "box.schema.role.create",
    "box.schema.role.grant",
    "box.schema.sequence.create",
    "box.schema.func.create",
)


def completions(runner: Runner, text: str) -> Iterator[str]:
    """What the word at the end of the line may become."""
    word = text.split(" ")[-1]
    if text.startswith("\\"):
        yield from _meta(runner, text)
    elif " " not in text:
        yield from (name for name in _names(runner, word) if name.startswith(word))
    else:
        space = text.split(".")[0].split(" ")[0]
        options = [f"{name}=" for name in (*runner.fields(space), "limit", "offset", "iterator")]
        yield from (name for name in options if name.startswith(word))


def _meta(runner: Runner, text: str) -> Iterator[str]:
    name, space, argument = text[1:].partition(" ")
    if space:
        yield from (found.name for found in runner.spaces(system=True) if found.name.startswith(argument))
    else:
        yield from (f"\\{known}" for known in META if known.startswith(name))


def _names(runner: Runner, word: str) -> Iterator[str]:
    head = word.split(".")[0]
    for space in runner.spaces(system=head.startswith("_")):
        if space.name != head:
            yield f"{space.name}."
            continue
        yield from (f"{space.name}.{verb}" for verb in _SPACE_VERBS)
        names = sorted({index.name for index in space.indexes.values()})
        yield from (f"{space.name}.{name}.{verb}" for name in names for verb in _INDEX_VERBS)
    yield from _PROCEDURES


class SchemaCompleter(Completer):
    """`completions` for prompt_toolkit."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        word = text if text.startswith("\\") and " " not in text else text.split(" ")[-1]
        for found in completions(self._runner, text):
            yield Completion(found, start_position=-len(word))


def make_session(runner: Runner, history: str) -> PromptSession[Any]:
    return PromptSession(
        history=FileHistory(history),
        completer=SchemaCompleter(runner),
        complete_while_typing=False,
        auto_suggest=AutoSuggestFromHistory(),
    )

"""What lies where in a lake, and whose it is.

    DIR/bronze/                     the change log: a Delta table, one commit a batch of the stream
    DIR/silver/SET/SPACE/           the current state of a space: a Delta table; SET is the head of the set's UUID
    DIR/schema_history/             what became of spaces and their columns: a Delta table
    DIR/_headwater/lake.json        what is written once: the format, the run
    DIR/_headwater/state.json       how far silver has come, and the definitions of spaces there
    DIR/_headwater/checkpoint-RUN/  Spark's checkpoint; with it goes the identity of the stream
    DIR/_headwater/lock             held by the one who writes

A lake is on a file system that the driver and all executors see under the same name.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from headwater.pipeline.errors import NotThere, PipelineError

FORMAT = 1
_ODD = re.compile(r"[^A-Za-z0-9_.-]|^\.")
_SET_CHARACTERS = 8


class LakeBusy(PipelineError):
    """Somebody else writes into this lake."""


@dataclass(frozen=True, slots=True)
class Charter:
    """lake.json"""

    run: str
    """Names the checkpoint and the transactions of bronze. A new one begins when the checkpoint is gone."""
    base: int
    """Number of the run's first batch in the lake: they go on counting over runs."""
    system: bool
    """Are system spaces in silver, too?"""
    format: int = FORMAT


class Lake:
    """A directory."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).absolute()
        self.bronze = self.root / "bronze"
        self.silver = self.root / "silver"
        self.history = self.root / "schema_history"
        self.own = self.root / "_headwater"
        self.state = self.own / "state.json"
        self._charter = self.own / "lake.json"

    def __str__(self) -> str:
        return str(self.root)

    # ---- its beginning

    @property
    def exists(self) -> bool:
        return self._charter.exists()

    def charter(self) -> Charter:
        """NotThere if there is no lake, PipelineError if it is of a later Headwater."""
        try:
            found: dict[str, Any] = json.loads(self._charter.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise NotThere(
                f"{self}: no lake is here. `headwater lake sync --lake {self} --hosts …` makes one."
            ) from None
        except ValueError as error:
            raise PipelineError(f"{self._charter}: damaged ({error}). Take it from a backup of the lake.") from None
        if found.get("format") != FORMAT:
            raise PipelineError(f"{self}: a lake of format {found.get('format')}; this Headwater knows {FORMAT}.")
        return Charter(**found)

    def check_place(self) -> None:
        """PipelineError if something else is in its place. To be asked before anything is written there."""
        if self.root.exists() and not self.root.is_dir():
            raise PipelineError(f"{self} is a file. A lake wants a directory of its own.")
        found = sorted(path.name for path in self.root.iterdir()) if self.root.exists() else []
        strangers = [name for name in found if name != self.own.name]
        if strangers and not self.exists:
            raise PipelineError(f"{self} holds '{strangers[0]}' and is no lake. A lake wants a directory of its own.")

    def found(self, *, system: bool) -> Charter:
        """Make an empty lake."""
        self.check_place()
        charter = Charter(uuid4().hex, 0, system)
        self._write_charter(charter)
        return charter

    def begin_run(self, last_batch: int) -> Charter:
        """Another stream goes on where the lake ends: its batches are counted on from `last_batch`."""
        charter = replace(self.charter(), run=uuid4().hex, base=last_batch + 1)
        self._write_charter(charter)
        return charter

    def _write_charter(self, charter: Charter) -> None:
        self.own.mkdir(parents=True, exist_ok=True)
        write_file(self._charter, json.dumps(asdict(charter)))

    def checkpoint(self, charter: Charter) -> Path:
        return self.own / f"checkpoint-{charter.run}"

    # ---- names

    def table(self, replicaset: str, space: str, taken: frozenset[str] | set[str]) -> str:
        """Where a table of silver is put, below `silver`; `taken` are the places of others, the same space's of other
        names too."""
        place = f"{set_name(replicaset)}/{_file_name(space)}"
        number = 2
        while place.lower() in {each.lower() for each in taken}:
            place = f"{set_name(replicaset)}/{_file_name(space)}.{number}"
            number += 1
        return place

    # ---- one writer

    @contextmanager
    def locked(self) -> Iterator[None]:
        """LakeBusy while another process has it. The lock ends with the process, however that ends."""
        self.own.mkdir(parents=True, exist_ok=True)
        path = self.own / "lock"
        with path.open("a+", encoding="utf-8") as file:
            if not _take(file):
                file.seek(0)
                who = file.read().strip() or "another process"
                raise LakeBusy(f"{self}: {who} writes into it. One sync at a time; end that one first.")
            file.truncate(0)
            file.write(f"process {os.getpid()}")
            file.flush()
            yield

    @property
    def is_written(self) -> bool:
        """Does somebody hold the lock?"""
        try:
            with (self.own / "lock").open("r", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False


def _take(file: IO[str]) -> bool:
    """Somebody who only looks whether it is taken has it for a moment."""
    for pause in (0.05, 0.2, 0.0):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause)
        else:
            return True
    return False


def set_name(replicaset: str) -> str:
    """Short, and still the set's own: the head of its UUID."""
    return replicaset[:_SET_CHARACTERS] or "files"


def write_file(path: Path, text: str) -> None:
    """All of it or nothing, and it stays."""
    beside = path.with_name(path.name + ".new")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _file_name(space: str) -> str:
    return _ODD.sub("_", space)[:100] or "_"

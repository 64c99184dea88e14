"""How far silver has come, and what spaces looked like there: `_headwater/state.json`, written when all tables have a
batch. A crash before that does no harm: the tables know themselves which batches they have."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headwater.pipeline.dictionary import Dictionary
from headwater.pipeline.errors import PipelineError
from headwater.pipeline.lake.layout import write_file

FORMAT = 1


@dataclass
class TableFacts:
    """A table of silver, and the space that it is for."""

    place: str
    """Below `silver/`. It has the name that the space had when it was made."""
    space: str
    """Its name now."""
    birth: str
    """Batch, row and id that the space was made with. Names the transactions of its table, so that those of another
    one which was in the same place before do not count."""
    is_lost: bool = False
    """The space was there before the snapshot that is being taken; nobody knows yet whether it is still."""

    @property
    def application(self) -> str:
        return f"headwater-silver-{self.birth}"


@dataclass
class SetState:
    """One replica set."""

    run: str = ""
    """Of the stream that its rows are from."""
    dictionary: Dictionary = field(default_factory=Dictionary)
    collations: dict[int, bytes] = field(default_factory=dict)
    """Tuples of `_collation`: some keys need their order."""
    tables: dict[int, TableFacts] = field(default_factory=dict)

    def copy(self) -> SetState:
        tables = {number: replace(each) for number, each in self.tables.items()}
        return SetState(self.run, self.dictionary.copy(), dict(self.collations), tables)


@dataclass
class State:
    """The whole lake."""

    batch: int = -1
    """The last one that all tables have."""
    position: Mapping[str, Any] = field(default_factory=dict)
    """Where in each set's stream that is, as the checkpoint says it."""
    sets: dict[str, SetState] = field(default_factory=dict)

    def copy(self) -> State:
        return State(self.batch, dict(self.position), {name: each.copy() for name, each in self.sets.items()})

    @property
    def live(self) -> Iterator[tuple[str, int, TableFacts]]:
        """Set, id of the space and table, of spaces that exist."""
        for name, each in self.sets.items():
            for number, table in each.tables.items():
                if not table.is_lost:
                    yield name, number, table

    @property
    def places(self) -> set[str]:
        return {table.place for each in self.sets.values() for table in each.tables.values()}

    # ---- on disk

    def save(self, path: Path) -> None:
        write_file(path, json.dumps(_packed(self), separators=(",", ":")))

    @staticmethod
    def load(path: Path) -> State:
        """An empty one if nothing was written yet."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["format"] != FORMAT:
                raise PipelineError(f"{path} is of format {found['format']}; this Headwater knows {FORMAT}.")
            return _unpacked(found)
        except FileNotFoundError:
            return State()
        except (ValueError, LookupError, TypeError) as error:
            raise PipelineError(
                f"{path} is damaged ({error!r}). `headwater lake rebuild` makes silver anew from bronze."
            ) from None


def _packed(state: State) -> dict[str, Any]:
    sets = {
        name: {
            "run": each.run,
            "dictionary": base64.b64encode(each.dictionary.__getstate__()).decode(),
            "collations": {str(number): base64.b64encode(row).decode() for number, row in each.collations.items()},
            "tables": {
                str(number): {"place": table.place, "space": table.space, "birth": table.birth, "lost": table.is_lost}
                for number, table in each.tables.items()
            },
        }
        for name, each in state.sets.items()
    }
    return {"format": FORMAT, "batch": state.batch, "position": state.position, "sets": sets}


def _unpacked(found: Mapping[str, Any]) -> State:
    return State(found["batch"], found["position"], {name: _unpacked_set(each) for name, each in found["sets"].items()})


def _unpacked_set(found: Mapping[str, Any]) -> SetState:
    dictionary = Dictionary()
    dictionary.__setstate__(base64.b64decode(found["dictionary"]))
    return SetState(
        found["run"],
        dictionary,
        {int(number): base64.b64decode(row) for number, row in found["collations"].items()},
        {
            int(number): TableFacts(each["place"], each["space"], each["birth"], each["lost"])
            for number, each in found["tables"].items()
        },
    )

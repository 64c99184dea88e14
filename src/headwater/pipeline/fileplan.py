"""The driver's half of the batch source over files: what is asked for, which columns that makes, and which parts of
which files each task reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import datasource as ds
from pyspark.sql import types as spark

from headwater.kernels.columns import Utf8
from headwater.pipeline import survey
from headwater.pipeline.blocks import Part, parts
from headwater.pipeline.decode import EVOLUTION, View
from headwater.pipeline.dictionary import Dictionary, SpaceFacts
from headwater.pipeline.errors import NotThere, OptionError
from headwater.pipeline.files import Chain, DataFile, FileSettings, Finder
from headwater.pipeline.settings import Options
from headwater.pipeline.types import TypeSettings, kinds_of, read_utf8, spark_type, typed_schema
from headwater.vclock import VClock

PARTITION_BYTES = 32 << 20
PARTITION_BYTES_MIN = 2 << 20
"""Where the user says nothing, files are cut so far that all cores have work, but not below this."""
_DEFINED = frozenset(("space", "key"))
"""Columns of the envelope that come out of definitions of spaces."""


# ---- what is asked for ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ReadSettings:
    """All options of the batch source over files."""

    files: FileSettings
    types: TypeSettings
    space: str | None
    """Typed rows of this space; None: the envelope."""
    spaces: tuple[str, ...] | None
    columns: tuple[str, ...] | None
    request: bool
    envelope_utf8: Utf8
    evolution: str
    partition_bytes: int | None
    push_down: bool
    cache: Path | None

    @classmethod
    def read(cls, given: Mapping[str, str]) -> ReadSettings:
        options = Options(given)
        made = cls(
            FileSettings.read(options),
            TypeSettings.read(options),
            options.text("space"),
            options.names("spaces"),
            options.names("columns"),
            options.boolean("request", False),
            read_utf8(options, Utf8.BINARY),
            options.choice("schemaEvolutionMode", EVOLUTION, EVOLUTION[0]),
            options.size("maxPartitionBytes", 0, 0) or None,
            options.boolean("pushDownFilters", False),
            survey.cache_directory(options.text("schemaCacheDir")),
        )
        options.check()
        if made.space is not None and made.spaces is not None:
            raise OptionError("The options 'space' and 'spaces' exclude each other: typed rows are of one space.")
        return made


@dataclass(frozen=True)
class FilePart:
    """Some blocks of one file, and what a task needs to know to read them."""

    path: str
    size: int
    """Of the file when it was listed; what was written later is not read."""
    part: Part
    dictionary: Dictionary
    is_snapshot: bool
    may_be_torn: bool
    """It is the newest log: its writer was stopped, or is at work."""
    next_vclock: VClock | None
    """Where the next log begins."""

    @property
    def weight(self) -> int:
        return self.part.end - self.part.begin


@dataclass(frozen=True)
class FileParts(ds.InputPartition):
    """One task."""

    view: View
    parts: tuple[FilePart, ...]


class Plan:
    """Files, and what the spaces look like in them."""

    def __init__(self, settings: ReadSettings, columns: Sequence[str] | None = None) -> None:
        """`columns`: those of the envelope that are asked for. Where none of them tells of a definition, the files are
        not looked through for any."""
        self.settings = settings
        self.chains = Finder(settings.files).chains()
        self.dictionaries: dict[str, survey.FileDictionaries] = {}
        if settings.space is not None or settings.spaces is not None or columns is None or _DEFINED & set(columns):
            surveyor = survey.Surveyor(settings.files, settings.cache)
            for chain in self.chains:
                self.dictionaries.update(surveyor.survey(chain))

    # ---- columns

    def typed_schema(self) -> spark.StructType:
        settings = self.settings
        assert settings.space is not None
        seen = self.versions()
        facts = self.newest(seen)
        if settings.evolution == "addNewColumns":
            facts = _union(facts, seen, settings.types)
        return typed_schema(facts, settings.types, settings.columns)

    def versions(self) -> list[SpaceFacts]:
        """How the space looks, from the beginning of the range to its end."""
        assert self.settings.space is not None
        limits = self.settings.files.range
        found: list[SpaceFacts] = []
        for chain in self.chains:
            for file in chain.wanted:
                for facts in survey.versions(self.settings.space, self.dictionaries[file.path], limits):
                    if facts not in found[-1:]:
                        found.append(facts)
        return found

    def newest(self, seen: Sequence[SpaceFacts]) -> SpaceFacts:
        if seen:
            return seen[-1]
        for chain in self.chains:
            for file in chain.wanted:
                if not self.dictionaries[file.path].is_known:
                    raise survey.missing(file)
        where = ", ".join(self.settings.files.paths)
        try:
            last = [file for chain in self.chains for file in chain.wanted][-1:]
            dictionary = self.dictionaries[last[0].path].at(last[0].found.size) if last else Dictionary.builtin()
            return dictionary.space(str(self.settings.space))
        except NotThere as error:
            raise NotThere(f"{where}: {error}") from None

    # ---- parts

    def partitions(self, view: View) -> list[FileParts]:
        step = self._step()
        found = [part for chain in self.chains for file in chain.wanted for part in self._parts(chain, file, step)]
        return [FileParts(view, tuple(pack)) for pack in _packed(found, step)]

    def _step(self) -> int:
        if self.settings.partition_bytes is not None:
            return self.settings.partition_bytes
        total = sum(file.found.size for chain in self.chains for file in chain.wanted)
        fair = total // (2 * (os.cpu_count() or 1))
        return min(PARTITION_BYTES, max(PARTITION_BYTES_MIN, fair))

    def _parts(self, chain: Chain, file: DataFile, step: int) -> Iterator[FilePart]:
        size = file.found.size
        pieces = [Part(file.begin, size, None)]
        if size - file.begin > step:
            source = self.settings.files.storage.open(file.path, size)
            try:
                pieces = parts(source, file.begin, step)
            finally:
                source.close()
        known = self.dictionaries.get(file.path, survey.NOTHING_KNOWN)
        for piece in pieces:
            yield FilePart(
                file.path,
                size,
                piece,
                known.at(piece.begin),
                file.is_snapshot,
                chain.is_newest(file),
                chain.next_vclock(file),
            )


def _packed(found: Iterable[FilePart], step: int) -> Iterator[list[FilePart]]:
    """Small parts together, so that many small files are not as many tasks."""
    held: list[FilePart] = []
    weight = 0
    for part in found:
        if held and weight + part.weight > step:
            yield held
            held, weight = [], 0
        held.append(part)
        weight += part.weight
    if held:
        yield held


def _union(newest: SpaceFacts, seen: Sequence[SpaceFacts], types: TypeSettings) -> SpaceFacts:
    """A space with the fields of all its versions: those of the newest first. A field that no type fits in all of them
    becomes one of any type."""
    by_name: dict[str, list[int]] = {field.name: [] for field in newest.fields}
    fields = [field for facts in (newest, *seen) for field in facts.fields]
    for number, field in enumerate(fields):
        by_name.setdefault(field.name, []).append(number)
    union = []
    for numbers in by_name.values():
        kinds = [fields[number] for number in numbers]
        fit = (one for one in kinds if all(kinds_of(other, spark_type(one, types)) for other in kinds))
        union.append(next(fit, replace(kinds[0], type="any")))
    return replace(newest, fields=tuple(union))

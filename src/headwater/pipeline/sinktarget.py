"""Where rows go: the space, made out of the columns if it does not exist, and by which way it is written."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from pyspark.sql import types as spark

from headwater.client.pipe import Pipe
from headwater.errors import BoxError, Er
from headwater.pipeline import ddl
from headwater.pipeline.dictionary import Dictionary, FieldFacts, SpaceFacts
from headwater.pipeline.errors import NotThere, PipelineError
from headwater.pipeline.sinkoptions import SinkOptions
from headwater.pipeline.sinkplan import SinkPlan
from headwater.pipeline.sinkrows import ProgressSpace
from headwater.pipeline.types import DATETIME, ENVELOPE, INTERVAL, RESCUED, field_type

__all__ = ["Target", "aim"]

_log = logging.getLogger("headwater.sink")


@dataclass(frozen=True)
class Target:
    """What was found at the server. Picklable."""

    plan: SinkPlan
    is_transactional: bool
    progress: ProgressSpace | None
    """None: nothing is kept."""


def aim(pipe: Pipe, known: Dictionary, schema: spark.StructType, options: SinkOptions, *, is_lasting: bool) -> Target:
    """`known`: the spaces that are there. `is_lasting`: does anybody ask later whether it was written? PipelineError
    for what cannot be."""
    space = known.find(options.space) or _create(pipe, schema, options)
    plan = SinkPlan.of(schema, space, options)
    wanted = options.transactions != "off"
    if not (wanted and pipe.has_transactions):
        if wanted:
            _refuse_without(pipe, options, "has no transactions over streams, which Tarantool has from 2.10 on")
        return Target(plan, False, ProgressSpace.open(pipe, space.engine, known) if wanted and is_lasting else None)
    progress = ProgressSpace.open(pipe, space.engine, known)
    if progress.holds(pipe):
        return Target(plan, True, progress)
    _refuse_without(pipe, options, "gives up transactions between two requests: memtx_use_mvcc_engine is off")
    return Target(plan, False, progress if is_lasting else None)


def _refuse_without(pipe: Pipe, options: SinkOptions, why: str) -> None:
    """PipelineError if this write cannot do without transactions."""
    if options.transactions == "required" or not options.may_be_plain:
        raise PipelineError(
            f"{pipe.uri} (version {pipe.version}) {why}. Without them only the operations replace and delete are "
            "taken, with transactions=auto: a task that runs twice would do the others twice."
        )
    _log.info("%s %s: rows are written without transactions", pipe.uri, why)


def _create(pipe: Pipe, schema: spark.StructType, options: SinkOptions) -> SpaceFacts:
    if not options.primary_key:
        raise NotThere(
            f"There is no space '{options.space}' at {pipe.uri}. With the option 'primaryKey', which names columns, "
            "it is made out of the columns of the DataFrame."
        )
    fields = _fields(schema, options)
    numbers = {each.name: number for number, each in enumerate(fields)}
    missing = [name for name in options.primary_key if name not in numbers]
    if missing:
        raise NotThere(f"The option 'primaryKey' names '{missing[0]}'; the columns are {', '.join(numbers)}.")
    keys = [numbers[name] for name in options.primary_key]
    for number in keys:
        fields[number] = replace(fields[number], nullable=False)
    try:
        return ddl.create(pipe, options.space, fields, keys, options.engine)
    except BoxError as error:
        raise PipelineError(
            f"The space '{options.space}' cannot be made at {pipe.uri}: {error}. {_remedy(error, pipe)}"
        ) from None


def _remedy(error: BoxError, pipe: Pipe) -> str:
    if error.code != Er.ACCESS_DENIED:
        return "Make it by hand, or name other types in the option 'fieldTypes'."
    user = pipe.uri.login or "guest"
    return (
        f"Make it by hand, or let the user do it: box.schema.user.grant('{user}', 'create', 'space'), and ('{user}', "
        "'read,write', 'space', …) for _space, _index and _schema."
    )


def _field_type(type: spark.DataType) -> str:
    """What a struct is not by its names is a map."""
    if type == DATETIME:
        return "datetime"
    if isinstance(type, spark.StructType) and type != INTERVAL:
        return "map"
    return "any" if isinstance(type, spark.NullType) else field_type(type)


def _fields(schema: spark.StructType, options: SinkOptions) -> list[FieldFacts]:
    """Of the columns that belong into tuples."""
    asked = dict(options.field_types)
    apart = {name.lower() for name in (options.op_column, options.ops_column) if name is not None}
    apart |= {RESCUED} | {"_" + name for name in ENVELOPE.names}
    fields = [
        FieldFacts(column.name, asked.pop(column.name, "") or _field_type(column.dataType))
        for column in schema
        if column.name.lower() not in apart
    ]
    if asked:
        raise NotThere(f"The option 'fieldTypes' names '{next(iter(asked))}', which is no column.")
    return fields

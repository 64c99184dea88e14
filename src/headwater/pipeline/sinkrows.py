"""Progress of writers, kept in a space of the server that they write to: `_spark_sink`.

A row tells how far one partition of one batch is in, with a digest of all its tuples so far. It changes in the same
transaction as the tuples it speaks of, so the two can never disagree. A replay, a second attempt of a task and a task
that was given up long ago read it first, and again inside of each transaction: only who finds what he left there may
commit. One more row, with partition -1, speaks of the whole batch.

    box.schema.space.create('_spark_sink', {format = {{'app', 'string'}, {'part', 'integer'}, {'batch', 'integer'},
        {'rows', 'unsigned'}, {'is_done', 'boolean'}, {'digest', 'string'}, {'run', 'string'}, {'at', 'double'}}})
    box.space._spark_sink:create_index('primary', {parts = {'app', 'part'}})
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from headwater.client import statements
from headwater.client.pipe import Pipe
from headwater.errors import BoxError, Er
from headwater.pipeline import ddl
from headwater.pipeline.dictionary import Dictionary, FieldFacts, SpaceFacts
from headwater.pipeline.errors import PipelineError
from headwater.typing import IteratorType
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack, unpack

__all__ = ["WHOLE", "ProgressRow", "ProgressSpace"]

WHOLE = -1
"""Partition of the row that speaks of the batch."""
_CLEARED_AFTER_SECONDS = 7 * 86400
_CLEARED_MAX = 1000
_FIELDS = (
    FieldFacts("app", "string", nullable=False),
    FieldFacts("part", "integer", nullable=False),
    FieldFacts("batch", "integer", nullable=False),
    FieldFacts("rows", "unsigned", nullable=False),
    FieldFacts("is_done", "boolean", nullable=False),
    FieldFacts("digest", "string", nullable=False),
    FieldFacts("run", "string", nullable=False),
    FieldFacts("at", "double", nullable=False),
)


@dataclass(frozen=True, slots=True)
class ProgressRow:
    """One row of `_spark_sink`."""

    app: str
    """Who writes: the id of a streaming query, `txnAppId`, or one that is drawn for a single write."""
    part: int
    """Number of the partition, or WHOLE."""
    batch: int
    rows: int = 0
    """So many rows of the batch are in: of the partition its first ones."""
    is_done: bool = False
    """All of them are."""
    digest: str = ""
    """Of these rows."""
    run: str = ""
    """Of the row for the whole: drawn anew when a write begins, so that tasks of the one before notice."""

    def pack(self) -> bytes:
        values = (self.app, self.part, self.batch, self.rows, self.is_done, self.digest, self.run, time.time())
        return pack(list(values))

    @property
    def key(self) -> bytes:
        return pack([self.app, self.part])

    @classmethod
    def unpack(cls, packed: bytes) -> ProgressRow:
        return cls(*unpack(packed)[:7])


@dataclass(frozen=True, slots=True)
class ProgressSpace:
    """Where rows of progress lie: one space for each engine, since a transaction has one engine only."""

    id: int
    name: str

    @staticmethod
    def name_for(engine: str) -> str:
        return "_spark_sink" if engine == "memtx" else f"_spark_sink_{engine}"

    @classmethod
    def open(cls, pipe: Pipe, engine: str, known: Dictionary | None = None) -> ProgressSpace:
        """It is made if it does not exist. PipelineError says what a user needs for that."""
        name = cls.name_for(engine)
        found = (known or Dictionary.fetch(pipe)).find(name)
        if found is None:
            try:
                found = ddl.create(pipe, name, _FIELDS, (0, 1), engine)
            except BoxError as error:
                if error.code != Er.ACCESS_DENIED:
                    raise
                raise PipelineError(cls._advice(pipe, name, error)) from None
        return cls._of(found, pipe)

    @classmethod
    def _of(cls, found: SpaceFacts, pipe: Pipe) -> ProgressSpace:
        if [(field.name, field.type) for field in found.fields] != [(field.name, field.type) for field in _FIELDS]:
            raise PipelineError(
                f"The space '{found.name}' at {pipe.uri} is not the sink's: it is {found.ddl()}. Rename it; the sink "
                "makes its own."
            )
        return cls(found.id, found.name)

    @staticmethod
    def _advice(pipe: Pipe, name: str, error: BoxError) -> str:
        user = pipe.uri.login or "guest"
        return (
            f"The sink keeps its progress in the space '{name}' at {pipe.uri}, which the user '{user}' "
            f"does not see and may not make: {error}. Make it once as admin (docs/spark.md has the lines), and "
            f"box.schema.user.grant('{user}', 'read,write', 'space', '{name}'). Without it there is transactions=off, "
            "for replace and delete."
        )

    def holds(self, pipe: Pipe) -> bool:
        """Does a transaction live on between two requests? Without memtx_use_mvcc_engine one that has touched a space
        in memory does not (txn.c, txn_on_yield). Nothing is written."""
        nobody = statements.delete(self.id, pack(["", WHOLE]))
        stream = 1
        asked = [
            pipe.wanted(kind, body, stream)
            for kind, body in ((Type.BEGIN, b""), (Type.DELETE, nobody), (Type.DELETE, nobody), (Type.ROLLBACK, b""))
        ]
        load = pipe.settle(pipe.post([packet for _, packet in asked], 0, 0, tuple(sync for sync, _ in asked)))
        for sync, _ in asked:
            answer = load.answers[sync]
            if isinstance(answer, BoxError):
                if answer.code == Er.TRANSACTION_YIELD:
                    return False
                raise answer
        return True

    # ---- rows

    def select(self, row: ProgressRow) -> bytes:
        """Body of a SELECT for the row with the same key."""
        return statements.select(self.id, key=row.key)

    def read(self, pipe: Pipe, app: str, part: int) -> ProgressRow | None:
        return first_of(pipe.tuples(statements.select(self.id, key=pack([app, part]))))

    def read_all(self, pipe: Pipe, app: str) -> dict[int, ProgressRow]:
        """By partition."""
        rows = map(ProgressRow.unpack, pipe.tuples(statements.select(self.id, key=pack([app]))))
        return {row.part: row for row in rows}

    def clear_away(self, pipe: Pipe, prefix: str) -> None:
        """Rows of writes whose names begin so and whose driver died long ago."""
        asked = statements.select(self.id, iterator=IteratorType.GE, key=pack([prefix]), limit=_CLEARED_MAX)
        for row in map(unpack, pipe.tuples(asked)):
            if row[0].startswith(prefix) and row[7] < time.time() - _CLEARED_AFTER_SECONDS:
                pipe.call(Type.DELETE, statements.delete(self.id, pack(row[:2])))

    def replace(self, row: ProgressRow) -> bytes:
        return statements.insert(self.id, row.pack())

    def delete(self, row: ProgressRow) -> bytes:
        return statements.delete(self.id, row.key)


def first_of(tuples: list[bytes]) -> ProgressRow | None:
    return ProgressRow.unpack(tuples[0]) if tuples else None

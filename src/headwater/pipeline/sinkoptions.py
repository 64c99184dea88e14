"""Options of the sink."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.pipeline.errors import OptionError
from headwater.pipeline.hosts import READ_OPTIONS, ReplicaSet, ReplicaSets, pass_over
from headwater.pipeline.settings import Options
from headwater.wire.constants import Type

__all__ = ["OPERATIONS", "SinkOptions"]

OPERATIONS: Mapping[str, int] = {
    "replace": Type.REPLACE,
    "insert": Type.INSERT,
    "upsert": Type.UPSERT,
    "delete": Type.DELETE,
}
IDEMPOTENT = frozenset((Type.REPLACE, Type.DELETE))
"""Doing them twice is doing them once."""
_OPERATOR = re.compile(r"([=+\-&|^])\s*(.+)")
_TYPES = re.compile(r"\s*(.+?)\s+([a-zA-Z0-9]+)\s*")
_SAVE_MODES = ("append", "errorIfExists", "ignore")
_TRANSACTIONS = ("auto", "required", "off")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a user says of a write."""

    members: ReplicaSet
    space: str
    operation: int
    op_column: str | None
    """It says the operation of each row."""
    upsert_ops: tuple[tuple[str, str], ...]
    """(operator, field) of the operations of UPSERT, each with the row's own value of the field."""
    ops_column: str | None
    """It holds the operations of UPSERT of each row."""
    batch_rows: int
    """Of a transaction, at most."""
    batch_bytes: int
    """Of its tuples, roughly."""
    transactions: str
    """auto: where the server has them, and without them where nothing but REPLACE and DELETE is asked for; required;
    off: without, and without progress rows."""
    app: str | None
    version: int | None
    save_mode: str
    primary_key: tuple[str, ...]
    """Of a space that is made."""
    engine: str
    field_types: tuple[tuple[str, str], ...]
    """Of a space that is made, where they are not what the columns suggest."""
    patience: float
    """Seconds for which somebody who takes writes is looked for."""
    tagged: bool
    """Strings inside variants tell what they were (`!decimal 1.5`)."""

    @classmethod
    def read(cls, given: Mapping[str, str]) -> SinkOptions:
        options = Options(given)
        pass_over(options, ("checkpointLocation", "path", *READ_OPTIONS))
        members = ReplicaSets.read(options).only("rows are written into one, which this format cannot choose for each")
        space = options.needed("space", "which space the rows go into")
        op_column, ops_column = options.text("opColumn"), options.text("upsertOpsColumn")
        made = cls(
            members=members,
            space=space,
            operation=OPERATIONS[options.choice("operation", tuple(OPERATIONS), "replace")],
            op_column=op_column,
            upsert_ops=_read_ops(options.names("upsertOps") or ()),
            ops_column=ops_column,
            batch_rows=options.integer("batchSize", 10_000, 1, 1_000_000),
            batch_bytes=options.size("batchBytes", 4 << 20),
            transactions=options.choice("transactions", _TRANSACTIONS, "auto"),
            app=options.text("txnAppId"),
            version=options.integer("txnVersion", 0) if options.has("txnVersion") else None,
            save_mode=options.choice("saveMode", _SAVE_MODES, "append"),
            primary_key=options.names("primaryKey") or (),
            engine=options.choice("engine", ("memtx", "vinyl"), "memtx"),
            field_types=_read_types(options.names("fieldTypes") or ()),
            patience=options.span("retryTimeout", 60.0),
            tagged=options.boolean("variantTags", False),
        )
        options.check()
        made._check(options)
        return made

    def _check(self, options: Options) -> None:
        if self.op_column is not None and options.has("operation"):
            raise OptionError("The options 'operation' and 'opColumn' both say what is done; keep one of them.")
        if self.upsert_ops and self.ops_column is not None:
            raise OptionError("The options 'upsertOps' and 'upsertOpsColumn' say the same thing; keep one of them.")
        if self.op_column is not None and self.ops_column is not None:
            raise OptionError(
                "With 'upsertOpsColumn' every row is an upsert: say operation=upsert instead of 'opColumn'."
            )
        upserts = self.operation == Type.UPSERT or self.op_column is not None
        if (self.upsert_ops or self.ops_column is not None) and not upserts:
            raise OptionError("There are operations of an upsert, and nothing is upserted: say operation=upsert.")
        if self.transactions == "off" and not self.may_be_plain:
            raise OptionError(
                "With transactions=off only the operations replace and delete are taken: a task that runs twice would "
                "do the others twice."
            )

    @property
    def may_be_plain(self) -> bool:
        """May it be tried without transactions? Rows that say what is done with them are looked at one by one."""
        return self.op_column is not None or self.operation in IDEMPOTENT


def _read_ops(words: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """`+count, =title`."""
    found = [_OPERATOR.fullmatch(word) for word in words]
    if not all(found):
        raise OptionError(
            f"The option 'upsertOps' is '{', '.join(words)}'; it should name fields, each with the operator before it, "
            "like +count, =title. There are = + - & | ^."
        )
    return tuple((match[1], match[2]) for match in found if match is not None)


def _read_types(words: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """`id unsigned, title string`."""
    found = [_TYPES.fullmatch(word) for word in words]
    if not all(found):
        raise OptionError(
            f"The option 'fieldTypes' is '{', '.join(words)}'; it should be names with types, like id unsigned, at "
            "datetime."
        )
    return tuple((match[1], match[2].lower()) for match in found if match is not None)

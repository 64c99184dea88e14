"""Changes of data on the ordinary path: one statement of a transaction (space.c space_execute_dml, memtx_space.c,
request.c, txn.c txn_commit_stmt).

A statement changes tuples through its transaction, leaves a row for the journal, and runs the triggers of its space.
When it raises, the caller takes the transaction back to where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headwater.box.body import dml_body, key_body, tuple_body
from headwater.box.select import tell_index, tell_key, tell_space, validate_iterator
from headwater.errors import BoxError, Er, OutOfMemory, er
from headwater.kernels import DuplicateKey, FormatViolation, KeyViolation, TupleFormat, mp_array_fields
from headwater.options import Options
from headwater.replication.conflict import Answer, Keep, Put, Rival, Sight
from headwater.store import system
from headwater.store.context import Context, Journal, Source
from headwater.store.definitions import IndexDef
from headwater.store.format import Format
from headwater.store.rowview import Row as RowView
from headwater.store.schema import Schema
from headwater.store.space import Space
from headwater.store.update import apply_update, apply_upsert, check_ops, keeps_key
from headwater.store.violations import duplicate_error, format_error, key_error
from headwater.txn import RowDraft, Transaction, Txns
from headwater.txn.base import PRIMARY, index_of, kernel_of
from headwater.typing import IteratorType, SpaceId
from headwater.wire.constants import Group, Type
from headwater.wire.request import Request
from headwater.wire.xrow import Row

log = logging.getLogger("headwater.box")

Before = Callable[[Sight], Answer]
"""Is shown what a row of a peer meets, and says what becomes of it."""

_CHUNK = 256
_HAS_A_KEY = (Type.INSERT, Type.REPLACE, Type.UPDATE, Type.UPSERT, Type.DELETE)
_DEFINES_A_SPACE = (system.SPACE, system.INDEX, system.TRUNCATE, system.SPACE_SEQUENCE)
"""System spaces whose rows begin with the id of the space that they define."""


@dataclass(slots=True)
class Statement:
    """One request on its way through a transaction."""

    txn: Transaction
    space: Space
    request: Request
    ctx: Context
    type: int
    """What it is; a before_replace trigger may make another of it."""
    body: bytes = b""
    """Of its row."""
    old: bytes | None = None
    new: bytes | None = None
    result: bytes | None = None
    """The tuple of the reply."""
    changes: bool = True
    """False: nothing was found, or nothing came of it; there is a row all the same."""


class Dml:
    """Statements of one node."""

    def __init__(self, schema: Schema, txns: Txns, options: Options) -> None:
        self._schema = schema
        self._txns = txns
        self._options = options
        self.writes_whole_tuples = False
        """UPDATE and UPSERT of shared spaces go into the journal as a REPLACE with what came of them."""
        self._formats: dict[SpaceId, tuple[Format, TupleFormat]] = {}
        self._execute: Mapping[int, Callable[[Statement], None]] = {
            Type.INSERT: self._put,
            Type.REPLACE: self._put,
            Type.UPDATE: self._update,
            Type.DELETE: self._delete,
            Type.UPSERT: self._upsert,
            Type.INSERT_ARROW: self._insert_arrow,
            Type.DELETE_RANGE: self._delete_range,
            Type.NOP: self._nop,
        }

    def run(
        self, txn: Transaction, space: Space, request: Request, ctx: Context, before: Before | None = None
    ) -> bytes | None:
        """Execute it and give the tuple of the reply. `before` is asked after the triggers of the space that come
        before, about every change whose key is known, and like them may make another change of it."""
        statement = Statement(txn, space, request, ctx, request.type)
        txn.check_can_continue()
        if not ((space.before_replace or before) and self._before_replace(statement, before)):
            try:
                self._execute[request.type](statement)
            except DuplicateKey as duplicate:
                raise duplicate_error(duplicate, space.index(duplicate.index_id).name, space.name) from None
        self._journal(statement)
        return statement.result

    # ---- the end of a statement ----------------------------------------------------------------------

    def _journal(self, statement: Statement) -> None:
        """The row, and the triggers, which may say that it does not go where rows of the space go."""
        space = statement.space
        row: RowDraft | None = None
        if not space.is_temporary:
            if self.writes_whole_tuples and not (space.is_local or space.is_system):
                self._make_whole(statement)
            row = self._draft(statement, Group.LOCAL if space.is_local else Group.DEFAULT)
            statement.txn.add_row(row)
        if not space.on_replace or not statement.changes:
            return
        if space.is_system:
            self._before_schema(statement)
        journal = self._schema.replaced(space, statement.old, statement.new, statement.ctx)
        if row is not None and journal is Journal.LOCAL:
            row.group_id = Group.LOCAL
        elif row is not None and journal is Journal.NOWHERE:
            statement.txn.remove_row(row)

    @staticmethod
    def _make_whole(statement: Statement) -> None:
        """What came of operations, for nodes on which they would meet another tuple."""
        if statement.type not in (Type.UPDATE, Type.UPSERT):
            return
        if statement.new is None:
            statement.type, statement.body = Type.NOP, b""
        else:
            statement.type, statement.body = Type.REPLACE, tuple_body(statement.space.id, statement.new)

    @staticmethod
    def _draft(statement: Statement, group: int) -> RowDraft:
        """What a client says of origin and LSN is no concern of the journal's (iproto.cc, iproto_msg_decode)."""
        head = statement.request.row
        if statement.ctx.source is Source.CLIENT or not head.lsn:
            return RowDraft(statement.type, group, statement.body)
        return RowDraft(statement.type, group, statement.body, head.replica_id, head.lsn, head.timestamp, head.flags)

    def _before_schema(self, statement: Statement) -> None:
        row = statement.new or statement.old
        if statement.space.id in _DEFINES_A_SPACE and row is not None:
            self._txns.schema_changes(SpaceId(RowView(row).u32(0)))

    # ---- INSERT, REPLACE -----------------------------------------------------------------------------

    def _put(self, statement: Statement) -> None:
        space, request, txn = statement.space, statement.request, statement.txn
        inserts = request.type == Type.INSERT
        space.writable("insert" if inserts else "replace")
        assert request.tuple is not None
        new = self._prepared(statement, request.tuple)
        if space.pk is None:
            self._check_format(space, new)
            space.index(PRIMARY)
        try:
            if inserts:
                txn.insert(space, new)
            else:
                statement.old = txn.replace(space, new, observe_old=bool(space.on_replace))
        except FormatViolation as violation:
            raise tell_space(self._format_error(space, violation, new), space) from None
        statement.new = statement.result = new
        statement.body = self._put_body(request, space, new)

    def _prepared(self, statement: Statement, new: bytes) -> bytes:
        """With the next number of the sequence, with defaults."""
        self._check_size(statement, new)
        return self._schema.prepare(statement.space, new, statement.ctx)

    @staticmethod
    def _put_body(request: Request, space: Space, new: bytes) -> bytes:
        if new is request.tuple and (request.key is not None or request.index_id or request.ops is not None):
            request.space_id = space.id
            return dml_body(request)
        return tuple_body(space.id, new)

    # ---- UPDATE, DELETE, UPSERT ----------------------------------------------------------------------

    def _update(self, statement: Statement) -> None:
        space, request, txn = statement.space, statement.request, statement.txn
        index = space.index(request.index_id)
        space.writable("update")
        key = self._exact_key(space, index, request.key)
        old = txn.get(space, index.id, key)
        if old is None:
            self._nothing_found(statement)
            return
        new = self._updated(statement, old)
        try:
            self._change(txn, space, old, new)
        except FormatViolation as violation:
            raise tell_index(self._format_error(space, violation, new), space, index) from None
        statement.old, statement.new, statement.result = old, new, new
        self._bind_to_primary(statement, old)

    def _updated(self, statement: Statement, old: bytes) -> bytes:
        space, request = statement.space, statement.request
        assert request.tuple is not None
        types = [field.type for field in space.format.fields]
        names = _numbers(space)
        try:
            new = apply_update(request.tuple, old, names, request.index_base, types, self._options.memtx_max_tuple_size)
        except BoxError as error:
            raise tell_index(error, space, space.index(request.index_id)) from None
        self._check_size(statement, new)
        return new

    def _change(self, txn: Transaction, space: Space, old: bytes, new: bytes) -> None:
        """Put `new` in the place of `old`, which must keep its primary key (index.cc, index_check_dup)."""
        primary = index_of(kernel_of(space), PRIMARY).key_def
        if not keeps_key(primary, old, new):
            self._shape(space).check(new)
            rival = txn.get(space, PRIMARY, primary.extract(new))
            if rival is not None:
                raise DuplicateKey(PRIMARY, rival, new)
            raise er(Er.CANT_UPDATE_PRIMARY_KEY, space.name, int(space.id), old, new)
        txn.update(space, old, new)

    def _delete(self, statement: Statement) -> None:
        space, request, txn = statement.space, statement.request, statement.txn
        index = space.index(request.index_id)
        space.writable("delete")
        key = self._exact_key(space, index, request.key)
        old = txn.get(space, index.id, key)
        if old is None:
            self._nothing_found(statement)
            return
        txn.delete(space, old)
        statement.old = statement.result = old
        self._bind_to_primary(statement, old)

    def _upsert(self, statement: Statement) -> None:
        space, request, txn = statement.space, statement.request, statement.txn
        space.writable("upsert")
        assert request.ops is not None
        given = self._with_defaults(statement)
        self._check_format(space, given)
        space.index(PRIMARY)
        old = txn.get(space, PRIMARY, index_of(kernel_of(space), PRIMARY).key_def.extract(given))
        if old is None:
            self._check_ops(space, request)
            txn.insert(space, given)
            statement.new = given
        else:
            self._upsert_on(statement, old)
        request.tuple, request.space_id = given, space.id
        statement.body = dml_body(request)

    def _with_defaults(self, statement: Statement) -> bytes:
        given = statement.request.tuple
        assert given is not None
        self._check_size(statement, given)
        return given if statement.ctx.source.is_recovery else statement.space.with_defaults(given)

    def _upsert_on(self, statement: Statement, old: bytes) -> None:
        """Operations that do not suit the tuple are logged and left out; a changed primary key leaves out all."""
        space, request = statement.space, statement.request
        assert request.ops is not None
        types = [field.type for field in space.format.fields]
        size = self._options.memtx_max_tuple_size
        try:
            new, skipped = apply_upsert(request.ops, old, _numbers(space), request.index_base, types, size)
        except BoxError as error:
            raise tell_space(error, space) from None
        for fault in skipped:
            log.error("UPSERT operation failed: %s", fault.message)
        self._check_size(statement, new)
        self._check_format(space, new)
        if not keeps_key(index_of(kernel_of(space), PRIMARY).key_def, old, new):
            log.error("%s", er(Er.CANT_UPDATE_PRIMARY_KEY, space.name, int(space.id), old, new).message)
            statement.changes = False
            return
        statement.txn.update(space, old, new)
        statement.old, statement.new = old, new

    def _check_ops(self, space: Space, request: Request) -> None:
        assert request.ops is not None
        try:
            check_ops(request.ops, _numbers(space), request.index_base)
        except BoxError as error:
            raise tell_space(error, space) from None

    @staticmethod
    def _exact_key(space: Space, index: IndexDef, key: bytes | None) -> bytes:
        """index.cc, exact_key_validate"""
        key = key if key is not None else b"\x90"
        if not index.unique:
            raise tell_index(er(Er.MORE_THAN_ONE_TUPLE), space, index)
        try:
            index_of(kernel_of(space), index.id).key_def.check_key(key, True)
        except KeyViolation as violation:
            raise tell_key(key_error(violation, key, exact=True), space, index, key) from None
        return key

    @staticmethod
    def _nothing_found(statement: Statement) -> None:
        """The row tells what was asked."""
        statement.changes = False
        statement.request.space_id = statement.space.id
        statement.body = dml_body(statement.request)

    @staticmethod
    def _bind_to_primary(statement: Statement, found: bytes) -> None:
        """A row names the tuple by its primary key, whatever the request named it by (request.c,
        request_rebind_to_primary_key)."""
        request, space = statement.request, statement.space
        request.space_id = space.id
        if request.index_id:
            request.key = index_of(kernel_of(space), PRIMARY).key_def.extract(found)
            request.index_id = PRIMARY
        statement.body = dml_body(request)

    # ---- rows that only newer servers send -----------------------------------------------------------

    def _insert_arrow(self, statement: Statement) -> None:
        """No engine here takes columns. A row of a peer or of the journal is kept as it is."""
        if statement.ctx.source is Source.CLIENT:
            raise er(Er.UNSUPPORTED, statement.space.engine, "arrow format")
        self._nothing_found(statement)

    def _delete_range(self, statement: Statement) -> None:
        """memtx_space.c, memtx_space_execute_delete_range"""
        space, request, txn = statement.space, statement.request, statement.txn
        if request.index_id:
            raise er(Er.UNSUPPORTED, "Engine 'memtx'", "delete_range() on secondary index")
        space.writable("delete_range")
        index = space.index(PRIMARY)
        begin, end = request.begin_key or b"\x90", request.end_key or b"\x90"
        order = index_of(kernel_of(space), PRIMARY).key_def
        if index.type != "tree":
            raise er(
                Er.UNSUPPORTED_INDEX_FEATURE, index.name, index.type.upper(), space.name, space.engine, "delete_range()"
            )
        validate_iterator(space, index, IteratorType.GE, begin, order.check_key)
        validate_iterator(space, index, IteratorType.LT, end, order.check_key)
        self._nothing_found(statement)
        while True:
            found = txn.select(space, PRIMARY, IteratorType.GE, begin, 0, _CHUNK)
            for old in found:
                if len(mp_array_fields(end)) > 1 and order.compare_with_key(old, end) >= 0:
                    return
                txn.delete(space, old)
            if len(found) < _CHUNK:
                return

    @staticmethod
    def nop_row(row: Row) -> RowDraft:
        """Nothing happened, and it is numbered."""
        return RowDraft(Type.NOP, row.group_id, b"", row.replica_id, row.lsn, row.timestamp, row.flags)

    def _nop(self, statement: Statement) -> None:
        statement.changes = False

    # ---- triggers that come before ---------------------------------------------------------------------

    def _before_replace(self, statement: Statement, before: Before | None) -> bool:
        """Let the triggers see the change, and make another one of it if they say so. False: execute it as it was
        (space.c, space_before_replace)."""
        space = statement.space
        old, new = self._foresee(statement)
        wanted = new
        if space.before_replace and not (old is None and new is None):
            wanted = self._schema.before_replace(space, old, new, statement.ctx)
        if before is not None:
            return self._ask(statement, before, old, new, wanted)
        return self._made_other(statement, old, new, wanted)

    def _made_other(self, statement: Statement, old: bytes | None, new: bytes | None, wanted: bytes | None) -> bool:
        if wanted is new:
            return False
        if (wanted is None and old is None) or wanted == old:
            return self._nothing_happens(statement)
        self._make(statement, old, wanted)
        statement.request.row.type = statement.type
        return True

    @staticmethod
    def _nothing_happens(statement: Statement) -> bool:
        statement.type, statement.changes = Type.NOP, False
        return True

    def _ask(
        self, statement: Statement, before: Before, old: bytes | None, new: bytes | None, wanted: bytes | None
    ) -> bool:
        """What does somebody from outside say of it?"""
        space, txn = statement.space, statement.txn
        if statement.request.type not in _HAS_A_KEY or statement.request.index_id:
            return self._made_other(statement, old, new, wanted)
        key = statement.request.key if old is None and wanted is None else self._key_of(space, old, wanted)
        assert key is not None
        match before(Sight(space, key, old, wanted, lambda: self._rivals(txn, space, wanted))):
            case Keep():
                return self._nothing_happens(statement)
            case Put(bytes() as made):
                return self._made_other(statement, old, b"", made)
        if statement.request.type == Type.INSERT and old is not None:
            return self._made_other(statement, old, b"", wanted)
        return self._made_other(statement, old, new, wanted)

    @staticmethod
    def _key_of(space: Space, old: bytes | None, new: bytes | None) -> bytes:
        found = old if old is not None else new
        assert found is not None
        return index_of(kernel_of(space), PRIMARY).key_def.extract(found)

    @staticmethod
    def _rivals(txn: Transaction, space: Space, new: bytes | None) -> tuple[Rival, ...]:
        """Tuples under other primary keys that `new` cannot stand beside. It is tried, and taken back: only the index
        knows about nulls and keys with many values."""
        found: list[Rival] = []
        if new is None or not any(index.unique for index in space.indexes.values() if index.id != PRIMARY):
            return ()
        mark = txn.mark()
        try:
            while True:
                try:
                    txn.replace(space, new, observe_old=False)
                except DuplicateKey as duplicate:
                    found.append(Rival(space.index(duplicate.index_id).name, duplicate.old))
                    txn.delete(space, duplicate.old)
                else:
                    return tuple(found)
        finally:
            txn.rollback_to(mark)

    def _foresee(self, statement: Statement) -> tuple[bytes | None, bytes | None]:
        """What the statement finds and what it would put there."""
        space, request, txn = statement.space, statement.request, statement.txn
        if request.type in (Type.UPDATE, Type.DELETE):
            index = space.index(request.index_id)
            old = txn.get(space, index.id, self._exact_key(space, index, request.key))
            if old is None or request.type == Type.DELETE:
                return old, None
            return old, self._updated(statement, old)
        if request.type not in (Type.INSERT, Type.REPLACE, Type.UPSERT) or request.tuple is None:
            return None, None
        is_upsert = request.type == Type.UPSERT
        given = self._with_defaults(statement) if is_upsert else self._prepared(statement, request.tuple)
        request.tuple = given
        self._check_format(space, given)
        space.index(PRIMARY)
        old = txn.get(space, PRIMARY, index_of(kernel_of(space), PRIMARY).key_def.extract(given))
        if not is_upsert or old is None:
            if is_upsert:
                self._check_ops(space, request)
            return old, given
        assert request.ops is not None
        return old, apply_upsert(request.ops, old, _numbers(space), request.index_base).tuple

    def _make(self, statement: Statement, old: bytes | None, new: bytes | None) -> None:
        """A REPLACE or a DELETE in place of what was asked (request.c, request_create_from_tuple)."""
        space, txn = statement.space, statement.txn
        primary = index_of(kernel_of(space), PRIMARY).key_def
        if new is None:
            assert old is not None
            txn.delete(space, old)
            statement.type = Type.DELETE
            statement.body = key_body(space.id, primary.extract(old))
            statement.old = statement.result = old
            return
        self._check_format(space, new)
        if old is not None and not keeps_key(primary, old, new):
            raise er(Er.CANT_UPDATE_PRIMARY_KEY, space.name, int(space.id), old, new)
        try:
            statement.old = txn.replace(space, new, observe_old=True)
        except DuplicateKey as duplicate:
            raise duplicate_error(duplicate, space.index(duplicate.index_id).name, space.name) from None
        statement.type = Type.REPLACE
        statement.body = tuple_body(space.id, new)
        statement.new = statement.result = new

    # ---- formats ---------------------------------------------------------------------------------------

    def _shape(self, space: Space) -> TupleFormat:
        """The kernel's form of the format, made once."""
        known = self._formats.get(space.id)
        if known is None or known[0] is not space.format:
            known = self._formats[space.id] = space.format, space.format.kernel()
        return known[1]

    def _check_format(self, space: Space, data: bytes) -> None:
        try:
            self._shape(space).check(data)
        except FormatViolation as violation:
            raise tell_space(self._format_error(space, violation, data), space) from None

    @staticmethod
    def _format_error(space: Space, violation: FormatViolation, data: bytes) -> BoxError:
        return format_error(violation, space.names, data)

    def _check_size(self, statement: Statement, data: bytes) -> None:
        """Is the tuple too large, or the store full (memtx_engine.cc, memtx_tuple_new)? What is in the files or in
        other nodes is let in."""
        if statement.ctx.source is not Source.CLIENT:
            return
        options = self._options
        if len(data) > options.memtx_max_tuple_size:
            raise er(Er.MEMTX_MAX_TUPLE_SIZE, len(data), options.memtx_max_tuple_size)
        if self._schema.memtx.bytes_used + len(data) > options.memtx_memory:
            raise OutOfMemory(len(data), "slab allocator", "memtx_tuple")


def _numbers(space: Space) -> dict[str, int]:
    return {name: number for number, name in enumerate(space.names)}

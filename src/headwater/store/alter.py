"""Changing a space whose tuples are there already (alter.cc alter_space_do and its operations).

Whatever changes, a new definition, an index more or less, other parts, comes down to one thing: from the space as it
is to a new definition and a new set of indexes. What must be built is built first, and every step leaves the way back;
if one fails, the steps before it are taken back and the space is what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headwater.errors import Er, er
from headwater.kernels import DuplicateKey, FormatViolation, MemtxSpace, TupleFormat
from headwater.store.definitions import IndexDef, SpaceDef
from headwater.store.format import Format, merge
from headwater.store.keys import kernel_key_def, same_kernel_index
from headwater.store.violations import duplicate_error, format_error
from headwater.typing import IndexId, IteratorType

if TYPE_CHECKING:
    from headwater.store.context import Context
    from headwater.store.schema import Schema
    from headwater.store.space import Space

Indexes = Mapping[IndexId, IndexDef]

PRIMARY = IndexId(0)
_EMPTY_KEY = b"\x90"
_CHUNK = 1024


def add_kernel_index(schema: Schema, space: Space, index: IndexDef, pk: IndexDef | None) -> None:
    """Build an index from the tuples that are there; TUPLE_FOUND if it is unique and they are not."""
    assert space.kernel is not None, "only memtx has tuples to index"
    key_def = kernel_key_def(index, pk, schema.collations)
    try:
        built = space.kernel.add_index(index.id, key_def, index.unique)
    except DuplicateKey as error:
        raise duplicate_error(error, index.name, space.name) from None
    built.hash = index.type == "hash"


class Alteration:
    """One change of one space."""

    def __init__(self, schema: Schema, space: Space, ctx: Context) -> None:
        self._schema = schema
        self._space = space
        self._ctx = ctx
        self._back: list[Callable[[], None]] = []

    def apply(self, definition: SpaceDef, indexes: Indexes, *, task: str) -> None:
        """Make it so. `task` is what is refused in later statements of a transaction when there are tuples to look
        at: 'index build' or 'space format check' (txn_check_singlestatement)."""
        ordered = dict(sorted(indexes.items()))
        merged = merge(definition.format, [index.parts for index in ordered.values()], definition.field_count)
        try:
            if self._space.kernel is not None:
                self._alter_kernel(definition, ordered, merged, task)
            self._swap(definition, ordered, merged)
        except BaseException:
            self._rollback()
            raise
        self._schema.undo_of(self._space, self._rollback)
        self._schema.bump()

    def _rollback(self) -> None:
        while self._back:
            self._back.pop()()

    # ---- the kernel -----------------------------------------------------------------------------------

    def _alter_kernel(self, definition: SpaceDef, indexes: Indexes, format: Format, task: str) -> None:
        space = self._space
        kernel = space.kernel
        assert kernel is not None
        if len(kernel) and PRIMARY in indexes and not format.can_store(space.format):
            self.check_alone(task)
            self._check_tuples(kernel, format)
        self._alter_indexes(indexes)
        kernel = space.kernel
        assert kernel is not None
        old_format, old_temporary = space.format, kernel.temporary
        kernel.set_format(format.kernel())
        kernel.temporary = definition.is_temporary

        def back() -> None:
            kernel.set_format(old_format.kernel())
            kernel.temporary = old_temporary

        self._back.append(back)

    def check_alone(self, task: str) -> None:
        """A client may do this with tuples there only in the first statement of a transaction: real replicas refuse
        it later, and would stop."""
        if self._ctx.source.is_checked and not self._ctx.is_first:
            raise er(Er.MULTISTATEMENT_TRANSACTION, task)

    def _check_tuples(self, kernel: MemtxSpace, format: Format) -> None:
        """Every tuple against the new format. The kernel says which field is wrong, and the first tuple that is wrong
        in it is the one that it saw."""
        wanted = format.kernel()
        try:
            kernel.check_all(wanted)
        except FormatViolation as error:
            raise format_error(error, format.names, _first_bad(kernel, wanted)) from None

    def _alter_indexes(self, new: Indexes) -> None:
        """Indexes that go, indexes that are built anew, indexes that come."""
        space, sort_keys = self._space, self._schema.collations
        old = space.indexes
        old_pk, new_pk = old.get(PRIMARY), new.get(PRIMARY)
        if old_pk is not None and (new_pk is None or not same_kernel_index(old_pk, None, new_pk, None, sort_keys)):
            self._replace_kernel(new)
            return
        for index_id in sorted(old, reverse=True):
            kept = new.get(index_id)
            if kept is None or not same_kernel_index(old[index_id], old_pk, kept, new_pk, sort_keys):
                self._detach(index_id)
        for index in new.values():
            self._attach(index, new_pk)

    def _detach(self, index_id: IndexId) -> None:
        """Take a secondary index out. One that waits for the end of a snapshot is not there."""
        kernel = self._space.kernel
        if kernel is None or kernel.index(index_id) is None:
            return
        index = kernel.detach_index(index_id)
        self._back.append(lambda: kernel.attach_index(index))

    def _attach(self, index: IndexDef, pk: IndexDef | None) -> None:
        """Build an index if it is not there, or set what costs nothing."""
        space = self._space
        kernel = space.kernel
        assert kernel is not None
        present = kernel.index(index.id)
        if present is None:
            if self._build(index, pk):
                self._back.append(lambda: _detach(kernel, index.id))
            return
        was = present.hash
        present.hash = index.type == "hash"

        def back() -> None:
            present.hash = was

        self._back.append(back)

    def _build(self, index: IndexDef, pk: IndexDef | None) -> bool:
        """Now, or at the end of the snapshot that is being loaded."""
        if self._schema.is_loading_snapshot and index.id != PRIMARY and not self._space.is_system:
            self._schema.defer_index(self._space, index.id)
            return False
        add_kernel_index(self._schema, self._space, index, pk)
        return True

    def _replace_kernel(self, indexes: Indexes) -> None:
        """The primary key owns the tuples. Without it they are gone (space_drop_primary_key); with another one they go
        into a kernel that is built anew. Its inserts leave undo records, so that what reads them waits for the journal
        as it must."""
        space, schema = self._space, self._schema
        old = space.kernel
        assert old is not None
        primary = old.index(PRIMARY)
        assert primary is not None
        tuples = primary.select(IteratorType.ALL, _EMPTY_KEY) if PRIMARY in indexes else []
        schema.memtx.remove_space(space.id)
        new = space.kernel = schema.memtx.add_space(space.id, old.local, old.temporary)

        def back() -> None:
            schema.memtx.remove_space(space.id)
            schema.memtx.restore_space(old)
            space.kernel = old
            schema.feed_access(space)

        self._back.append(back)
        for index in indexes.values():
            self._build(index, indexes[PRIMARY])
        for data in tuples:
            try:
                new.insert(data)
            except DuplicateKey as error:
                raise duplicate_error(error, indexes[IndexId(error.index_id)].name, space.name) from None
        schema.feed_access(space)

    # ---- the picture ----------------------------------------------------------------------------------

    def _swap(self, definition: SpaceDef, indexes: Indexes, format: Format) -> None:
        schema, space = self._schema, self._space
        before = (space.definition, space.indexes, space.format)
        self._set(definition, dict(indexes), format)

        def back() -> None:
            self._set(*before)
            schema.feed_access(space)

        self._back.append(back)
        if before[0].owner != definition.owner:
            schema.feed_access(space)

    def _set(self, definition: SpaceDef, indexes: dict[IndexId, IndexDef], format: Format) -> None:
        space = self._space
        old_name = space.name
        space.definition, space.indexes, space.format = definition, indexes, format
        if old_name != definition.name:
            self._schema.rename_space(space, old_name)
        space.set_fast(snapshot=self._schema.is_loading_snapshot)


def _first_bad(kernel: MemtxSpace, format: TupleFormat) -> bytes:
    primary = kernel.index(PRIMARY)
    after = None
    while primary is not None:
        found = primary.select(IteratorType.ALL, _EMPTY_KEY, 0, _CHUNK, after)
        for data in found:
            try:
                format.check(data)
            except FormatViolation:
                return data
        if len(found) < _CHUNK:
            break
        after = found[-1]
    return b""


def _detach(kernel: MemtxSpace, index_id: IndexId) -> None:
    kernel.detach_index(index_id)

"""A space as the node knows it: its definition, its tuples, its indexes, and who is told when it changes (space.h).

One object for the life of the space: DDL changes it in place and puts it back on rollback, so that sessions and
transactions may hold it. Its kernel is another one after the primary key was changed; ask for it each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headwater.errors import Er, er
from headwater.kernels import KeyDef, MemtxSpace, mp_array_fields
from headwater.store.context import BeforeReplace, Context, Replaced, Source
from headwater.store.definitions import IndexDef, SpaceDef
from headwater.store.format import Format, apply_defaults, array_header, merge
from headwater.store.options import INT64_MAX, INT64_MIN
from headwater.store.privileges import Access
from headwater.store.sequence import Sequence as NumberSequence
from headwater.store.system import SESSION_SETTINGS, is_system
from headwater.store.users import User
from headwater.typing import IndexId, SpaceId
from headwater.wire.msgpack import pack, unpack

_NIL = b"\xc0"


class Reader(Protocol):
    """What reads an index: a `MemtxIndex`, or an index of a system view for one user."""

    @property
    def id(self) -> int: ...
    @property
    def unique(self) -> bool: ...
    @property
    def key_def(self) -> KeyDef: ...
    def __len__(self) -> int: ...
    def get(self, key: bytes) -> bytes | None: ...
    def select(
        self, iterator: int, key: bytes, offset: int = 0, limit: int = 0xFFFFFFFF, after: bytes | None = None
    ) -> list[bytes]: ...
    def count(self, iterator: int, key: bytes) -> int: ...
    def random(self, seed: int) -> bytes | None: ...


class View(Protocol):
    """A space without tuples of its own: a system view, or the settings of a session."""

    def reader(self, index_id: IndexId, user: User) -> Reader: ...
    def check_index(self, index: IndexDef) -> None:
        """Refuse an index that this view cannot have."""
        ...


class Space:
    """One space. `Schema` makes, changes and removes them."""

    __slots__ = (
        "_fast_holds",
        "access",
        "before_replace",
        "changing",
        "definition",
        "format",
        "indexes",
        "kernel",
        "on_replace",
        "sequence",
        "sequence_field",
        "view",
    )

    def __init__(self, definition: SpaceDef, kernel: MemtxSpace | None, view: View | None = None) -> None:
        self.definition = definition
        self.kernel = kernel
        """None for views and for the blackhole of deferred deletes."""
        self.view = view
        self.indexes: dict[IndexId, IndexDef] = {}
        """In the order of their ids."""
        self.format: Format = merge(definition.format, (), definition.field_count)
        self.access = Access()
        self.before_replace: list[BeforeReplace] = []
        """Called in order before a change; each may put another tuple in place of the new one."""
        self.on_replace: list[Replaced] = []
        """Called in order after a change; one that raises takes the statement back."""
        self.sequence: NumberSequence | None = None
        self.sequence_field = 0
        self.changing = 0
        """Changes of its definition, and truncations, that are prepared and not yet written."""
        self._fast_holds = 0

    # ---- what it is -----------------------------------------------------------------------------------

    @property
    def id(self) -> SpaceId:
        return self.definition.id

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def owner(self) -> int:
        return self.definition.owner

    @property
    def engine(self) -> str:
        return self.definition.engine

    @property
    def is_system(self) -> bool:
        return is_system(self.id)

    @property
    def is_local(self) -> bool:
        return self.definition.is_local

    @property
    def is_temporary(self) -> bool:
        return self.definition.is_temporary

    @property
    def is_sync(self) -> bool:
        return self.definition.is_sync

    @property
    def is_view(self) -> bool:
        return self.engine == "sysview"

    @property
    def names(self) -> Sequence[str]:
        """Names of the fields, from field 0 on."""
        return self.format.names

    def field_number(self, name: str) -> int | None:
        """From 0; None if no field has this name."""
        return self.format.names.index(name) if name in self.format.names else None

    def __len__(self) -> int:
        return len(self.kernel) if self.kernel is not None else 0

    @property
    def is_unconfirmed(self) -> bool:
        """May what is read here still be lost?"""
        return self.changing > 0 or (self.kernel is not None and self.kernel.unconfirmed > 0)

    # ---- indexes --------------------------------------------------------------------------------------

    @property
    def pk(self) -> IndexDef | None:
        return self.indexes.get(IndexId(0))

    def index(self, index_id: int) -> IndexDef:
        """NO_SUCH_INDEX_ID if there is none."""
        definition = self.indexes.get(IndexId(index_id))
        if definition is None:
            raise er(Er.NO_SUCH_INDEX_ID, index_id, self.name)
        return definition

    def index_by_name(self, name: str) -> IndexDef:
        """NO_SUCH_INDEX_NAME if there is none."""
        for definition in self.indexes.values():
            if definition.name == name:
                return definition
        raise er(Er.NO_SUCH_INDEX_NAME, name, self.name)

    def reader(self, index_id: int, user: User) -> Reader:
        """What `user` sees through an index: all tuples, or of a system view those that he may know of."""
        definition = self.index(index_id)
        if self.view is not None:
            return self.view.reader(definition.id, user)
        index = self.kernel.index(definition.id) if self.kernel is not None else None
        if index is None:
            raise er(Er.NO_SUCH_INDEX_ID, index_id, self.name)
        return index

    def writable(self, operation: str) -> MemtxSpace:
        """The kernel to write to; `operation` is insert, replace, update, upsert or delete. Views refuse
        (sysview.c, session_settings.c)."""
        if self.kernel is not None:
            return self.kernel
        if self.id == SESSION_SETTINGS:
            raise er(Er.UNSUPPORTED, "_session_settings space", f"{operation}()")
        if self.engine == "blackhole":
            raise er(Er.UNSUPPORTED, "Headwater", f"{operation}() in the space '{self.name}'")
        raise er(Er.VIEW_IS_RO, self.name)

    # ---- the fast path --------------------------------------------------------------------------------

    def hold_fast(self) -> None:
        """Keep the compiled path out until as many `release_fast`: somebody must see every change."""
        self._fast_holds += 1
        self.set_fast()

    def release_fast(self) -> None:
        self._fast_holds -= 1
        self.set_fast()

    def set_fast(self, *, snapshot: bool = False) -> None:
        """May the compiled path serve it? Not a system space, for its triggers; not one with triggers, a sequence or
        defaults; not a synchronous one, whose transactions wait. While a snapshot is loaded triggers are not run and
        sequences have their values from `_sequence_data`."""
        if self.kernel is None:
            return
        plain = snapshot or not (
            self.on_replace
            or self.before_replace
            or self.sequence is not None
            or self._fast_holds
            or self.is_sync
            or any(field.default is not None for field in self.format.fields)
        )
        self.kernel.fast = plain and not self.is_system and self.pk is not None

    # ---- tuples on their way in -----------------------------------------------------------------------

    def with_defaults(self, tuple: bytes) -> bytes:
        """For INSERT, REPLACE and the tuple of UPSERT, once the node is up (space_apply_defaults)."""
        if all(field.default is None for field in self.format.fields):
            return tuple
        return apply_defaults(self.format, tuple, mp_array_fields(tuple))

    def with_sequence(self, tuple: bytes, ctx: Context) -> bytes:
        """For INSERT and REPLACE: a nil in the key is replaced by the next number, a number moves the sequence on
        (request_handle_sequence). Privileges on the sequence are the caller's to check (Schema.prepare)."""
        sequence = self.sequence
        if sequence is None or self.pk is None:
            return tuple
        ends = mp_array_fields(tuple)
        field = self.sequence_field
        if len(ends) - 1 <= field:
            return tuple
        value = tuple[ends[field] : ends[field + 1]]
        if value == _NIL:
            number = pack(sequence.next())
            return array_header(len(ends) - 1) + tuple[ends[0] : ends[field]] + number + tuple[ends[field + 1] :]
        given = unpack(value)
        is_number = isinstance(given, int) and not isinstance(given, bool) and INT64_MIN <= given <= INT64_MAX
        if is_number and ctx.source is not Source.SNAPSHOT:
            sequence.update(given)
        return tuple

"""The dictionary of one node: spaces, users, functions, sequences, collations, members (schema.cc, alter.cc).

It is a picture of the rows of the system spaces, and changes as they change: whoever writes to a system space calls
`replaced` after the kernel took the tuple. The trigger of the space then validates the row, changes the picture and
puts the way back on the undo log, behind the record of the row itself: a journal that fails takes both back in one
order. Rows of a client, of the files and of a peer walk the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from headwater.errors import Er, er
from headwater.kernels import Memtx, MemtxSpace
from headwater.store import system
from headwater.store.access import AccessControl
from headwater.store.alter import Alteration, add_kernel_index
from headwater.store.cluster import Cluster, Member
from headwater.store.collation import Collations
from headwater.store.context import Context, Journal, Source
from headwater.store.definitions import SpaceDef
from headwater.store.events import Event, SchemaChanged
from headwater.store.fields import BOX_INVALID_NAME_MAX
from headwater.store.format import merge
from headwater.store.functions import Function
from headwater.store.privileges import USER_MAX, Access, ObjectType, Priv, PrivKey
from headwater.store.sequence import Sequence
from headwater.store.settings import SettingsView
from headwater.store.space import Space, View
from headwater.store.spacedef import unsupported
from headwater.store.triggers import BEFORE_TRIGGERS, TRIGGERS
from headwater.store.users import User, Users
from headwater.store.views import SystemView
from headwater.typing import VCLOCK_MAX, IndexId, IteratorType, SpaceId
from headwater.wire.msgpack import pack


@dataclass(slots=True)
class Identity:
    """Who this node is, and to whom it belongs, as far as it is written to disk."""

    instance_uuid: UUID | None = None
    """Set by the node before anything is read; not in a row of its own."""
    instance_name: str = ""
    """As the options have it; '' for none. A row of `_cluster` with our UUID must not contradict it."""
    replicaset_uuid: UUID | None = None
    replicaset_name: str = ""
    cluster_name: str = ""
    bootstrap_leader_uuid: UUID | None = None
    dd_version: tuple[int, int, int] = (0, 0, 0)
    """Version of the system spaces, `_schema['version']`."""


class Schema:
    """Everything that the rows of the system spaces say."""

    def __init__(self, memtx: Memtx) -> None:
        self.memtx = memtx
        self.identity = Identity()
        self.cluster = Cluster()
        self.collations = Collations()
        self.spaces: dict[SpaceId, Space] = {}
        self.functions: dict[int, Function] = {}
        self.sequences: dict[int, Sequence] = {}
        self.listeners: list[Callable[[Event], None]] = []
        """Called with every event, in the order in which they listened."""
        self.is_configured = False
        """Is the node up? Names can be set freely before."""
        self.force_recovery = False
        """The option: a set may be renamed."""
        self.refuses_sync = ""
        """Whose mode it is that cannot have synchronous spaces; empty if they may be."""
        self.check_member: Callable[[Member], object] = lambda member: None
        """Raises where a client may not make this instance a member under this id."""
        self.has_connections: Callable[[UUID], bool] = lambda uuid: False
        """Is the member with this UUID connected to us? Its UUID cannot be changed then."""
        self._space_names: dict[str, Space] = {}
        self._function_names: dict[str, Function] = {}
        self._deferred: list[tuple[Space, IndexId]] | None = None
        """Secondary indexes to build once a snapshot is loaded; None when none is being loaded."""
        self._feeding = True
        self.access = AccessControl(self._find_access)
        for stub in system.STUBS:
            self._add_stub(stub)

    def _add_stub(self, stub: system.Stub) -> None:
        definition = stub.space_def()
        space = self.make_space(definition)
        for index in stub.index_defs():
            space.indexes[index.id] = index
            add_kernel_index(self, space, index, None)
        space.format = merge(definition.format, [index.parts for index in space.indexes.values()], 0)
        if space.kernel is not None:
            space.kernel.set_format(space.format.kernel())
        self.put_space(space)

    def clear(self) -> None:
        """Forget every row, in the store too, as if none had ever come: a join begins, perhaps anew. Who listens, and
        what this node calls itself, stays."""
        memtx = self.memtx
        memtx.confirm_to(memtx.undo_end)
        memtx.take_rows()
        for space in self.spaces.values():
            if space.kernel is not None:
                memtx.remove_space(space.id)
        memtx.replica_id = 0
        for replica_id in range(VCLOCK_MAX):
            memtx.set_lsn(replica_id, 0)
        mine = self.identity
        self.identity = Identity(mine.instance_uuid, mine.instance_name)
        for known in (self.spaces, self.functions, self.sequences, self._space_names, self._function_names):
            known.clear()
        self.cluster = Cluster()
        self.collations = Collations()
        self.is_configured = False
        self._deferred = None
        self._feeding = True
        self.access = AccessControl(self._find_access)
        for stub in system.STUBS:
            self._add_stub(stub)

    @property
    def own_name(self) -> str:
        """Of this node, as its row in `_cluster` has it; '' for none (INSTANCE_NAME)."""
        uuid = self.identity.instance_uuid
        member = self.cluster.by_uuid(uuid) if uuid is not None else None
        return member.name if member is not None else ""

    # ---- looking up -----------------------------------------------------------------------------------

    @property
    def users(self) -> Users:
        return self.access.users

    def space(self, key: int | str) -> Space:
        """By id or name; NO_SUCH_SPACE if there is none."""
        space = self._space_names.get(key) if isinstance(key, str) else self.spaces.get(SpaceId(key))
        if space is None:
            raise er(Er.NO_SUCH_SPACE, str(key)[:BOX_INVALID_NAME_MAX] if isinstance(key, str) else str(key))
        return space

    def find_space(self, key: int | str) -> Space | None:
        """None if there is none."""
        return self._space_names.get(key) if isinstance(key, str) else self.spaces.get(SpaceId(key))

    def function(self, name: str) -> Function | None:
        return self._function_names.get(name)

    def sequence(self, sequence_id: int) -> Sequence:
        """NO_SUCH_SEQUENCE if there is none."""
        sequence = self.sequences.get(sequence_id)
        if sequence is None:
            raise er(Er.NO_SUCH_SEQUENCE, str(sequence_id))
        return sequence

    def _find_access(self, key: PrivKey) -> Access | None:
        found: Space | Function | Sequence | None = None
        if isinstance(key.object, int):
            if key.type is ObjectType.SPACE:
                found = self.spaces.get(SpaceId(key.object))
            elif key.type is ObjectType.FUNCTION:
                found = self.functions.get(key.object)
            elif key.type is ObjectType.SEQUENCE:
                found = self.sequences.get(key.object)
        return found.access if found is not None else None

    def has_rows(self, space_id: SpaceId, index_id: int, *key: object) -> bool:
        """Does a system space have a row under this key (space_has_data)?"""
        space = self.spaces.get(space_id)
        index = space.kernel.index(index_id) if space is not None and space.kernel is not None else None
        return index is not None and index.count(IteratorType.EQ, pack(list(key))) > 0

    def has_grants(self, type: ObjectType, object_id: int) -> bool:
        """schema_find_grants."""
        return self.has_rows(system.PRIV, 2, type.value, object_id)

    # ---- statements -----------------------------------------------------------------------------------

    def context(self, user: User | None = None, source: Source = Source.CLIENT) -> Context:
        """A context of its simplest form; admin where no user is given."""
        return Context(user if user is not None else self.users.admin, source)

    def prepare(self, space: Space, tuple: bytes, ctx: Context) -> bytes:
        """The tuple of an INSERT or REPLACE as it will be stored: with the next number of the space's sequence and
        with defaults. Called before the kernel, for rows of every source (space_execute_dml)."""
        sequence = space.sequence
        if sequence is not None:
            if not sequence.is_generated and ctx.source is Source.CLIENT:
                self.access.check_sequence(ctx.user, sequence)
            data = space.with_sequence(tuple, ctx)
        else:
            data = tuple
        return data if ctx.source.is_recovery else space.with_defaults(data)

    def before_replace(self, space: Space, old: bytes | None, new: bytes | None, ctx: Context) -> bytes | None:
        """Run the triggers that may change the new tuple. Called before the kernel, where `space.before_replace` is
        not empty; when it gives `old` back, the statement changes nothing."""
        for trigger in space.before_replace:
            new = trigger(space, old, new, ctx)
        return new

    def replaced(self, space: Space, old: bytes | None, new: bytes | None, ctx: Context) -> Journal:
        """Run the triggers after a change. When one raises, the caller rolls back to its undo mark. Says where the
        row of the statement belongs."""
        journal = Journal.GLOBAL
        for trigger in space.on_replace:
            journal = trigger(space, old, new, ctx) or journal
        return journal

    # ---- changes, for triggers ------------------------------------------------------------------------

    def undo(self, rollback: Callable[[], None], confirm: Callable[[], None] | None = None) -> None:
        """The way back for the journal, and what waits for it. Without undo (recovery) it does not wait."""
        if self.memtx.undo_enabled:
            self.memtx.push_undo(rollback, confirm)
        elif confirm is not None:
            confirm()

    def undo_of(self, space: Space, rollback: Callable[[], None]) -> None:
        """The way back of a change of a space, whose readers wait until it is written."""
        space.changing += 1

        def settled() -> None:
            space.changing -= 1

        def back() -> None:
            settled()
            rollback()

        self.undo(back, settled)

    def emit(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)

    def bump(self) -> None:
        """Clients fetch the schema anew (box_schema_version_bump). A rollback does not count down."""
        self.memtx.schema_version += 1
        self.emit(SchemaChanged(self.memtx.schema_version))

    def make_space(self, definition: SpaceDef) -> Space:
        """A space without indexes; its kernel is in the store from now on."""
        kernel: MemtxSpace | None = None
        view: View | None = None
        if definition.engine == "memtx":
            kernel = self.memtx.add_space(definition.id, definition.is_local, definition.is_temporary)
        elif definition.engine == "sysview":
            view = SystemView(self, definition.id)
        elif definition.engine == "service":
            if definition.id != system.SESSION_SETTINGS:
                raise unsupported(f"the engine 'service' of space '{definition.name}'")
            view = SettingsView()
        try:
            return Space(definition, kernel, view)
        except BaseException:
            if kernel is not None:
                self.memtx.remove_space(definition.id)
            raise

    def put_space(self, space: Space) -> None:
        """Let it be found, and give it the triggers of its id."""
        self.spaces[space.id] = space
        self._space_names[space.name] = space
        if space.id in TRIGGERS and not space.on_replace:
            trigger = TRIGGERS[space.id]
            space.on_replace.append(lambda space, old, new, ctx: trigger(self, space, old, new, ctx))
        if space.id in BEFORE_TRIGGERS and not space.before_replace:
            before = BEFORE_TRIGGERS[space.id]
            space.before_replace.append(lambda space, old, new, ctx: before(self, space, old, new, ctx))
        self.feed_access(space)

    def take_space(self, space: Space) -> None:
        del self.spaces[space.id]
        if self._space_names.get(space.name) is space:
            del self._space_names[space.name]

    def rename_space(self, space: Space, old: str) -> None:
        if self._space_names.get(old) is space:
            del self._space_names[old]
        self._space_names[space.name] = space

    def put_function(self, function: Function) -> None:
        self.functions[function.definition.id] = function
        self._function_names[function.name] = function

    def take_function(self, function: Function) -> None:
        del self.functions[function.definition.id]
        del self._function_names[function.name]

    def alteration(self, space: Space, ctx: Context) -> Alteration:
        return Alteration(self, space, ctx)

    # ---- loading --------------------------------------------------------------------------------------

    def begin_snapshot(self) -> None:
        """From now on secondary indexes of user spaces are not built; see end_snapshot."""
        self._deferred = []
        self._feeding = False

    @property
    def is_loading_snapshot(self) -> bool:
        return self._deferred is not None

    def defer_index(self, space: Space, index_id: IndexId) -> None:
        assert self._deferred is not None, "only while a snapshot is loaded"
        self._deferred.append((space, index_id))

    def end_snapshot(self) -> None:
        """Build the secondary indexes, each in one go; TUPLE_FOUND for a snapshot that contradicts itself. The
        journals that follow find all indexes there."""
        deferred, self._deferred = self._deferred or [], None
        for space, index_id in deferred:
            index = space.indexes.get(index_id)
            if index is not None and space.kernel is not None and space.kernel.index(index_id) is None:
                add_kernel_index(self, space, index, space.pk)
        for space in self.spaces.values():
            space.set_fast()

    def end_recovery(self) -> None:
        """All files are read: from now on the kernel knows everybody's privileges, and spaces with triggers or
        sequences leave the compiled path."""
        self._feeding = True
        self.is_configured = True
        for space in self.spaces.values():
            space.set_fast()
            self.feed_access(space)

    # ---- the kernel's privileges ----------------------------------------------------------------------

    def feed_access(self, space: Space) -> None:
        """Tell the kernel what every user may do with a space."""
        if self._feeding and space.kernel is not None:
            for token, bits in enumerate(self.access.all_space_bits(space)):
                space.kernel.set_access(token, bits)

    def feed_users(self, users: list[User]) -> None:
        """The same for some users and all spaces, after their privileges changed."""
        if not self._feeding:
            return
        for space in self.spaces.values():
            if space.kernel is None:
                continue
            for user in users:
                if 0 <= user.token < USER_MAX:
                    space.kernel.set_access(user.token, self.access.space_bits(user, space))

    def feed_token(self, token: int) -> None:
        """A token changed hands."""
        user = self.users.by_token(token)
        if user is not None:
            self.feed_users([user])
        elif self._feeding:
            for space in self.spaces.values():
                if space.kernel is not None:
                    space.kernel.set_access(token, 0)

    # ---- sequences ------------------------------------------------------------------------------------

    def store_sequences(self) -> None:
        """Bring `_sequence_data` up to the values in memory, without rows for the journal. Called before a read view
        of all spaces is opened: snapshots and joins carry the values (sequence_data_read_view_create)."""
        space = self.spaces.get(system.SEQUENCE_DATA)
        if space is None or space.kernel is None:
            return
        index = space.kernel.index(0)
        for sequence in self.sequences.values():
            row = pack([sequence.id, sequence.value])
            if sequence.value is not None and index is not None and index.get(pack([sequence.id])) != row:
                space.kernel.replace(row)

    # ---- checks of requests ---------------------------------------------------------------------------

    def check_read(self, user: User, space: Space) -> None:
        self.access.check_space(user, space, Priv.READ)

    def check_write(self, user: User, space: Space) -> None:
        self.access.check_space(user, space, Priv.WRITE)

"""`_session_settings`: what a session may set (session_settings.c).

All settings of 3.x are settings of SQL, which Headwater does not speak. They are shown with their defaults and cannot
be set.
"""

from __future__ import annotations

from headwater.errors import Er, er
from headwater.kernels import KeyDef, KeyPart, Memtx, MemtxIndex
from headwater.store.definitions import IndexDef
from headwater.store.users import User
from headwater.typing import FieldType, IndexId
from headwater.wire.msgpack import pack

DEFAULTS: dict[str, object] = {
    "sql_default_engine": "memtx",
    "sql_full_column_names": False,
    "sql_full_metadata": False,
    "sql_parser_debug": False,
    "sql_recursive_triggers": True,
    "sql_reverse_unordered_selects": False,
    "sql_select_debug": False,
    "sql_seq_scan": False,
    "sql_vdbe_debug": False,
}


class SettingsView:
    """The space 380, of the engine `service`."""

    def __init__(self) -> None:
        space = Memtx().add_space(380, temporary=True)
        self._index = space.add_index(0, KeyDef([KeyPart(0, FieldType.STRING)]), True)
        for name, value in DEFAULTS.items():
            space.insert(pack([name, value]))
        self._space = space

    def reader(self, index_id: IndexId, user: User) -> MemtxIndex:
        return self._index

    def check_index(self, index: IndexDef) -> None:
        if index.id != 0:
            raise er(Er.UNSUPPORTED, "_session_settings space", "create_index()")

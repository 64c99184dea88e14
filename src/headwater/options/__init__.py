"""Every option once: name, type, unit, default, whether it may change while the node runs, and what it means.

`Options` holds the values of one node. `Options.load({...})` and `Options.plan({...})` check values as box.cfg of 3.x
does (load_cfg.lua, prepare_cfg; box.cc, box_check_config), with its error texts. `SETTINGS` is the table itself: flags,
YAML keys, environment variables (`headwater.config`), `box.cfg` over CALL and the documentation all come from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from headwater.errors import Er, er
from headwater.options import checks, foreign, replication, table, units
from headwater.options.setting import Setting, Support, Unit, settings_of
from headwater.uri import Uri

__all__ = ["RENAMED", "SETTINGS", "Options", "Setting", "Support", "Unit"]


class Options(
    table.Network,
    table.Directories,
    table.Memory,
    table.Journal,
    table.Checkpoints,
    table.Transactions,
    table.Identity,
    table.Logs,
    table.Ours,
    foreign.Process,
    foreign.Allocator,
    foreign.JournalOfReplicas,
    replication.Replication,
    foreign.Synchronous,
    foreign.Election,
    foreign.Vinyl,
    foreign.Reports,
):
    """The configuration of one node. Whoever uses an option reads the attribute when it needs it, never a copy."""

    def __init__(self) -> None:
        """Every option has its default."""
        self.assign({name: row.default for name, row in SETTINGS.items()})

    @classmethod
    def load(cls, values: Mapping[str, object]) -> Options:
        """A checked configuration; what is not in `values` has its default. BoxError ER_CFG for the first mistake."""
        options = cls()
        options.assign(prepare(upgrade(values)))
        options.check(SETTINGS)
        return options

    def plan(self, values: Mapping[str, object]) -> dict[str, Any]:
        """What a call of box.cfg with `values` would set: checked, and nothing is assigned yet (reload_cfg).

        Options that may not change are left out when they keep their value and are ER_RELOAD_CFG when they do not.
        """
        wanted = prepare(upgrade(values))
        for name, value in wanted.items():
            if not SETTINGS[name].dynamic and value != getattr(self, name):
                raise er(Er.RELOAD_CFG, name)
        changes = {name: value for name, value in wanted.items() if SETTINGS[name].dynamic}
        candidate = Options()
        candidate.assign({**self.as_map(), **changes})
        candidate.check(changes)
        self._check_growth(changes)
        return dict(sorted(changes.items(), key=lambda item: _ORDER.get(item[0], math.inf)))

    def assign(self, values: Mapping[str, Any]) -> None:
        """Take values that `prepare` or `plan` gave."""
        for name, value in values.items():
            setattr(self, name, value)

    def check(self, names: Mapping[str, object]) -> None:
        """The checks of these options and of what they must be together."""
        for name in names:
            row = SETTINGS[name]
            wrong = row.check(getattr(self, name)) if row.check else None
            if wrong is None and row.support is Support.REFUSED and getattr(self, name) != row.default:
                wrong = f"Headwater takes the default only: {row.why}"
            if wrong is not None:
                raise er(Er.CFG, name, wrong)
        self._check_together()

    def _check_together(self) -> None:
        if self.replica_ids == "remap" and self.election_mode != "off":
            words = "'remap' does not go together with elections, whose rows hold ids: set election_mode to 'off'"
            raise er(Er.CFG, "replica_ids", words)
        if self.replication_anon and self.read_only is not True:
            # box.cc, box_check_replication_anon
            raise er(Er.CFG, "replication_anon", "the value may be set to true only when the instance is read-only")
        if self.replication_conflict == "last_write_wins" and self.replica_ids == "remap":
            # Stamps hold replica ids, which must mean the same on every node.
            raise er(Er.CFG, "replication_conflict", "'last_write_wins' does not go together with replica_ids 'remap'")
        if self.dev:
            for uri in self.addresses:
                if not uri.is_loopback:
                    raise er(Er.CFG, "dev", f"only loopback may be listened on, and {uri} is not: use 127.0.0.1")

    def _check_growth(self, changes: Mapping[str, Any]) -> None:
        """memtx_engine.cc, memtx_engine_set_memory"""
        if changes.get("memtx_memory", self.memtx_memory) < self.memtx_memory:
            raise er(Er.CFG, "memtx_memory", "cannot decrease memory size at runtime")
        if changes.get("read_only") == "unless_bootstrap" and self.read_only != "unless_bootstrap":
            words = "the 'unless_bootstrap' value may be set only during the initial box.cfg() call"
            raise er(Er.CFG, "read_only", words)

    def as_map(self) -> dict[str, Any]:
        """Every option with its value, in the order of the table."""
        return {name: getattr(self, name) for name in SETTINGS}

    def changed(self) -> dict[str, Any]:
        """Those that differ from their defaults."""
        return {name: value for name, value in self.as_map().items() if value != SETTINGS[name].default}

    def ignored(self) -> Iterator[Setting]:
        """Set, and without effect: the node says so when it starts."""
        for name in self.changed():
            if SETTINGS[name].support is Support.IGNORED:
                yield SETTINGS[name]

    @property
    def addresses(self) -> list[Uri]:
        """`listen`, parsed."""
        return checks.addresses(self.listen)

    @property
    def upstreams(self) -> list[Uri]:
        """`replication`, parsed."""
        return checks.addresses(self.replication)

    @property
    def log_level_number(self) -> int:
        return checks.LOG_LEVELS[self.log_level] if isinstance(self.log_level, str) else self.log_level

    @property
    def txn_isolation_level(self) -> int:
        """1 read-committed, 2 read-confirmed, 3 best-effort (txn.h)."""
        return checks.ISOLATION_LEVELS.index(checks.isolation_name(self.txn_isolation) or "best-effort")

    @property
    def procedure_modules(self) -> list[str]:
        given = self.procedures or []
        names = given.split(",") if isinstance(given, str) else given
        return [name.strip() for name in names if name.strip()]


SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {row.name: row for cls in Options.__mro__ for row in settings_of(cls)}
)

_ORDER: Mapping[str, int] = MappingProxyType({"force_recovery": 50, "listen": 100})
"""What is set before the rest (load_cfg.lua, dynamic_cfg_order)."""

_TYPES: Mapping[type, str] = MappingProxyType(
    {bool: "boolean", int: "number", float: "number", str: "string", dict: "table", list: "table", tuple: "table"}
)


def prepare(values: Mapping[str, object]) -> dict[str, Any]:
    """Known names, right types, values in the form in which they are kept (load_cfg.lua, prepare_cfg).

    None and the empty text stand for the default.
    """
    prepared: dict[str, Any] = {}
    for name, value in values.items():
        row = SETTINGS.get(name)
        if row is None:
            raise er(Er.CFG, name, "unexpected option")
        prepared[name] = row.default if value is None or value == "" else _kept(row, value)
    return prepared


def _kept(row: Setting, value: object) -> Any:
    if isinstance(value, str) and not units.is_plain_number(value):
        value = _quantity(row, value)
    if _TYPES.get(type(value)) not in row.types:
        raise er(Er.CFG, row.name, row.type_error)
    if isinstance(value, float) and not math.isfinite(value):
        raise er(Er.CFG, row.name, "should be a finite number")
    if row.whole and isinstance(value, float):
        return int(value)
    if row.name in ("instance_name", "replicaset_name", "cluster_name") and isinstance(value, str):
        return value.lower()
    return value


def _quantity(row: Setting, text: str) -> object:
    try:
        match row.unit:
            case Unit.BYTES:
                return units.parse_bytes(text)
            case Unit.SECONDS:
                return units.parse_seconds(text)
    except ValueError as error:
        raise er(Er.CFG, row.name, str(error)) from None
    return text


RENAMED: Mapping[str, str] = MappingProxyType(
    {
        "snapshot_count": "checkpoint_count",
        "snapshot_period": "checkpoint_interval",
        "slab_alloc_minimal": "memtx_min_tuple_size",
        "slab_alloc_maximal": "memtx_max_tuple_size",
        "snap_dir": "memtx_dir",
        "logger": "log",
        "logger_nonblock": "log_nonblock",
        "replication_source": "replication",
    }
)
"""Names of long ago and of today (load_cfg.lua, translate_cfg), those that only changed their name."""


def upgrade(values: Mapping[str, object]) -> dict[str, object]:
    """Old names become new ones (load_cfg.lua, upgrade_cfg)."""
    upgraded: dict[str, object] = {}
    for name, value in values.items():
        new = RENAMED.get(name, name)
        if new != name and values.get(new, value) != value:
            raise er(Er.CFG, name, "can not override a value for a deprecated option")
        upgraded[new] = value
    return upgraded

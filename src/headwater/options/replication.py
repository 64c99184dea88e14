"""Options of a replica set that are served (load_cfg.lua, template_cfg; box.cc, box_check_replication and kin)."""

from __future__ import annotations

from typing import Any

from headwater.options import checks
from headwater.options.setting import Support, Unit, setting


class Replication:
    """Replica sets."""

    replication: Any = setting(
        None,
        "Whom to follow: addresses, with commas or as a list.",
        types="string, number, table",
        whole=True,
        dynamic=True,
        yaml="replication.peers",
        check=checks.uris,
    )
    replication_anon: bool = setting(
        False,
        "Follow without being a member.",
        dynamic=True,
        yaml="replication.anon",
    )
    replication_anon_ttl: float = setting(
        3600,
        "How long an anonymous replica that left is remembered.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="replication.anon_ttl",
        check=checks.positive("the value must be greater than 0"),
    )
    replication_timeout: float = setting(
        1,
        "Time between two signs of life to a peer.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="replication.timeout",
        check=checks.positive("the value must be greather than 0"),
    )
    replication_reconnect_timeout: float | None = setting(
        None,
        "Time between two attempts to connect; replication_timeout if unset.",
        types="number",
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="replication.reconnect_timeout",
        check=checks.not_negative("the value must be box.NULL or greater/equal to 0"),
    )
    replication_connect_timeout: float = setting(
        30,
        "How long the start waits for connections.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="replication.connect_timeout",
        check=checks.positive("the value must be greather than 0"),
    )
    replication_connect_quorum: int | None = setting(
        None,
        "How many connections the start waits for.",
        types="number",
        whole=True,
        dynamic=True,
        check=checks.not_negative("the value must be greater or equal to 0"),
    )
    replication_sync_lag: float = setting(
        10,
        "A replica that is less behind counts as in sync.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="replication.sync_lag",
        check=checks.positive("the value must be greater than 0"),
    )
    replication_sync_timeout: float = setting(
        0,
        "How long a change of `replication` waits until in sync.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="replication.sync_timeout",
        check=checks.not_negative("the value must be greater than or equal to 0"),
    )
    replication_skip_conflict: bool = setting(
        False,
        "Go on after a duplicate key from a peer.",
        dynamic=True,
        yaml="replication.skip_conflict",
    )
    replication_conflict: str = setting(
        "stop",
        """What becomes of a row of a peer that does not fit: `stop` replication, `skip` it, `last_write_wins`, or a
        function of a Python module that decides, `module:function` (docs/replication.md).""",
        dynamic=True,
        support=Support.OURS,
        yaml="headwater.replication_conflict",
        check=checks.conflict_policy,
    )
    replication_conflict_horizon: float = setting(
        7 * 86400,
        """How long `last_write_wins` remembers when a tuple was written or deleted. A row that is older, and comes
        after that is forgotten, stops replication.""",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        support=Support.OURS,
        check=checks.positive("the value must be greater than 0"),
    )
    bootstrap_strategy: str = setting(
        "auto",
        "Who creates a new replica set: `auto`, whom all that answered choose; `config`, the `bootstrap_leader`; "
        "`supervised`, who is told so (`box.ctl.make_bootstrap_leader`); `legacy`, whom those choose that "
        "`replication_connect_quorum` asks for.",
        dynamic=True,
        yaml="replication.bootstrap_strategy",
        check=checks.one_of(
            "the value should be one of the following: 'auto', 'config', 'supervised', 'legacy'",
            "auto",
            "config",
            "supervised",
            "legacy",
        ),
    )
    bootstrap_leader: Any = setting(
        None,
        "With the strategy `config`: who creates it, by address, UUID or name.",
        types="string, number",
        dynamic=True,
    )
    wal_cleanup_delay: float | None = setting(
        None,
        "How long journal files are kept for replicas that have not come back yet.",
        types="number",
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="wal.cleanup_delay",
        check=checks.not_negative("value must be >= 0"),
    )
    replica_ids: str = setting(
        "shared",
        """Who gives replica ids: `shared`, the set as a whole, as Tarantool does; `remap`, each node its own, which it
        never uses twice.""",
        support=Support.OURS,
        check=checks.one_of("the value must be one of the following strings: 'shared', 'remap'", "shared", "remap"),
    )

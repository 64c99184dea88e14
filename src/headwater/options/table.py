"""The options that Headwater serves: Tarantool's, then its own.

Names, types, defaults and which are dynamic: load_cfg.lua of 3.x. The class attributes are the values; what is known
about each stands in its `setting`. Nothing else in the program repeats a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.options import checks
from headwater.options.setting import Support, Unit, setting

MiB = 2**20
CENTURY = 365 * 100 * 86400


class Network:
    """Connections of clients."""

    listen: Any = setting(
        None,
        """Where clients and peers connect: a port, host:port, unix/:path, several of them with commas or as a list.
        Without it the node serves nobody.""",
        types="string, number, table",
        whole=True,
        dynamic=True,
        yaml="iproto.listen",
        check=checks.uris,
    )
    net_msg_max: int = setting(
        768,
        "How many requests may be in work at once; beyond it the node stops reading from connections.",
        dynamic=True,
        yaml="iproto.net_msg_max",
        check=lambda value: "minimal value is 2" if value < 2 else None,
    )
    readahead: int = setting(
        16320,
        "How much is read from a connection before its requests are answered.",
        unit=Unit.BYTES,
        dynamic=True,
        yaml="iproto.readahead",
        check=checks.between(128, 2**31 - 1, "specified value is out of bounds"),
    )
    auth_type: str = setting(
        "chap-sha1",
        "How passwords are proved and stored.",
        dynamic=True,
        yaml="security.auth_type",
        check=checks.named_back("chap-sha1"),
    )
    too_long_threshold: float = setting(
        0.5,
        "A request or a journal write that takes longer is named in the log.",
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="fiber.too_long_threshold",
    )


class Directories:
    """Where files are."""

    work_dir: str | None = setting(
        None,
        "The directory that the node works in; the other directories are relative to it.",
        types="string",
        yaml="process.work_dir",
    )
    memtx_dir: str = setting(".", "Where snapshots (.snap) are.", yaml="snapshot.dir")
    wal_dir: str = setting(".", "Where the journal (.xlog) is.", yaml="wal.dir")
    pid_file: str | None = setting(
        None, "The file that holds the number of the process while it runs.", types="string", yaml="process.pid_file"
    )


class Memory:
    """Tuples in memory."""

    memtx_memory: int = setting(
        256 * MiB,
        "How much memory tuples and indexes may take. It may grow while the node runs, not shrink.",
        unit=Unit.BYTES,
        dynamic=True,
        yaml="memtx.memory",
        check=checks.quota,
    )
    memtx_max_tuple_size: int = setting(
        MiB,
        "A larger tuple is refused.",
        unit=Unit.BYTES,
        dynamic=True,
        yaml="memtx.max_tuple_size",
    )


class Journal:
    """The write-ahead log."""

    wal_mode: str = setting(
        "write",
        """What a write waits for. `none`: nothing, and it is lost with the process; `write`: it is with the operating
        system; `fsync`: it is on the disk.""",
        yaml="wal.mode",
        check=checks.named_back("none", "write", "fsync"),
    )
    wal_max_size: int = setting(
        256 * MiB,
        "A larger .xlog is closed and the next one begun.",
        unit=Unit.BYTES,
        yaml="wal.max_size",
        check=lambda value: "the value must be greater than one" if value <= 1 else None,
    )
    wal_queue_max_size: int = setting(
        16 * MiB,
        "How many bytes of applied rows may wait for the journal. 0: as many as there are.",
        unit=Unit.BYTES,
        dynamic=True,
        yaml="wal.queue_max_size",
        check=checks.not_negative("wal_queue_max_size must be >= 0"),
    )
    force_recovery: bool = setting(
        False,
        "Start although a file is damaged: skip what cannot be read and say what was skipped.",
        dynamic=True,
    )


class Checkpoints:
    """Snapshots."""

    checkpoint_interval: float = setting(
        3600,
        "Time between two snapshots. 0: none by time.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="snapshot.by.interval",
    )
    checkpoint_wal_threshold: int = setting(
        10**18,
        "When the journal since the last snapshot is larger, a snapshot is made.",
        unit=Unit.BYTES,
        dynamic=True,
        yaml="snapshot.by.wal_size",
    )
    checkpoint_count: int = setting(
        2,
        "How many snapshots are kept, and the journal since the oldest of them.",
        dynamic=True,
        yaml="snapshot.count",
        check=lambda value: "the value must not be less than one" if value < 1 else None,
    )
    snap_io_rate_limit: float | None = setting(
        None,
        "Megabytes of a snapshot that are written in a second at most.",
        types="number",
        whole=False,
        dynamic=True,
        yaml="snapshot.snap_io_rate_limit",
    )


class Transactions:
    """Interactive transactions."""

    txn_timeout: float = setting(
        CENTURY,
        "An open transaction is rolled back after this time.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="database.txn_timeout",
        check=checks.positive("the value must be greather than 0"),
    )
    txn_isolation: Any = setting(
        "best-effort",
        "The isolation level of a transaction that names none: read-committed, read-confirmed or best-effort.",
        types="string, number",
        whole=True,
        dynamic=True,
        yaml="database.txn_isolation",
        check=checks.isolation,
    )


class Identity:
    """Who this node is."""

    read_only: Any = setting(
        False,
        """Refuse writes of clients. `unless_bootstrap`: only the node that creates the replica set begins writable,
        and no node that is started again.""",
        types="boolean, string",
        dynamic=True,
        check=checks.read_only,
    )
    instance_uuid: str | None = setting(
        None,
        "The identity of the node. Drawn at its first start, and then for good.",
        types="string",
        dynamic=True,
        yaml="database.instance_uuid",
        check=checks.uuid_text,
    )
    replicaset_uuid: str | None = setting(
        None,
        "The identity of the replica set. Drawn by the node that creates it, and then for good.",
        types="string",
        dynamic=True,
        yaml="database.replicaset_uuid",
        check=checks.uuid_text,
    )
    instance_name: str | None = setting(
        None, "Its name, stored in _cluster.", types="string", dynamic=True, check=checks.node_name
    )
    replicaset_name: str | None = setting(
        None, "The name of the replica set, stored in _schema.", types="string", dynamic=True, check=checks.node_name
    )
    cluster_name: str | None = setting(
        None, "The name of the cluster, stored in _schema.", types="string", dynamic=True, check=checks.node_name
    )


class Logs:
    """What the node says."""

    log: str | None = setting(
        None,
        "Where log lines go: the standard error stream if unset, a file (`file:PATH` or PATH).",
        types="string",
        dynamic=True,
        check=lambda value: (
            "only a file or the standard error stream can take the log: use a path or file:PATH"
            if value is not None and value.startswith(("pipe:", "|", "syslog:"))
            else None
        ),
    )
    log_level: Any = setting(
        5,
        "How much is said: 0 fatal, 1 syserror, 2 error, 3 crit, 4 warn, 5 info, 6 verbose, 7 debug.",
        types="number, string",
        whole=True,
        dynamic=True,
        yaml="log.level",
        check=checks.log_level,
    )
    log_modules: Mapping[str, Any] | None = setting(
        None,
        "Other levels for some parts of the program: a map of their names to levels.",
        types="table",
        dynamic=True,
        yaml="log.modules",
        check=checks.log_modules,
    )
    log_format: str = setting(
        "plain",
        "`plain` lines, or one JSON object a line.",
        dynamic=True,
        yaml="log.format",
        check=checks.one_of("expected 'plain' or 'json'", "plain", "json"),
    )


class Ours:
    """Headwater's own."""

    schema_version: str = setting(
        "3.8.0",
        """Whose system spaces a new data directory gets: 3.8.0, 2.11.5, or 2.3.1 for a replica set with
        Tarantool 2.6. An existing directory keeps what it has.""",
        support=Support.OURS,
        yaml="headwater.schema_version",
        check=checks.one_of("must be one of " + ", ".join(checks.SCHEMA_VERSIONS), *checks.SCHEMA_VERSIONS),
    )
    dev: bool = setting(
        False,
        "For trying out: the guest may do everything. Refused on any address but loopback.",
        support=Support.OURS,
        yaml="headwater.dev",
    )
    procedures: Any = setting(
        None,
        "Python modules or files, with commas, whose functions clients may call (docs/procedures.md).",
        types="string, table",
        support=Support.OURS,
        yaml="headwater.procedures",
    )
    max_packet: int = setting(
        2**31,
        "A larger request closes the connection that sent it.",
        unit=Unit.BYTES,
        dynamic=True,
        support=Support.OURS,
        yaml="headwater.max_packet",
        check=checks.between(1024, 2**31, "must be at least 1KiB and at most 2GiB"),
    )
    max_packet_before_login: int = setting(
        64 * 1024,
        "The same for a connection on which no user but guest has logged in, if guest has no privileges of its own.",
        unit=Unit.BYTES,
        dynamic=True,
        support=Support.OURS,
        yaml="headwater.max_packet_before_login",
        check=checks.between(1024, 2**31, "must be at least 1KiB and at most 2GiB"),
    )
    max_connections: int = setting(
        10000,
        "How many connections may be open at once; the next one is closed at once.",
        dynamic=True,
        support=Support.OURS,
        yaml="headwater.max_connections",
        check=checks.between(1, 10**6, "must be between 1 and 1000000"),
    )
    login_timeout: float = setting(
        0,
        "A connection that has sent no complete request in this time is closed. 0: never.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        support=Support.OURS,
        yaml="headwater.login_timeout",
        check=checks.not_negative("the value must be greater than or equal to 0"),
    )
    idle_timeout: float = setting(
        0,
        "A connection that is silent for this time is closed. 0: never.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        support=Support.OURS,
        yaml="headwater.idle_timeout",
        check=checks.not_negative("the value must be greater than or equal to 0"),
    )

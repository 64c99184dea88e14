"""Tarantool's options that Headwater knows and does not serve.

IGNORED ones let a configuration written for Tarantool go on working: they tune something that does not exist here.
REFUSED ones would promise what is not there; only their default is taken. docs/compatibility.md tells the same.
Options of the enterprise edition are unknown here as they are to Tarantool's community edition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.options import checks
from headwater.options.setting import Support, Unit, setting

MiB = 2**20
_POOL = "one thread serves all connections, one writes the journal"
_ARENA = "tuples are allocated another way"
_VINYL = "there is no vinyl engine; spaces of it are refused by name"
_FEEDBACK = "Headwater reports to nobody"
_SYNC = "this node follows synchronous writes of others and makes none itself"
_ELECTION = "this node follows leaders that others elect, and does not vote"
_IGNORED = Support.IGNORED
_REFUSED = Support.REFUSED


class Process:
    """How the process runs."""

    strip_core: bool = setting(
        True,
        "Leave tuples out of core files.",
        yaml="process.strip_core",
        support=_IGNORED,
        why="core files are the system's",
    )
    coredump: bool = setting(
        False, "Write core files.", yaml="process.coredump", support=_IGNORED, why="core files are the system's"
    )
    background: bool = setting(
        False,
        "Leave the terminal.",
        yaml="process.background",
        support=_REFUSED,
        why="run it under systemd or another supervisor",
    )
    username: str | None = setting(
        None,
        "The system user to become.",
        types="string",
        yaml="process.username",
        support=_REFUSED,
        why="start it as that user",
    )
    custom_proc_title: str | None = setting(
        None,
        "Words for the list of processes.",
        types="string",
        dynamic=True,
        yaml="process.title",
        support=_IGNORED,
        why="the title stays the command",
    )
    hot_standby: bool = setting(
        False,
        "Wait for another process to leave the directory.",
        yaml="database.hot_standby",
        support=_REFUSED,
        why="a second process on the same directory is refused",
    )
    app_threads: int = setting(
        0,
        "Threads for applications.",
        support=_REFUSED,
        why="procedures run in the loop",
        check=checks.between(0, 1000, "must be greater than or equal to 0 and less than or equal to 1000"),
    )
    iproto_threads: int = setting(
        1,
        "Threads for connections.",
        yaml="iproto.threads",
        support=_IGNORED,
        why=_POOL,
        check=checks.between(1, 1000, "must be greater than or equal to 0, less than or equal to 1000"),
    )
    worker_pool_threads: int = setting(
        4, "Threads for blocking calls.", dynamic=True, yaml="fiber.worker_pool_threads", support=_IGNORED, why=_POOL
    )
    io_collect_interval: float | None = setting(
        None,
        "Pause between two looks at the sockets.",
        types="number",
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="fiber.io_collect_interval",
        support=_IGNORED,
        why="the loop takes what is there",
    )
    log_nonblock: bool | None = setting(
        None,
        "Lose log lines rather than wait.",
        types="boolean",
        yaml="log.nonblock",
        support=_REFUSED,
        why="a file and the standard error stream always take the line",
    )
    metrics: Mapping[str, Any] | None = setting(
        None,
        "Which metrics are kept.",
        types="table",
        dynamic=True,
        support=_IGNORED,
        why="metrics are served by another part of the program",
    )


class Allocator:
    """How Tarantool keeps tuples in memory."""

    memtx_min_tuple_size: int = setting(
        16,
        "The smallest piece of memory.",
        unit=Unit.BYTES,
        yaml="memtx.min_tuple_size",
        support=_IGNORED,
        why=_ARENA,
        check=checks.between(8, 1048280, "specified value is out of bounds"),
    )
    slab_alloc_granularity: int = setting(
        8,
        "Pieces are multiples of it.",
        unit=Unit.BYTES,
        yaml="memtx.slab_alloc_granularity",
        support=_IGNORED,
        why=_ARENA,
        check=checks.granularity,
    )
    slab_alloc_factor: float = setting(
        1.05, "How sizes of pieces grow.", yaml="memtx.slab_alloc_factor", support=_IGNORED, why=_ARENA
    )
    memtx_allocator: str = setting(
        "small",
        "Which allocator.",
        yaml="memtx.allocator",
        support=_IGNORED,
        why=_ARENA,
        check=lambda value: (
            None if value in ("small", "system") else f"must be small or system, but was set to {value}"
        ),
    )
    memtx_sort_threads: int | None = setting(
        None,
        "Threads that sort indexes while recovering.",
        types="number",
        whole=True,
        yaml="memtx.sort_threads",
        support=_IGNORED,
        why="indexes are built as rows come",
        check=checks.between(1, 256, "must be greater than 0 and less than or equal to 256"),
    )
    memtx_use_sort_data: bool = setting(
        False,
        "Keep the order of secondary indexes beside a snapshot.",
        dynamic=True,
        yaml="memtx.use_sort_data",
        support=_IGNORED,
        why="indexes are built as rows come",
    )
    memtx_use_mvcc_engine: bool = setting(
        False,
        "Let transactions yield.",
        yaml="database.use_mvcc_engine",
        support=_IGNORED,
        why="transactions over streams and in procedures may always yield; conflicts are found at commit",
    )


class JournalOfReplicas:
    """Options of the journal that matter to replicas and standbys."""

    wal_dir_rescan_delay: float = setting(
        2,
        "Pause between two looks into the journal's directory.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="wal.dir_rescan_delay",
        support=_IGNORED,
        why="nobody follows the directory",
    )


class Synchronous:
    """Synchronous replication."""

    replication_threads: int = setting(
        1,
        "Threads that read from peers.",
        yaml="replication.threads",
        support=_IGNORED,
        why="one thread reads from all peers",
        check=checks.between(1, 1000, "must be greater than 0, less than or equal to 1000"),
    )
    replication_synchro_quorum: Any = setting(
        "N / 2 + 1",
        "How many members must have a synchronous write; a number or a formula of N.",
        types="string, number",
        whole=True,
        dynamic=True,
        yaml="replication.synchro_quorum",
        support=_IGNORED,
        why=_SYNC,
        check=checks.synchro_quorum,
    )
    replication_synchro_timeout: float = setting(
        5,
        "How long a snapshot waits for synchronous writes of others that have no quorum yet.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="replication.synchro_timeout",
        check=checks.positive("the value must be greater than zero"),
    )
    replication_synchro_queue_max_size: int = setting(
        16 * MiB,
        "How many bytes of synchronous writes may wait.",
        unit=Unit.BYTES,
        dynamic=True,
        yaml="replication.synchro_queue_max_size",
        support=_IGNORED,
        why=_SYNC,
        check=checks.not_negative("replication_synchro_queue_max_size must be >= 0"),
    )
    replication_linearizable_quorum: Any = setting(
        "N - Q + 1",
        "How many members a linearizable read asks.",
        types="string, number",
        whole=True,
        dynamic=True,
        yaml="replication.linearizable_quorum",
        support=_IGNORED,
        why=_SYNC,
        check=checks.linearizable_quorum,
    )
    txn_synchro_timeout: float = setting(
        5,
        "How long a transaction waits for its quorum before it is left alone.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="database.txn_synchro_timeout",
        support=_IGNORED,
        why=_SYNC,
        check=checks.positive("the value must be greater than 0"),
    )


class Election:
    """Leaders."""

    election_mode: str = setting(
        "off",
        "Does the node vote, may it lead?",
        dynamic=True,
        yaml="replication.election_mode",
        support=_REFUSED,
        why=_ELECTION,
        check=checks.one_of(
            "the value must be one of the following strings: 'off', 'voter', 'candidate', 'manual'",
            "off",
            "voter",
            "manual",
            "candidate",
        ),
    )
    election_timeout: float = setting(
        5,
        "How long an election may take before the next one.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="replication.election_timeout",
        support=_IGNORED,
        why=_ELECTION,
        check=checks.positive("the value must be a positive number"),
    )
    election_fencing_mode: str = setting(
        "soft",
        "When a leader without a quorum gives up.",
        dynamic=True,
        yaml="replication.election_fencing_mode",
        support=_IGNORED,
        why=_ELECTION,
        check=checks.one_of(
            "the value must be one of the following strings: 'off', 'soft', 'strict'", "off", "soft", "strict"
        ),
    )


class Vinyl:
    """Tarantool's engine on disk."""

    vinyl_dir: str = setting(".", "Where its files are.", yaml="vinyl.dir", support=_IGNORED, why=_VINYL)
    vinyl_memory: int = setting(
        128 * MiB,
        "Its memory.",
        unit=Unit.BYTES,
        dynamic=True,
        yaml="vinyl.memory",
        support=_IGNORED,
        why=_VINYL,
        check=checks.quota,
    )
    vinyl_cache: int = setting(
        128 * MiB, "Its cache.", unit=Unit.BYTES, dynamic=True, yaml="vinyl.cache", support=_IGNORED, why=_VINYL
    )
    vinyl_max_tuple_size: int = setting(
        MiB,
        "Its largest tuple.",
        unit=Unit.BYTES,
        dynamic=True,
        yaml="vinyl.max_tuple_size",
        support=_IGNORED,
        why=_VINYL,
    )
    vinyl_read_threads: int = setting(
        1,
        "Threads that read.",
        yaml="vinyl.read_threads",
        support=_IGNORED,
        why=_VINYL,
        check=lambda value: "must be greater than or equal to 1" if value < 1 else None,
    )
    vinyl_write_threads: int = setting(
        4,
        "Threads that write.",
        yaml="vinyl.write_threads",
        support=_IGNORED,
        why=_VINYL,
        check=lambda value: "must be greater than or equal to 2" if value < 2 else None,
    )
    vinyl_timeout: float = setting(
        60,
        "How long a write waits for memory.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="vinyl.timeout",
        support=_IGNORED,
        why=_VINYL,
    )
    vinyl_defer_deletes: bool = setting(
        False, "Delete later.", dynamic=True, yaml="vinyl.defer_deletes", support=_IGNORED, why=_VINYL
    )
    vinyl_run_count_per_level: int = setting(
        2,
        "Runs a level.",
        yaml="vinyl.run_count_per_level",
        support=_IGNORED,
        why=_VINYL,
        check=checks.positive("must be greater than 0"),
    )
    vinyl_run_size_ratio: float = setting(
        3.5,
        "How levels grow.",
        yaml="vinyl.run_size_ratio",
        support=_IGNORED,
        why=_VINYL,
        check=lambda value: "must be greater than 1" if value <= 1 else None,
    )
    vinyl_range_size: int | None = setting(
        None,
        "Its largest range.",
        types="number",
        whole=True,
        unit=Unit.BYTES,
        yaml="vinyl.range_size",
        support=_IGNORED,
        why=_VINYL,
    )
    vinyl_page_size: int = setting(
        8 * 1024,
        "Its page.",
        unit=Unit.BYTES,
        yaml="vinyl.page_size",
        support=_IGNORED,
        why=_VINYL,
        check=checks.positive("must be greater than 0 and less than or equal to vinyl_range_size"),
    )
    vinyl_bloom_fpr: float = setting(
        0.05,
        "How often its filters are wrong.",
        yaml="vinyl.bloom_fpr",
        support=_IGNORED,
        why=_VINYL,
        check=lambda value: None if 0 < value <= 1 else "must be greater than 0 and less than or equal to 1",
    )


class Reports:
    """SQL, and what Tarantool tells its makers."""

    sql_cache_size: int = setting(
        5 * MiB,
        "Memory for prepared statements.",
        unit=Unit.BYTES,
        dynamic=True,
        yaml="sql.cache_size",
        support=_IGNORED,
        why="there is no SQL",
        check=checks.not_negative("must be non-negative"),
    )
    feedback_enabled: bool = setting(
        True, "Report.", dynamic=True, yaml="feedback.enabled", support=_IGNORED, why=_FEEDBACK
    )
    feedback_crashinfo: bool = setting(
        True, "Report crashes.", dynamic=True, yaml="feedback.crashinfo", support=_IGNORED, why=_FEEDBACK
    )
    feedback_host: str = setting(
        "https://feedback.tarantool.io", "To whom.", dynamic=True, yaml="feedback.host", support=_IGNORED, why=_FEEDBACK
    )
    feedback_interval: float = setting(
        3600,
        "How often.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="feedback.interval",
        support=_IGNORED,
        why=_FEEDBACK,
    )
    feedback_send_metrics: bool = setting(
        True, "Report metrics.", dynamic=True, yaml="feedback.send_metrics", support=_IGNORED, why=_FEEDBACK
    )
    feedback_metrics_collect_interval: float = setting(
        60,
        "How often metrics are collected.",
        whole=False,
        unit=Unit.SECONDS,
        dynamic=True,
        yaml="feedback.metrics_collect_interval",
        support=_IGNORED,
        why=_FEEDBACK,
    )
    feedback_metrics_limit: int = setting(
        MiB,
        "How many bytes of metrics.",
        unit=Unit.BYTES,
        dynamic=True,
        yaml="feedback.metrics_limit",
        support=_IGNORED,
        why=_FEEDBACK,
    )

"""What the journal's room takes of the options."""

from __future__ import annotations

from headwater.journal import Settings, WalMode
from headwater.options import Options


def settings_of(options: Options) -> Settings:
    settings = Settings(wal_dir=options.wal_dir, memtx_dir=options.memtx_dir, wal_mode=WalMode(options.wal_mode))
    apply_settings(settings, options)
    return settings


def apply_settings(settings: Settings, options: Options) -> None:
    """Those that may change while the node runs."""
    settings.wal_max_size = options.wal_max_size
    settings.wal_queue_max_size = options.wal_queue_max_size
    settings.checkpoint_count = options.checkpoint_count
    settings.checkpoint_interval = options.checkpoint_interval
    settings.checkpoint_wal_threshold = options.checkpoint_wal_threshold
    settings.snap_io_rate_limit = options.snap_io_rate_limit
    settings.force_recovery = options.force_recovery
    settings.too_long_threshold = options.too_long_threshold

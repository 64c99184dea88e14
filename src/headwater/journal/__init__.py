"""The journal's room: order and group commit, log files, snapshots, recovery, what may be removed.

`Recovery` reads a directory, `open_writer` and `Journal` go on where it ended, `Checkpointer` makes snapshots, `Gc`
says which files are needed. docs/journal.md tells what is promised.
"""

from headwater.journal.batch import Batch, Waiter
from headwater.journal.checkpoint import CheckpointDaemon, Checkpointer
from headwater.journal.gc import Checkpoint, Consumer, Gc
from headwater.journal.journal import Journal
from headwater.journal.lock import lock_directories
from headwater.journal.recovery import Progress, Recovered, Recovery, Whereabouts, open_writer
from headwater.journal.settings import Settings, WalMode
from headwater.journal.snapshot import SystemRow

__all__ = [
    "Batch",
    "Checkpoint",
    "CheckpointDaemon",
    "Checkpointer",
    "Consumer",
    "Gc",
    "Journal",
    "Progress",
    "Recovered",
    "Recovery",
    "Settings",
    "SystemRow",
    "Waiter",
    "WalMode",
    "Whereabouts",
    "lock_directories",
    "open_writer",
]

"""Free memory that is really there when a server starts.

In a virtual machine, free pages are given back to the host (free page reporting), and the first to touch them again
waits while the host finds and zeroes others. That is time of the host: it doubled the recovery of 3M rows for
whichever server was measured first, and left a tenth of the rows, which fits into pages still warm, as it was.
"""

from __future__ import annotations

import mmap

PIECE = 1 << 21


def warm(size: int) -> None:
    """Touch `size` bytes and give them back: the kernel hands out first what was freed last."""
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        piece = b"\1" * PIECE
        for at in range(0, size - PIECE + 1, PIECE):
            memory[at : at + PIECE] = piece

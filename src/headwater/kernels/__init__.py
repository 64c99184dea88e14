"""The hot loops. Compiled with Cython where there was a compiler, plain Python otherwise.

Both fulfil `_native.pyi`; the same tests run on both. `HEADWATER_PURE=1` chooses the plain twin.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.kernels._native import *  # noqa: F403

    compiled: bool
elif os.environ.get("HEADWATER_PURE") == "1":
    from headwater.kernels.pure import *  # noqa: F403

    compiled = False
else:
    try:
        from headwater.kernels._native import *  # noqa: F403

        compiled = True
    except ImportError:
        from headwater.kernels.pure import *  # noqa: F403

        compiled = False

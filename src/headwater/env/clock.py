"""The system's clocks and dice."""

from __future__ import annotations

import random
import secrets
import time
import uuid


class RealClock:
    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class RealChance:
    """Dice seeded by the system; tokens straight from it, because a peer must not guess them."""

    def __init__(self) -> None:
        self.random = random.Random(secrets.randbits(128))

    def uuid4(self) -> uuid.UUID:
        return uuid.uuid4()

    def token(self, size: int) -> bytes:
        return secrets.token_bytes(size)

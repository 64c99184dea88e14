"""The real world: asyncio on uvloop, sockets, files, writer threads."""

from headwater.env.world import RealWorld, run

__all__ = ["RealWorld", "run"]

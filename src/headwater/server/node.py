"""A node that serves: an instance and its server."""

from __future__ import annotations

from headwater.box.instance import Box
from headwater.options import Options
from headwater.server.iproto import IprotoServer
from headwater.world import World


def make_node(world: World, options: Options) -> Box:
    """Not started yet."""
    return Box(world, options, IprotoServer)

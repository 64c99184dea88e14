"""What a script, the commands and the pipeline use: one connection, and an anonymous replica over it.

Blocking, without a node: it speaks the wire to Headwater and Tarantool alike.
"""

from headwater.client.link import ConnectionFailed, WireClient

__all__ = ["ConnectionFailed", "WireClient"]

"""What a script, the commands and the pipeline use: one connection, and an anonymous replica over it.

Blocking, without a node: it speaks the wire to Headwater and Tarantool alike.
"""

from headwater.client.link import ConnectionFailed, WireClient
from headwater.client.replica import AnonymousReplica, Cursor, Part, Picture
from headwater.client.segments import Cutter, Segment

__all__ = ["AnonymousReplica", "ConnectionFailed", "Cursor", "Cutter", "Part", "Picture", "Segment", "WireClient"]

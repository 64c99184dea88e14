"""What users write in Python: procedures that clients CALL (docs/procedures.md), and conflict hooks
(docs/replication.md)."""

from headwater.box.procedures.context import Context
from headwater.box.procedures.registry import procedure
from headwater.replication.conflict import Keep, PeerRow, Put, Stop, Take

__all__ = ["Context", "Keep", "PeerRow", "Put", "Stop", "Take", "procedure"]

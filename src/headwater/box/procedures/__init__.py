"""Procedures that clients CALL: Headwater's own, and those that a user writes in Python (docs/procedures.md)."""

from headwater.box.procedures.context import Context
from headwater.box.procedures.registry import procedure

__all__ = ["Context", "procedure"]

"""What can stand in the way of a restore: whose fault, where, and what to do next."""

from __future__ import annotations

from headwater.pipeline.errors import PipelineError


class Unreachable(PipelineError):
    """The files do not lead from a snapshot to the point that is asked for."""


class UnsafePoint(PipelineError):
    """A point that members of a set must not be taken back to."""


class TargetTaken(PipelineError):
    """The directory to build is not empty, or somebody else builds it."""


class Unfit(PipelineError):
    """Rows that contradict each other, or a space that cannot be built."""

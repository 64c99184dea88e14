"""What a user of the pipeline can do wrong, or what can befall him: whose fault, where, and what to do next.

An error that rises in a Spark task reaches the user as text inside Spark's own error, so everything that he needs is
in the message.
"""

from __future__ import annotations

from headwater.errors import HeadwaterError

__all__ = [
    "CheckpointTaken",
    "DataLost",
    "NotThere",
    "OptionError",
    "PipelineError",
    "SchemaChanged",
    "SourceDamaged",
    "ValueUnfit",
]


class PipelineError(HeadwaterError):
    """Base of all of them."""


class OptionError(PipelineError):
    """An option that is missing, unknown, or has a value that cannot be."""


class NotThere(PipelineError):
    """A file, directory, space or column that does not exist."""


class SourceDamaged(PipelineError):
    """A file that is torn, damaged, foreign, or not the kind of file it should be."""

    def __init__(self, path: str, offset: int | None, lsn: int | None, reason: str, remedy: str) -> None:
        where = path if offset is None else f"{path}, offset {offset}"
        if lsn is not None:
            where += f", after LSN {lsn}"
        super().__init__(f"{where}: {reason}. {remedy}")
        self.path, self.offset, self.lsn, self.reason, self.remedy = path, offset, lsn, reason, remedy

    def __reduce__(self) -> tuple[type[SourceDamaged], tuple[object, ...]]:
        return type(self), (self.path, self.offset, self.lsn, self.reason, self.remedy)


class SchemaChanged(PipelineError):
    """Rows of a space that has another format here than the columns were made for."""


class ValueUnfit(PipelineError):
    """A value that its column cannot hold."""


class DataLost(PipelineError):
    """Changes that nobody has any more, or not the one who is asked."""


class CheckpointTaken(PipelineError):
    """Two drivers stream with one checkpoint."""

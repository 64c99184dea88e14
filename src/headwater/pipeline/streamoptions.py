"""What a query says of its stream, parsed once, frozen, and the same in all processes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from uuid import UUID

from headwater.pipeline.errors import OptionError
from headwater.pipeline.hosts import ReplicaSets
from headwater.pipeline.settings import Options, parse_moment, parse_vclock
from headwater.vclock import VClock

IMAGE_MODES = ("request", "full")


class From(StrEnum):
    SNAPSHOT = "snapshot"
    EARLIEST = "earliest"
    LATEST = "latest"
    VCLOCK = "vclock"
    MOMENT = "timestamp"


@dataclass(frozen=True, slots=True)
class Start:
    """Where a new query begins."""

    kind: From
    vclocks: Mapping[str, VClock] | None = None
    """By the UUID of a replica set; under the empty word that of the only one."""
    moment: float = 0.0

    @classmethod
    def read(cls, options: Options) -> Start:
        text = (options.text("startingOffsets") or "").strip()
        moment = options.moment("startingTimestamp")
        if moment is not None:
            if text:
                raise OptionError("The options 'startingOffsets' and 'startingTimestamp' both say where to begin.")
            return cls(From.MOMENT, moment=moment)
        if text.lower() in ("", *From):
            if text.lower() in (From.VCLOCK, From.MOMENT):
                raise OptionError(f"The option 'startingOffsets' is '{text}'. {_START}.")
            return cls(From(text.lower() or From.SNAPSHOT))
        if text.startswith("{"):
            return cls(From.VCLOCK, _vclocks(options, text))
        try:
            return cls(From.MOMENT, moment=parse_moment("startingOffsets", text))
        except OptionError:
            raise OptionError(f"The option 'startingOffsets' is '{text}'. {_START}.") from None


_START = (
    "It should be snapshot, earliest, latest, a time like 2026-01-31T12:00:00Z, or a vclock like "
    '{"1": 100, "2": 7}; of several replica sets {"<UUID of the set>": {"1": 100}, …}'
)


def _vclocks(options: Options, text: str) -> Mapping[str, VClock]:
    if '"' not in text or "{" not in text[1:]:
        return {"": parse_vclock("startingOffsets", text)}
    found = options.json("startingOffsets")
    try:
        assert isinstance(found, dict)
        return {str(UUID(name)): VClock({int(id): lsn for id, lsn in one.items()}) for name, one in found.items()}
    except (AssertionError, AttributeError, TypeError, ValueError):
        raise OptionError(f"The option 'startingOffsets' is '{text}'. {_START}.") from None


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of `spark.readStream.format("tarantool")`, but those of the columns."""

    sets: ReplicaSets
    start: Start
    space: str | None
    replica_uuid: UUID | None
    """Instead of the one that the checkpoint has."""
    fail_on_data_loss: bool
    max_rows: int
    """A trigger; 0: no limit. So is the next one."""
    max_bytes: int
    max_buffer: int
    """Bytes that the driver holds of each replica set, one transaction apart."""
    poll_timeout: float
    """Seconds that a trigger without news waits for some."""
    reconnect_timeout: float
    """Seconds without a member that can be followed, after which the query fails."""
    lease_timeout: float
    """Seconds that another driver of the same checkpoint, which perhaps ends just now, is waited for."""
    spool_dir: Path
    ship: str
    min_partitions: int

    @classmethod
    def read(cls, options: Options) -> StreamOptions:
        uuid = options.text("replicaUuid")
        directory = options.text("spoolDir")
        if options.choice("imageMode", IMAGE_MODES, "request") == "full":
            raise OptionError(
                "The option 'imageMode' is 'full', which is not built yet: the columns 'before' and 'after' have full "
                "images where the server sends them. The lake's silver tables hold the state behind each change."
            )
        return cls(
            ReplicaSets.read(options),
            Start.read(options),
            options.text("space"),
            None if uuid is None else _uuid(uuid),
            options.boolean("failOnDataLoss", True),
            options.integer("maxRowsPerTrigger", 0),
            options.size("maxBytesPerTrigger", 0),
            options.size("maxBufferBytes", 256 << 20, 1 << 20),
            options.span("pollTimeout", 0.5),
            options.span("reconnectTimeout", 60.0),
            options.span("leaseTimeout", 10.0),
            Path(directory) if directory else Path(tempfile.gettempdir()) / f"headwater-{os.getuid()}",
            options.choice("ship", ("auto", "inline", "spool"), "auto"),
            options.integer("minPartitions", 0, 0, 10_000) or os.cpu_count() or 1,
        )


def _uuid(text: str) -> UUID:
    try:
        return UUID(text.strip())
    except ValueError:
        raise OptionError(
            f"The option 'replicaUuid' is '{text}'; it should be a UUID like 123e4567-e89b-42d3-a456-426614174000."
        ) from None

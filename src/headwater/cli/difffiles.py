"""A data directory or one snapshot as a source of data: recovered into memory as a node would do it, and nothing in it
is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from headwater.box.execute import Statements
from headwater.box.readonly import ReadOnly
from headwater.box.replay import Replay
from headwater.box.stat import Stats
from headwater.cli.diffsource import INDEX_ID, SPACE_ID, CannotCompareError, Part, parts_of
from headwater.env import run
from headwater.env.disk import RealDisk
from headwater.journal import Recovery, Settings
from headwater.kernels import Memtx
from headwater.limbo.queue import SyncQueue
from headwater.options import Options
from headwater.raft.state import Persistent
from headwater.store.schema import Schema
from headwater.txn import Txns
from headwater.typing import SpaceId
from headwater.world import World

BATCH = 10_000


class OneFile(RealDisk):
    """A disk on which a directory has this file alone."""

    def __init__(self, name: str) -> None:
        self._name = name

    def listdir(self, path: str) -> list[str]:
        return [self._name]


class FileSource:
    """What a node that starts on these files would have."""

    is_live = False

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        is_file = not path.is_dir()
        if is_file and not path.is_file():
            raise CannotCompareError(f"{path}: No such file or directory")
        self._memtx = Memtx()
        self._schema = Schema(self._memtx)
        directory = str(path.parent if is_file else path)
        self._vclock = run(lambda world: self._recover(world, directory, path.name if is_file else None))

    async def _recover(self, world: World, directory: str, file: str | None) -> Mapping[int, int]:
        if file is not None:
            world.disk = OneFile(file)
        schema = self._schema
        txns = Txns(self._memtx, lambda: schema.spaces.values(), world.clock.time)
        statements = Statements(schema, txns, Options(), ReadOnly(), Stats(), world.tasks)
        replay = Replay(schema, statements, Persistent(), SyncQueue())
        schema.begin_snapshot()
        settings = Settings(wal_dir=directory, memtx_dir=directory)
        recovery = Recovery(world, self._memtx, settings, apply_row=replay.row, snapshot_done=replay.snapshot_done)
        recovered = await recovery.run()
        if recovered is None:
            raise CannotCompareError(f"{self.name}: no .snap file is there")
        replay.finish()
        schema.store_sequences()
        return recovered.vclock.as_dict(ignore0=True)

    def close(self) -> None:
        pass

    def vclock(self) -> Mapping[int, int]:
        return self._vclock

    def parts(self) -> dict[str, Part]:
        spaces, indexes = (list(self._all(space)) for space in (SPACE_ID, INDEX_ID))
        return parts_of(spaces, indexes)

    def tuples(self, part: Part) -> Iterator[Sequence[bytes]]:
        rows = self._all(part.id)
        while batch := list(islice(rows, BATCH)):
            yield part.common(batch)

    def get(self, part: Part, keys: Sequence[bytes]) -> list[bytes | None]:
        index = self._schema.space(part.id).writable("get").index(0)
        assert index is not None
        return [index.get(key) for key in keys]

    def _all(self, space: SpaceId) -> Iterator[bytes]:
        view = self._memtx.open_view([space])
        try:
            yield from view.tuples(space)
        finally:
            view.close()

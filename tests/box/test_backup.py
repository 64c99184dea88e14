"""A backup of a real node: its files start another one, and they stay while the backup is open."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from headwater.box.instance import Box
from headwater.env import run
from headwater.errors import BoxError, Er
from headwater.options import Options
from headwater.server.node import make_node
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.request import Request
from headwater.wire.xrow import Row
from headwater.world import World

T = TypeVar("T")
_PARTS = [[0, "unsigned"]]


def on_node(directory: Path, story: Callable[[Box], Awaitable[T]], **options: object) -> T:
    """Run `story` on a node in this directory, from start to stop."""

    async def main(world: World) -> T:
        places = {"wal_dir": str(directory), "memtx_dir": str(directory)}
        box = make_node(world, Options.load({**places, "checkpoint_interval": 0, **options}))
        await box.start()
        try:
            return await story(box)
        finally:
            await box.stop()

    return run(main)


async def ask(box: Box, type: Type, space: int, *fields: object) -> list[object]:
    request = Request(Row(type))
    request.space_id = space
    if type == Type.SELECT:
        request.key, request.iterator, request.limit = b"\x90", 2, 1000
    else:
        request.tuple = pack(list(fields))
    found = box.statements.execute(request, box.schema.users.admin, None)
    await box.settled()
    return [unpack(one) for one in found]


async def fill(box: Box, first: int, last: int) -> None:
    for number in range(first, last):
        await ask(box, Type.REPLACE, 512, number)


async def make_space(box: Box) -> None:
    await ask(box, Type.INSERT, 280, 512, 1, "t", "memtx", 0, {}, [])
    await ask(box, Type.INSERT, 288, 512, 0, "pk", "tree", {"unique": True}, _PARTS)


def copied(files: list[str], to: Path) -> Path:
    to.mkdir()
    for file in files:
        shutil.copy(file, to)
    return to


def test_files_of_a_backup_start_another_node(tmp_path: Path) -> None:
    async def story(box: Box) -> list[str]:
        await make_space(box)
        await fill(box, 0, 10)
        await box.checkpoint()
        await fill(box, 10, 20)
        files = await box.backups.start(0, None, 0.0)
        await fill(box, 20, 30)
        copied(files, tmp_path / "copy")
        shown = box.backups.info()
        assert shown is not None
        assert shown["type"] == "full"
        assert shown["vclock"] == {1: 22}
        box.backups.stop()
        assert box.backups.info() is None
        return files

    files = on_node(tmp_path / "node", story)
    assert [Path(file).suffix for file in files] == [".snap", ".xlog"]

    async def rows(box: Box) -> list[object]:
        return await ask(box, Type.SELECT, 512)

    assert on_node(tmp_path / "copy", rows) == [[number] for number in range(20)]


def test_older_snapshots_and_increments(tmp_path: Path) -> None:
    async def story(box: Box) -> None:
        await make_space(box)
        await box.checkpoint()
        await fill(box, 0, 10)
        await box.checkpoint()
        assert [Path(file).name for file in await box.backups.start(1, None, 0.0)] == [
            "00000000000000000002.snap",
            "00000000000000000002.xlog",
        ]
        with pytest.raises(BoxError) as refused:
            await box.backups.start(0, None, 0.0)
        assert refused.value.code == Er.BACKUP_IN_PROGRESS
        box.backups.stop()
        assert [Path(file).name for file in await box.backups.start(0, {1: 2}, 0.0)] == ["00000000000000000002.xlog"]
        box.backups.stop()
        with pytest.raises(BoxError) as missing:
            await box.backups.start(5, None, 0.0)
        assert missing.value.code == Er.MISSING_SNAPSHOT

    on_node(tmp_path, story, checkpoint_count=3)


def test_what_a_backup_holds_is_not_removed(tmp_path: Path) -> None:
    async def story(box: Box) -> None:
        await make_space(box)
        await box.checkpoint()
        files = [Path(file) for file in await box.backups.start(0, None, 0.0)]
        for number in range(4):
            await fill(box, number, number + 1)
            await box.checkpoint()
        assert all(file.exists() for file in files)
        box.backups.stop()
        await fill(box, 9, 10)
        await box.checkpoint()
        assert not any(file.exists() for file in files)

    on_node(tmp_path, story, checkpoint_count=1)


def test_a_backup_that_nobody_ends_ends_by_its_time(tmp_path: Path) -> None:
    async def story(box: Box) -> None:
        await box.backups.start(0, None, 0.01)
        async with box.world.tasks.timeout(5):
            while box.backups.info() is not None:
                await box.world.tasks.sleep(0)

    on_node(tmp_path, story)

"""FETCH_SNAPSHOT of a snapshot that is on the disk, from some row on (box.cc, box_checkpoint_build_from_snapshot; the
enterprise edition's memtx_engine, whose rows are numbered alike).

Rows are numbered by their LSN in the file, so that a replica whose connection is lost asks for the rest: by the vclock
in the first answer, component 0 included, and the number behind the last row that it has. Blocks go out as they stand
in the file; a row is looked at only where something of its block must stay here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headwater.errors import BoxError, Er, MsgPackError, SystemError_, XlogError, er
from headwater.kernels import Frames, frame_rows, mp_next
from headwater.replication.joins import OWN_ID, Out, is_own, send_head
from headwater.replication.peers import takes_meta
from headwater.vclock import VClock
from headwater.wire.constants import SYNCHRO_TYPES, Key, RaftState, Type
from headwater.wire.synchro import RaftMessage, Synchro, decode_raft, decode_synchro
from headwater.wire.xrow import decode_row, encode_packet
from headwater.world import Disk, File
from headwater.xlog import SNAP, Block, Reader, file_name

if TYPE_CHECKING:
    from headwater.replication.host import Host

_IS_LOCAL = bytes((Key.GROUP_ID, 1))
"""In the header of a row of a local space."""
_LENGTH = 5
"""Bytes of a packet before its header."""


async def send_checkpoint(host: Host, out: Out, version: int, vclock: VClock, start_lsn: int) -> None:
    """A snapshot on the disk, its rows from the number `start_lsn` on. Its state of election and queue is told first,
    wherever it stands in the file. The next block is read while the last one leaves."""
    path = f"{host.settings.memtx_dir}/{file_name(vclock.signature, SNAP)}"
    worker = host.world.worker("join")
    walk = SnapshotWalk(host.world.disk, path, out.sync, start_lsn)
    try:
        raft, queue = RaftMessage(1), Synchro(Type.RAFT_PROMOTE, confirmed_vclock={})
        if takes_meta(version, host.schema.identity.dd_version):
            raft, queue = await worker.run(partial(walk.meta, raft, queue))
        send_head(host, out, version, vclock, raft, queue)
        ahead = worker.run(walk.next)
        while (data := await ahead) is not None:
            ahead = worker.run(walk.next)
            if data:
                await out.write(data)
    except FileNotFoundError:
        raise er(Er.MISSING_SNAPSHOT) from None
    except OSError as error:
        raise SystemError_.of(f"cannot read '{path}'", error) from None
    finally:
        await worker.run(walk.close)
        worker.close()


class SnapshotWalk:
    """Every method runs in the worker."""

    def __init__(self, disk: Disk, path: str, sync: int, start_lsn: int) -> None:
        self._disk = disk
        self._path = path
        self._sync = sync
        self._start = start_lsn
        self._file: File | None = None
        self._reader: Reader | None = None

    def meta(self, raft: RaftMessage, queue: Synchro) -> tuple[RaftMessage, Synchro]:
        """Both as they are in the file; as they are given, where it has none. They stand behind the system spaces, and
        in files of some versions at the very end (protocol of snapshots: docs/formats/xlog.md)."""
        left = 2
        for block in Reader(self._open()):
            frames = self._framed(block)
            for begin, end, type_, *_ in () if frames.plain else frames.rows():
                row = decode_row(frames.data, begin, end)[0]
                if type_ == Type.RAFT:
                    raft = replace(decode_raft(row), state=RaftState.FOLLOWER)
                elif type_ in SYNCHRO_TYPES:
                    queue = decode_synchro(row)
                left -= type_ == Type.RAFT or type_ in SYNCHRO_TYPES
            if left <= 0:
                break
        return raft, queue

    def next(self) -> bytes | None:
        """The packets of one block; empty where nothing of it is sent. None at the end."""
        reader = self._reader = self._reader or Reader(self._open())
        block = reader.next()
        if block is None:
            reader.require_eof()
            return None
        return self._packets(self._framed(block))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    # ---- blocks

    def _open(self) -> File:
        self._file = self._file or self._disk.open(self._path)
        return self._file

    def _framed(self, block: Block) -> Frames:
        try:
            return frame_rows(block.rows)
        except MsgPackError as error:
            raise XlogError(f"can't parse row: {error}", path=self._path, offset=block.offset) from None

    def _packets(self, frames: Frames) -> bytes:
        data = frames.data
        first = decode_row(data, _LENGTH)[0].lsn
        if first + len(frames) <= self._start:
            return b""
        is_whole = first >= self._start and frames.plain and not self._sync
        if is_whole and _IS_LOCAL not in data and OWN_ID not in data:
            return data
        return b"".join(
            self._packet(data, begin, end)
            for begin, end, type_, _, lsn, _ in frames.rows()
            if type_ == Type.INSERT and lsn >= self._start and not _stays(data, begin, end)
        )

    def _packet(self, data: bytes, begin: int, end: int) -> bytes:
        if not self._sync:
            return data[begin - _LENGTH : end]
        return encode_packet(replace(decode_row(data, begin, end)[0], sync=self._sync))


def _stays(data: bytes, begin: int, end: int) -> bool:
    """Is it of a local space, or does it define the one that nobody else is to know?"""
    if _IS_LOCAL not in data[begin : mp_next(data, begin)] and data.find(OWN_ID, begin, end) < 0:
        return False
    try:
        row = decode_row(data, begin, end)[0]
        return row.is_local or is_own(row)
    except BoxError:
        return False  # it is the reader's to complain about

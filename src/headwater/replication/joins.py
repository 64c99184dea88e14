"""What JOIN and FETCH_SNAPSHOT send before the log: a picture of the data at one vclock (relay.cc, relay_initial_join;
box.cc, box_checkpoint_build_in_memory). `fromdisk` sends a snapshot that is on the disk.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headwater.journal.batch import prepared_vclock
from headwater.kernels import ReadView, mp_array_fields
from headwater.replication.channel import Channel
from headwater.replication.guests import Guest
from headwater.replication.peers import raft_group, rewrite, takes_meta
from headwater.store import system
from headwater.vclock import VClock
from headwater.wire.constants import Type
from headwater.wire.mpwrite import pack_uint
from headwater.wire.replication import encode_type, encode_vclock
from headwater.wire.request import of_row
from headwater.wire.synchro import RaftMessage, Synchro, encode_raft, encode_synchro
from headwater.wire.xrow import Row, encode_packet
from headwater.world import Worker

if TYPE_CHECKING:
    from headwater.replication.host import Host

CHUNK = 256 << 10
"""Bytes of rows made in the worker in one step."""
_INSERT = frozenset((int(Type.INSERT),))
OWN_ID = pack_uint(system.REPLICA_IDS)
"""As it stands in the rows that define the space."""


class Out:
    """Packets to one replica that joins: all carry the sync of its request."""

    def __init__(self, channel: Channel, sync: int, guest: Guest | None) -> None:
        self._channel = channel
        self._sync = sync
        self._guest = guest

    @property
    def sync(self) -> int:
        return self._sync

    def send(self, row: Row) -> None:
        self._channel.send(replace(row, sync=self._sync))

    async def write(self, data: bytes) -> None:
        """Waits while the peer does not take what it got."""
        self._channel.write(data)
        await self._channel.flush()
        if self._guest is not None:
            self._guest.took()


# ---- from memory ----------------------------------------------------------------------------------


async def send_picture(host: Host, out: Out, version: int) -> VClock:
    """All data as it is now; returns its vclock. Nothing of it can be taken back: it waits until the queue of
    synchronous transactions is empty, and until what is prepared is written."""
    await host.ship.until(lambda: not host.queue.entries)
    view = host.memtx.open_view(host.picture())
    worker = host.world.worker("join")
    try:
        vclock = prepared_vclock(host.memtx)
        election, queue = host.election.checkpoint(), host.queue.checkpoint()
        await host.journal.sync()
        send_head(host, out, version, vclock, election, queue)
        await _send_view(view, out, worker, remaps=host.ids is not None)
    finally:
        await worker.run(lambda: None)  # a step that still runs has ended before the view is closed
        view.close()
        worker.close()
    return vclock


async def _send_view(view: ReadView, out: Out, worker: Worker, *, remaps: bool) -> None:
    """The next rows are made while the last ones leave. `remaps`: this node has a space that nobody else is to know."""
    step = partial(view.fill_frames, CHUNK, out.sync, 0.0)
    ahead = worker.run(step)
    while True:
        data, count = await ahead
        if not count:
            return
        ahead = worker.run(step)
        if remaps and OWN_ID in data:
            data = rewrite(data, _INSERT, _unless_own)
        await out.write(data)


def _unless_own(row: Row) -> bytes:
    return b"" if is_own(row) else encode_packet(row)


def is_own(row: Row) -> bool:
    """Does it define `_replica_ids`? The space is local, its definition too (docs/formats/system-spaces.md)."""
    if OWN_ID not in row.body:
        return False
    request = of_row(row)
    if request.space_id not in (system.SPACE, system.INDEX) or request.tuple is None:
        return False
    first, second = mp_array_fields(request.tuple)[:2]
    return request.tuple[first:second] == OWN_ID


def send_head(host: Host, out: Out, version: int, vclock: VClock, raft: RaftMessage, queue: Synchro) -> None:
    """The first answer, and the stage of meta data for who knows it (send_join_header, send_join_meta). Component 0
    is told, but to peers that would take it for theirs: those that do not tell their version."""
    out.send(encode_vclock(vclock.as_dict(), ignore0=not version))
    if not takes_meta(version, host.schema.identity.dd_version):
        return
    out.send(encode_type(Type.JOIN_META))
    out.send(encode_raft(replace(raft, state=0, group_id=raft_group(version))))
    promote = encode_synchro(queue)
    promote.replica_id = queue.queue_owner_id
    out.send(promote)
    out.send(encode_type(Type.JOIN_SNAPSHOT))

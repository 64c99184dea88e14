"""How fast the kernels are alone: no socket, no file. `python -m bench.kernels [rows]` prints one line a loop.

Each line is the best of three runs over fresh data, in millions of rows or requests a second (crc32c: GB/s).
"""

from __future__ import annotations

import itertools
import random
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgpack

from bench import columns
from headwater import kernels as k
from headwater.typing import FieldType, IteratorType

SPACE = 512
CHUNK = 1 << 18
"""What a session reads at once."""


def tuples(numbers: list[int]) -> Iterator[bytes]:
    """Tuples of about 100 bytes: a number, a name, a filler."""
    for number in numbers:
        yield msgpack.packb([number, f"name-{number % 1000:04}", "x" * 78])


def store(secondary: bool = False) -> Any:
    node = k.Memtx()
    node.replica_id = 1
    node.timestamp = 1.5
    node.schema_version = 80
    space = node.add_space(SPACE)
    space.set_format(k.TupleFormat([(FieldType.UNSIGNED, False), (FieldType.STRING, False), (FieldType.STRING, False)]))
    primary = k.KeyPart(0, FieldType.UNSIGNED)
    space.add_index(0, k.KeyDef([primary]), True)
    if secondary:
        space.add_index(1, k.KeyDef([k.KeyPart(1, FieldType.STRING)], [primary]), False)
    space.set_access(0, 3)
    space.fast = True
    return node


def rows(numbers: list[int]) -> bytes:
    """Rows of an xlog: header and body."""
    out = bytearray()
    for lsn, data in enumerate(tuples(numbers), 1):
        out += msgpack.packb({0: 3, 2: 1, 3: lsn, 4: 1.5}) + b"\x82\x10\xcd\x02\x00\x21" + data
    return bytes(out)


def packets(kind: int, bodies: Iterator[bytes]) -> bytes:
    out = bytearray()
    for sync, body in enumerate(bodies):
        packet = b"\x82\x00" + bytes([kind]) + b"\x01" + msgpack.packb(sync) + body
        out += b"\xce" + struct.pack(">I", len(packet)) + packet
    return bytes(out)


def serve(node: Any, data: bytes) -> None:
    """All requests, a chunk a turn, as the loop does: run, take the rows, confirm."""
    offset = 0
    while offset < len(data):
        after, _, served, _ = node.run(data, offset, min(offset + CHUNK, len(data)), 0, False)
        assert served
        node.take_rows()
        node.confirm_to(node.undo_end)
        offset = after


def best(make: Callable[[], Callable[[], None]]) -> float:
    """Seconds of processor time of the fastest of three runs; `make` prepares one and is not counted."""
    spent = []
    for _ in range(3):
        run = make()
        begin = time.process_time()
        run()
        spent.append(time.process_time() - begin)
    return min(spent)


def applied(data: bytes, secondary: bool = False) -> Any:
    node = store(secondary)
    node.undo_enabled = False
    assert node.apply(data, 0, len(data), False)[0] == len(data)
    node.undo_enabled = True
    return node


def fill(node: Any) -> None:
    view = node.open_view([SPACE])
    lsn = 0
    while True:
        _, count = view.fill(CHUNK, lsn, 1.5)
        if not count:
            break
        lsn += count
    view.close()


def batches(data: bytes) -> list[bytes]:
    """Rows as a loop's turns would write them: a multiple of four."""
    ends = [begin for begin, *_ in k.frame_rows(data).rows()]
    per = max(1, CHUNK * len(ends) // len(data) // 4) * 4
    cuts = [*[begin - 5 * number - 5 for number, begin in enumerate(ends)][::per], len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(cuts)]


def framed(turns: list[bytes]) -> None:
    for one in turns:
        k.frame_rows(one)


def picked(turns: list[Any], sync: int) -> None:
    have = [0] * 32
    for one in turns:
        assert one.pick(have, 0, 2, 0, sync)[1]


def followed(node: Any, turns: list[bytes]) -> None:
    """What an applier does with what its socket gives, but for the journal."""
    for one in turns:
        assert node.apply_frames(one, 0, len(one))[0] == len(one)
        node.take_rows()
        node.confirm_to(node.undo_end)


def joined(turns: list[bytes]) -> None:
    node = store()
    for one in turns:
        assert node.load_frames(one, 0, len(one))[0] == len(one)


def fill_frames(node: Any) -> list[bytes]:
    view = node.open_view([SPACE])
    out = []
    while (part := view.fill_frames(CHUNK, 5, 1.5))[1]:
        out.append(part[0])
    view.close()
    return out


def transactions(numbers: list[int]) -> bytes:
    """Rows of an xlog in transactions of four."""
    node = k.Memtx()
    node.replica_id, node.timestamp = 1, 1.5
    for at, data in enumerate(tuples(numbers)):
        node.add_row(3, 0, b"\x82\x10\xcd\x02\x00\x21" + data, at - at % 4 + 1, int(at % 4 == 3))
    out: bytes = node.take_rows()[0]
    return out


def main(count: int) -> None:
    up = list(range(count))
    mixed = random.Random(1).sample(up, count)
    body = b"\x82\x10\xcd\x02\x00\x21"
    replaces = packets(3, (body + data for data in tuples(up)))
    replaces_mixed = packets(3, (body + data for data in tuples(mixed)))
    key = b"\x84\x10\xcd\x02\x00\x11\x00\x12\x01\x20\x91"
    selects = packets(1, (key + msgpack.packb(number) for number in mixed))
    deletes = packets(5, (b"\x82\x10\xcd\x02\x00\x20\x91" + msgpack.packb(number) for number in mixed))
    log, log_mixed = rows(up), rows(mixed)
    full = applied(log)
    name = k.KeyDef([k.KeyPart(1, FieldType.STRING)], [k.KeyPart(0, FieldType.UNSIGNED)])

    def build() -> None:
        full.space(SPACE).add_index(1, name, False)
        full.space(SPACE).detach_index(1)

    def line(what: str, seconds: float) -> None:
        print(f"{what:<44}{count / seconds / 1e6:8.2f} M/s {seconds / count * 1e9:8.0f} ns")

    print(f"{'compiled' if k.compiled else 'plain Python'} kernels, {count} rows of {len(log) // count} bytes")
    line("mp_check_all", best(lambda: lambda: void(k.mp_check_all(log, 0, len(log)))))
    line("apply, ascending keys", best(lambda: lambda: void(applied(log))))
    line("apply, random keys", best(lambda: lambda: void(applied(log_mixed))))
    line("apply, random keys, two indexes", best(lambda: lambda: void(applied(log_mixed, True))))
    line("fill", best(lambda: lambda: fill(full)))
    line("add_index on a string", best(lambda: build))
    line("run, REPLACE of new ascending keys", best(lambda: prepared(store(), replaces)))
    line("run, REPLACE of new random keys", best(lambda: prepared(store(), replaces_mixed)))
    line("run, REPLACE of random keys that are there", best(lambda: prepared(full, replaces_mixed)))
    line("run, SELECT by random keys", best(lambda: prepared(full, selects)))
    line("run, DELETE of random keys", best(lambda: prepared(applied(log), deletes)))
    everything = full.space(SPACE).index(0)
    line("select of everything", best(lambda: lambda: void(everything.select(IteratorType.ALL, b"\x90"))))
    turns = batches(log)
    frames = [k.frame_rows(one) for one in turns]
    wire = [one.data for one in frames]
    mixed_wire = [k.frame_rows(one).data for one in batches(log_mixed)]
    wire_of_four = [k.frame_rows(one).data for one in batches(transactions(up[: count // 4 * 4]))]
    line("frame_rows", best(lambda: lambda: framed(turns)))
    line("pick, all of it", best(lambda: lambda: picked(frames, 0)))
    line("pick, each header anew", best(lambda: lambda: picked(frames, 7)))
    line("apply_frames, new ascending keys", best(lambda: followed_by(store(), wire)))
    line("apply_frames, new random keys", best(lambda: followed_by(store(), mixed_wire)))
    line("apply_frames, transactions of four", best(lambda: followed_by(store(), wire_of_four)))
    line("apply_frames, what was seen", best(lambda: followed_by(seen(count), wire)))
    line("fill_frames", best(lambda: lambda: void(fill_frames(full))))
    snapshot = fill_frames(full)
    line("load_frames", best(lambda: lambda: joined(snapshot)))
    seconds = best(lambda: lambda: void(k.crc32c(log)))
    print(f"{'crc32c':<44}{len(log) / seconds / 1e9:8.2f} GB/s")
    used = full.bytes_used + everything.bsize * 0
    print(f"{'memory a tuple of ' + str(len(next(tuples([count - 1])))) + ' bytes':<44}{used / count:8.1f} bytes")
    columns.main(count)


def prepared(node: Any, data: bytes) -> Callable[[], None]:
    return lambda: serve(node, data)


def followed_by(node: Any, turns: list[bytes]) -> Callable[[], None]:
    return lambda: followed(node, turns)


def seen(count: int) -> Any:
    node = store()
    node.set_lsn(1, count)
    return node


def void(_: object) -> None:
    """The result is not looked at."""


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)

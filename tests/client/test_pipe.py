"""A connection with many requests under way: answers in any order, cut anywhere."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from headwater.client import ConnectionFailed
from headwater.client.pipe import Pipe, replies
from headwater.errors import Er, er
from headwater.uri import Uri
from headwater.wire import greeting, reply, request
from headwater.wire.constants import Type, version_id
from headwater.wire.xrow import decode_row

HIGH = 1 << 62


def test_answers_are_counted_by_load_and_others_are_located() -> None:
    packets = [reply.ok(sync, 5) for sync in (1, 2, 10, 11, 12)]
    packets += [reply.data(3, 5, [b"\x91\x01"]), reply.error(4, 5, er(Er.READONLY)), reply.ok(HIGH + 1, 5)]
    random.Random(3).shuffle(packets)
    data = b"".join(packets)
    for end in range(len(data) + 1):
        stop, low, high, others = replies(data, 0, end, 10, HIGH)
        rest = replies(data, stop, len(data), 10, HIGH)
        assert (low + rest[1], high + rest[2]) == (3, 3)
        found = [decode_row(data, *each, exact=True)[0] for each in others + rest[3]]
        assert sorted((row.sync, row.is_error) for row in found) == [(4, True), (HIGH + 1, False)]


class FakeServer:
    """Greets, reads whole packets, and answers what it is told to."""

    def __init__(self, answer: Callable[[list[int]], Iterator[bytes]], wanted: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = Uri("127.0.0.1", str(self._listener.getsockname()[1]))
        self._answer, self._wanted = answer, wanted
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        link, _ = self._listener.accept()
        with link:
            link.sendall(greeting.encode(version_id(2, 6, 0), greeting.NIL_UUID, bytes(32)))
            for piece in self._answer(self._read(link)):
                link.sendall(piece)
            link.shutdown(socket.SHUT_WR)
            while link.recv(1 << 16):
                pass

    def _read(self, link: socket.socket) -> list[int]:
        data, syncs = b"", []
        while len(syncs) < self._wanted:
            data += link.recv(1 << 16)
            while len(data) >= 5 and len(data) >= (size := 5 + int.from_bytes(data[1:5], "big")):
                syncs.append(decode_row(data[5:size], exact=True)[0].sync)
                data = data[size:]
        return syncs


def posted(pipe: Pipe, count: int) -> tuple[list[bytes], int]:
    first = pipe.number(count)
    return [request.encode(Type.PING, first + number) for number in range(count)], first


def test_two_loads_are_settled_whatever_the_order_of_the_answers() -> None:
    def answer(syncs: list[int]) -> Iterator[bytes]:
        chance = random.Random(5)
        chance.shuffle(syncs)
        data = b"".join(reply.error(sync, 1, er(Er.READONLY)) if sync % 7 == 0 else reply.ok(sync, 1) for sync in syncs)
        while data:
            size = chance.randrange(1, 400)
            yield data[:size]
            data = data[size:]

    pipe = Pipe(FakeServer(answer, 301).uri, 10.0)
    sync, vote = pipe.wanted(Type.VOTE)
    packets, first = posted(pipe, 200)
    one = pipe.post([vote, *packets], first, 200, (sync,))
    packets, first = posted(pipe, 100)
    two = pipe.post(packets, first, 100)
    pipe.settle(one)
    assert sync in one.answers
    assert {number for number in range(200) if (number + 1) % 7 == 0} == set(one.errors)
    assert all(error.code == Er.READONLY for error in one.errors.values())
    pipe.settle(two)
    assert {number for number in range(100) if (number + 201) % 7 == 0} == set(two.errors)
    pipe.close()


def test_a_server_that_goes_away_leaves_no_load_waiting() -> None:
    server = FakeServer(lambda syncs: iter([reply.ok(syncs[0], 1)]), 10)
    pipe = Pipe(server.uri, 10.0)
    packets, first = posted(pipe, 10)
    load = pipe.post(packets, first, 10)
    with pytest.raises(ConnectionFailed, match="the connection was closed"):
        pipe.settle(load)
    assert load.answered == 1
    pipe.close()


def test_a_server_that_says_nothing_counts_as_away() -> None:
    pipe = Pipe(FakeServer(lambda _: iter(()), 1000).uri, 10.0)
    pipe.set_timeout(0.05)
    packets, first = posted(pipe, 1)
    with pytest.raises(ConnectionFailed, match=r"no answer within 0\.05 s"):
        pipe.settle(pipe.post(packets, first, 1))
    pipe.close()


def test_bytes_that_are_no_answer_end_the_connection() -> None:
    pipe = Pipe(FakeServer(lambda _: iter([b"HTTP/1.1 400 Bad Request\r\n"]), 1).uri, 10.0)
    packets, first = posted(pipe, 1)
    with pytest.raises(ConnectionFailed, match="what it sends is no packet"):
        pipe.settle(pipe.post(packets, first, 1))
    pipe.close()

"""Conversations that net.box had with a real 3.9, held again with a whole Headwater process on that node's files: the
same frames come back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support import iproto
from tests.support.fixtures import GOLDEN, Servers, needs_golden
from tests.support.subjects import STAND_IN

pytestmark = [needs_golden, pytest.mark.skipif(STAND_IN, reason="2.6.0 does not read files of 3.9")]

RECORDED = GOLDEN / "tarantool-3.9"
PASSWORDS = {"replicator": "secret"}
FOLLOWER, LEADER = (f"Instance: 00000000-0000-4000-8000-00000000000{number}".encode() for number in (2, 3))
IS_JSON = shutil.ignore_patterns("*.json")
SCHEMA_VERSION = slice(24, 32)
"""Where struct iproto_header_bin has it (iproto.cc): it counts from the start of a process, so it is not compared."""
FEATURES = 0x55
OURS_ALONE = {10}
"""FETCH_SNAPSHOT_CURSOR: served here, and by Tarantool's enterprise edition alone; the recorded build is none."""


@dataclass(frozen=True, slots=True)
class Step:
    """Frames that the client sends, then those that the server answers before the client goes on."""

    sent: list[bytes]
    answered: list[bytes]


def frames(data: bytes) -> tuple[list[bytes], bytes]:
    out = []
    while len(data) >= 5 and len(data) >= 5 + int.from_bytes(data[1:5], "big"):
        size = 5 + int.from_bytes(data[1:5], "big")
        out.append(data[:size])
        data = data[size:]
    return out, data


def steps(path: Path) -> Iterator[Step]:
    chunks = [json.loads(line) for line in path.read_text().splitlines()][1:]
    sent: list[bytes] = []
    answered: list[bytes] = []
    rest = b""
    for chunk in chunks:
        data = bytes.fromhex(chunk["hex"])
        if chunk["from"] == "client":
            if answered and not rest:
                yield Step(sent, answered)
                sent, answered = [], []
            sent += frames(data)[0]
        else:
            found, rest = frames(rest + data)
            answered += found
    yield Step(sent, answered)


def parts(frame: bytes) -> tuple[dict[int, Any], dict[int, Any]]:
    header, *body = iproto.unpack_all(frame[5:])
    return header, body[0] if body else {}


def with_our_salt(frame: bytes, salt: bytes) -> bytes:
    """A login is made of the greeting's salt: the recorded one fits no other server."""
    header, body = parts(frame)
    if header[iproto.REQUEST_TYPE] != iproto.AUTH:
        return frame
    user = body[iproto.USER_NAME]
    proof = iproto.scramble(PASSWORDS[user], salt)
    return iproto.frame(header, {iproto.USER_NAME: user, iproto.TUPLE: ["chap-sha1", proof]})


def comparable(frame: bytes) -> Any:
    """Bytes without the schema version; of errors what a peer goes by; of `box.election` that it is there."""
    header, body = parts(frame)
    if header[iproto.REQUEST_TYPE] & iproto.ERROR:
        stack = [{key: value for key, value in entry.items() if key not in (1, 2)} for entry in body[0x52][0]]
        return header[iproto.REQUEST_TYPE], header[iproto.SYNC], body[iproto.ERROR_24], stack
    if body.get(iproto.EVENT_KEY) == "box.election":
        return header, sorted(body[iproto.EVENT_DATA])
    if FEATURES in body:
        said = {**body, FEATURES: [each for each in body[FEATURES] if each not in OURS_ALONE]}
        return header[iproto.REQUEST_TYPE], header[iproto.SYNC], said
    if header[iproto.REQUEST_TYPE] == iproto.EVENT:
        return frame
    masked = bytearray(frame)
    masked[SCHEMA_VERSION] = bytes(8)
    return bytes(masked)


def as_the_leader(directory: Path) -> None:
    """The server of the conversations led the set; of its files there are none. Those of its follower say the same, but
    for whose they are."""
    directory.chmod(0o755)
    for file in directory.iterdir():
        file.chmod(0o644)
        head, rest = file.read_bytes().split(b"\n\n", 1)
        file.write_bytes(head.replace(FOLLOWER, LEADER) + b"\n\n" + rest)


@pytest.mark.parametrize("name", ["client-streams-watch", "client-schema-eval-denied"])
def test_recorded_conversation(servers: Servers, tmp_path: Path, name: str) -> None:
    as_the_leader(shutil.copytree(RECORDED / "files" / "node-2", tmp_path / "node", ignore=IS_JSON))
    server = servers.subject(tmp_path / "node")
    server.dev = False  # type: ignore[attr-defined]
    with server.start(), iproto.Connection(*server.address) as connection:
        assert connection.greeting.startswith(b"Tarantool 3.8.0 (Binary) 00000000-0000-4000-8000-000000000003 ")
        for number, step in enumerate(steps(RECORDED / "wire" / f"{name}.jsonl")):
            connection.send(b"".join(with_our_salt(frame, connection.salt) for frame in step.sent))
            there = [connection.read_reply().raw for _ in step.answered]
            wanted, got = list(map(comparable, step.answered)), list(map(comparable, there))
            if any(parts(frame)[0][iproto.REQUEST_TYPE] == iproto.EVENT for frame in step.answered):
                wanted, got = sorted(wanted, key=repr), sorted(got, key=repr)
            for n, (one, other) in enumerate(zip(wanted, got, strict=True)):
                assert one == other, f"step {number}, answer {n}: {parts(step.answered[n])} / {parts(there[n])}"

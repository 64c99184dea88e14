"""`headwater play`: rows of files become rows of a server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.process import free_port
from tests.support.tarantool import EXECUTABLE, TarantoolServer
from tests.xlog.build import log, row, transaction
from typer.testing import CliRunner

from headwater.cli import play
from headwater.errors import BoxError, Er, er
from headwater.wire import auth, greeting, reply, request
from headwater.wire.constants import VERSION_ID, Flag, Key, Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.request import Request
from headwater.wire.xrow import Row
from headwater.xlog import XLOG, file_name

SALT = bytes(range(32))


class Peer:
    """A server of one connection that writes down what it is asked, and refuses what it is told to."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.asked: list[Request] = []
        self.refuse: dict[int, BoxError] = {}
        """Number of a request → what it is answered."""
        self.hang_up_after: int | None = None
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        try:
            link, _ = self.listener.accept()
        except OSError:
            return
        with link:
            link.sendall(greeting.encode(VERSION_ID, UUID(int=1), SALT))
            data = b""
            while chunk := link.recv(1 << 16):
                data = self._answer(link, data + chunk)
                if self.hang_up_after is not None and len(self.asked) >= self.hang_up_after:
                    return

    def _answer(self, link: socket.socket, data: bytes) -> bytes:
        at = 0
        while (found := request.split(data, at, len(data))) is not None:
            asked = request.decode(data, *found)
            at = found[1]
            refusal = self.refuse.get(len(self.asked))
            self.asked.append(asked)
            link.sendall(reply.ok(asked.sync, 1) if refusal is None else reply.error(asked.sync, 1, refusal))
        return data[at:]

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join(10)
        self.listener.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.close()


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(play.app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [
        row(1, "system", space_id=280),
        row(2, "apple"),
        *transaction(3, 2),
        Row(Type.NOP, 1, 0, 5, 1.0, 5, Flag.COMMIT),
        Row(Type.RAFT_CONFIRM, 1, 0, 6, 1.0, 6, Flag.COMMIT, pack({2: 1, 3: 5})),
        Row(Type.DELETE, 1, 0, 7, 1.0, 7, Flag.COMMIT, pack({Key.SPACE_ID: 512, Key.KEY: [2]})),
    ]
    path = tmp_path / file_name(0, XLOG)
    path.write_bytes(log([rows]))
    return path


def test_changes_of_data_are_sent_in_order(peer: Peer, file: Path) -> None:
    code, told, errors = run(file, f"127.0.0.1:{peer.port}")
    assert (code, told, errors) == (0, "4 rows played\n", "")
    assert [(one.type, one.space_id) for one in peer.asked] == [(2, 512), (2, 512), (2, 512), (5, 512)]
    assert unpack(peer.asked[0].tuple or b"") == [2, "apple"]
    assert peer.asked[3].key == b"\x91\x02"


def test_filters_and_several_files(peer: Peer, file: Path) -> None:
    code, told, _ = run("--to-lsn", "2", "--show-system", file, file, f"127.0.0.1:{peer.port}")
    assert (code, told) == (0, "4 rows played\n")
    assert [one.space_id for one in peer.asked] == [280, 512, 280, 512]


def test_more_rows_than_fit_in_a_batch(peer: Peer, tmp_path: Path) -> None:
    path = tmp_path / file_name(0, XLOG)
    path.write_bytes(log([[row(lsn) for lsn in range(1, 1001)]]))
    code, told, _ = run(path, f"127.0.0.1:{peer.port}")
    assert (code, told) == (0, "1000 rows played\n")
    assert len(peer.asked) == 1000


def test_login(peer: Peer, file: Path) -> None:
    code, _, _ = run(file, f"user:secret@127.0.0.1:{peer.port}")
    assert code == 0
    first = peer.asked[0]
    assert (first.type, first.user) == (Type.AUTH, "user")
    hash2 = auth.stored_hash(auth.stored_password("secret"))
    auth.authenticate(first.tuple or b"", SALT, hash2, is_guest=False)


def test_login_refused(peer: Peer, file: Path) -> None:
    peer.refuse[0] = er(Er.CREDS_MISMATCH)
    code, told, errors = run(file, f"user:wrong@127.0.0.1:{peer.port}")
    assert (code, told) == (1, "")
    assert "supplied credentials are invalid" in errors
    assert "wrong" not in errors


def test_row_that_is_refused_is_shown(peer: Peer, file: Path) -> None:
    peer.refuse[1] = er(Er.NO_SUCH_SPACE, "512")
    code, told, errors = run(file, f"127.0.0.1:{peer.port}")
    assert (code, told) == (1, "")
    assert "Space '512' does not exist" in errors
    assert '"lsn":3' in errors
    assert "1 rows were taken before it, 2 behind it" in errors


def test_duplicates_are_skipped_if_asked(peer: Peer, file: Path) -> None:
    peer.refuse[0] = er(Er.TUPLE_FOUND, "pk", "s", "", "")
    code, told, _ = run("--skip-duplicates", file, f"127.0.0.1:{peer.port}")
    assert (code, told) == (0, "3 rows played, 1 duplicates skipped\n")


def test_duplicate_stops_it_otherwise(peer: Peer, file: Path) -> None:
    peer.refuse[0] = er(Er.TUPLE_FOUND, "pk", "s", "", "")
    assert run(file, f"127.0.0.1:{peer.port}")[0] == 1


def test_server_that_goes_away(peer: Peer, file: Path) -> None:
    peer.hang_up_after = 4
    path = file.parent / file_name(100, XLOG)
    path.write_bytes(log([[row(lsn) for lsn in range(1, 1001)]]))
    code, told, errors = run(file, path, f"127.0.0.1:{peer.port}")
    assert (code, told) == (1, "")
    assert "closed" in errors or "reset" in errors or "pipe" in errors.lower()


def test_nobody_listens(file: Path) -> None:
    code, told, errors = run(file, f"127.0.0.1:{free_port()}")
    assert (code, told) == (1, "")
    assert "cannot connect to 127.0.0.1" in errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["file.xlog"], "give at least one file"),
        (["file.xlog", "no-port"], "no-port"),
        (["--type", "nothing", "file.xlog", "3301"], "no type of row"),
    ],
)
def test_command_line_that_is_wrong(arguments: list[str], words: str) -> None:
    code, _, errors = run(*arguments)
    assert code == 2
    assert words in errors


def test_damaged_file_is_played_up_to_the_damage(peer: Peer, tmp_path: Path) -> None:
    path = tmp_path / file_name(0, XLOG)
    data = bytearray(log([[row(1)], [row(2)], [row(3)]]))
    data[len(log([[row(1)]], eof=False)) + 22] ^= 1
    path.write_bytes(bytes(data))
    code, told, errors = run(path, f"127.0.0.1:{peer.port}")
    assert (code, told) == (1, "1 rows played\n")
    assert "tx checksum mismatch" in errors


@pytest.mark.interop
@pytest.mark.skipif(EXECUTABLE is None, reason="no tarantool is installed")
def test_play_on_a_real_tarantool(tmp_path: Path) -> None:
    """What one server wrote becomes the data of another."""
    space = "s = box.schema.space.create('s', {id = 600}) s:create_index('pk')"
    grant = "box.schema.user.create('u', {password = 'p'}) box.schema.user.grant('u', 'super')"
    write = """
    for i = 1, 700 do s:insert{i, i} end
    s:update({1}, {{'+', 2, 100}}) s:upsert({2, 0}, {{'=', 2, 'u'}}) s:delete{3}
    """
    source = TarantoolServer(tmp_path / "source", setup=f"{space} {write}")
    source.start()
    source.stop()
    target = TarantoolServer(tmp_path / "target", setup=f"{space} {grant}")
    target.start()
    try:
        files = sorted((tmp_path / "source").glob("*.xlog"))
        code, told, errors = run(*files, f"u:p@127.0.0.1:{target.port}")
        assert (code, told, errors) == (0, "703 rows played\n", "")
        code, _, errors = run(*files, f"u:p@127.0.0.1:{target.port}")
        assert code == 1
        assert "Duplicate key exists" in errors
    finally:
        target.stop()

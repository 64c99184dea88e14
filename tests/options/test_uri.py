"""Addresses."""

from __future__ import annotations

import pytest

from headwater.uri import Uri, UriError, parse_uri


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("3301", Uri("", "3301")),
        ("localhost:3301", Uri("localhost", "3301")),
        ("*:3301", Uri("", "3301")),
        (":3301", Uri("", "3301")),
        ("[::1]:3301", Uri("::1", "3301")),
        ("alice:s%40cret@db.example:3301", Uri("db.example", "3301", "alice", "s@cret")),
        ("alice@localhost:3301", Uri("localhost", "3301", "alice")),
        ("unix/:/tmp/a b.sock", Uri("unix/", "/tmp/a b.sock")),
        ("alice:pw@unix/:/tmp/a.sock", Uri("unix/", "/tmp/a.sock", "alice", "pw")),
        ("/tmp/a.sock", Uri("unix/", "/tmp/a.sock")),
        ("./a.sock", Uri("unix/", "./a.sock")),
        ("localhost:3301?transport=plain", Uri("localhost", "3301", params={"transport": "plain"})),
    ],
)
def test_forms(text: str, uri: Uri) -> None:
    assert parse_uri(text) == uri


@pytest.mark.parametrize(
    "text", ["", "localhost", "localhost:", "[::1]", "localhost:70000", "99999", "a:1?transport=ssl"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UriError):
        parse_uri(text)


def test_the_password_is_never_shown() -> None:
    assert str(parse_uri("alice:secret@localhost:3301")) == "alice@localhost:3301"


@pytest.mark.parametrize(
    ("text", "loopback"),
    [("127.0.0.1:1", True), ("127.9.9.9:1", True), ("[::1]:1", True), ("localhost:1", True), ("unix/:/a", True),
     ("0.0.0.0:1", False), ("3301", False), ("10.0.0.1:1", False), ("[::]:1", False)],
)  # fmt: skip
def test_loopback(text: str, loopback: bool) -> None:
    assert parse_uri(text).is_loopback is loopback

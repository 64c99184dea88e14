"""Addresses as Tarantool writes them: `host:port`, `user:password@host:port?param=value`, `unix/:/path`, `3301`.

The forms are those of src/lib/uri (uri_create); what has no service (port or path) is refused as box.cc (check_uri)
does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from headwater.errors import HeadwaterError

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class UriError(HeadwaterError, ValueError):
    """Text that is not an address, in 3.x's words."""


@dataclass(frozen=True, slots=True)
class Uri:
    """One address."""

    host: str
    """Empty: every interface, for a listener; `localhost` for whom it connects to. `unix/` for a socket file."""
    service: str
    """A port number, a service name, or the path of a socket file."""
    login: str = ""
    password: str = ""
    params: dict[str, str] = field(default_factory=dict)

    @property
    def is_unix(self) -> bool:
        return self.host == "unix/"

    @property
    def is_loopback(self) -> bool:
        """Can nobody from another machine reach it?"""
        return self.is_unix or self.host in LOOPBACK or self.host.startswith("127.")

    @property
    def address(self) -> str:
        """As `headwater.world.Net` takes it: `host:port` or `unix/:path`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.service}"

    def __str__(self) -> str:
        """Without the password, for logs and messages."""
        return f"{self.login}@{self.address}" if self.login else self.address


def parse_uri(text: str) -> Uri:
    """UriError unless `text` names a host and a service, a bare port, or a path."""
    rest, _, query = text.strip().partition("?")
    rest = rest.removeprefix("tcp://")
    login, password, rest = _credentials(rest)
    host, service = _host_and_service(rest)
    if not service:
        raise UriError(f"bad URI '{text}': expected host:service or /unix.socket")
    params = dict(parse_qsl(query, keep_blank_values=True))
    if params.get("transport", "plain") != "plain":
        raise UriError(f"bad URI '{text}': no transport but 'plain' is supported")
    if params.get("auth_type", "chap-sha1") != "chap-sha1":
        raise UriError(f"bad URI '{text}': unknown authentication method")
    return Uri(host, service, login, password, params)


def _credentials(text: str) -> tuple[str, str, str]:
    before, at, rest = text.rpartition("@")
    if not at or "/" in before:
        return "", "", text
    login, _, password = before.partition(":")
    return unquote(login), unquote(password), rest


def _host_and_service(text: str) -> tuple[str, str]:
    if text.startswith(("unix/:", "unix:")):
        return "unix/", text.partition(":")[2]
    if text.startswith(("/", "./")):
        return "unix/", text
    if text.isdigit():
        return "", _port(text, text)
    if text.startswith("["):
        host, bracket, service = text[1:].partition("]:")
        return (host, _port(service, text)) if bracket else (host, "")
    host, _, service = text.rpartition(":")
    return ("" if host == "*" else host), _port(service, text) if host or text.startswith(":") else ""


def _port(service: str, text: str) -> str:
    if service.isdigit() and int(service) > 65535:
        raise UriError(f"bad URI '{text}': a port is at most 65535")
    return service

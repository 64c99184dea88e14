"""Servers that a query names: replica sets, the members of each, and the login, with the password looked up late.

`hosts` is `a:3301,b:3302;c:3301`: members of a set are parted by commas, sets by semicolons. A member may be written as
any address that Headwater knows (`headwater.uri`); a login inside an address has preference over the options.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headwater.pipeline.errors import OptionError
from headwater.pipeline.settings import Options, Secret
from headwater.uri import Uri, UriError, parse_uri

__all__ = ["READ_OPTIONS", "WRITE_OPTIONS", "Host", "ReplicaSet", "ReplicaSets", "pass_over"]

READ_OPTIONS = (
    "columns", "index", "numPartitions", "readFrom", "readView", "pageRows", "pageBytes", "keyFrom", "keyTo", "mode",
    "pushDownFilters", "metadataColumns", "unsignedAs", "numberAs", "decimalAs", "uuidAs", "datetimeAs", "intervalAs",
    "invalidUtf8", "rescuedDataColumn",
)  # fmt: skip
WRITE_OPTIONS = (
    "operation", "opColumn", "upsertOps", "upsertOpsColumn", "batchSize", "batchBytes", "transactions", "txnAppId",
    "txnVersion", "saveMode", "primaryKey", "engine", "fieldTypes", "variantTags",
)  # fmt: skip
"""A view of SQL is read and written with the same options: each side passes over those of the other."""

_FORM = "It should be hosts like a:3301,b:3301; several replica sets are parted by semicolons: a:3301,b:3301;c:3301"


@dataclass(frozen=True, slots=True)
class Host:
    """One server and how to log in there. Pickles and prints without a password, unless the user wrote it down."""

    address: Uri
    """Without login."""
    username: str = ""
    """Empty: guest."""
    password: Secret | None = None

    def uri(self) -> Uri:
        """With the login. OptionError if the password is not to be found on this machine."""
        password = self.password.reveal() if self.password is not None else ""
        return replace(self.address, login=self.username, password=password)

    def __str__(self) -> str:
        return str(self.address)


@dataclass(frozen=True, slots=True)
class ReplicaSet:
    """Members of one set, as far as they are named."""

    hosts: tuple[Host, ...]
    connect_timeout: float = 5.0
    """Seconds until a server that does not answer counts as away."""
    request_timeout: float = 60.0
    """Seconds without a byte after which a server that has been asked counts as away."""

    def uris(self) -> list[Uri]:
        return [host.uri() for host in self.hosts]

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts)

    def __str__(self) -> str:
        return ",".join(map(str, self.hosts))


@dataclass(frozen=True, slots=True)
class ReplicaSets:
    """What the option `hosts` says."""

    sets: tuple[ReplicaSet, ...]

    @classmethod
    def read(cls, options: Options) -> ReplicaSets:
        text = options.needed("hosts", "where the servers are, like a:3301,b:3301")
        username = options.text("username") or options.text("user") or ""
        password = options.secret("password")
        if password is not None and not username:
            raise OptionError("There is a password and no user: the option 'username' says whose it is.")
        connect, request = options.span("connectTimeout", 5.0), options.span("requestTimeout", 60.0)
        groups = [[word.strip() for word in group.split(",") if word.strip()] for group in text.split(";")]
        if not all(groups):
            raise OptionError(f"The option 'hosts' is '{text}' and names a set without members. {_FORM}.")
        hosts = [tuple(_host(word, username, password) for word in group) for group in groups]
        cls._refuse_twins(hosts)
        return cls(tuple(ReplicaSet(members, connect, request) for members in hosts))

    @staticmethod
    def _refuse_twins(groups: list[tuple[Host, ...]]) -> None:
        """A server in two sets would be read twice."""
        seen: set[str] = set()
        for host in (host for group in groups for host in group):
            if str(host) in seen:
                raise OptionError(f"The option 'hosts' names {host} twice. {_FORM}.")
            seen.add(str(host))

    def only(self, what: str) -> ReplicaSet:
        """The set, where there may be one only."""
        if len(self.sets) > 1:
            raise OptionError(
                f"The option 'hosts' names {len(self.sets)} replica sets, and {what}: name the members of one of them, "
                "parted by commas."
            )
        return self.sets[0]

    def __iter__(self) -> Iterator[ReplicaSet]:
        return iter(self.sets)

    def __len__(self) -> int:
        return len(self.sets)

    def __str__(self) -> str:
        return ";".join(map(str, self.sets))


def pass_over(options: Options, names: Sequence[str]) -> None:
    """They are known, and mean nothing here."""
    for name in names:
        options.text(name)


def _host(text: str, username: str, password: Secret | None) -> Host:
    try:
        uri = parse_uri(text)
    except UriError as error:
        shown = text.rpartition("@")[2]
        raise OptionError(f"The option 'hosts' names '{shown}', which is no address. {_FORM}.") from error
    address = replace(uri, login="", password="")
    if not uri.login:
        return Host(address, username, password)
    return Host(address, uri.login, Secret("value", uri.password) if uri.password else None)

"""Files by path, directory or pattern: those that the executors see by name, others through fsspec (`s3://…`, `hdfs://…`,
`zip://*.xlog::https://…`).

A file is read by ranges and never mapped: whoever cuts it while it is read would kill the reader.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast
from urllib.parse import unquote

from headwater.pipeline.errors import NotThere, OptionError, PipelineError

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
_BRACES = re.compile(r"\{([^{}]*)\}")
_WINDOW_NEAR, _WINDOW_FAR = 4 << 20, 8 << 20
_GET_FSSPEC = "Paths like {0}://… need fsspec, and mostly a package for that kind of storage: pip install fsspec {1}"
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs"}


@dataclass(frozen=True, slots=True)
class Found:
    """One file."""

    path: str
    size: int
    version: str
    """Changes when the file does; empty where nobody knows."""
    is_named: bool
    """Did the user name this very file, and not a directory or pattern?"""

    @property
    def directory(self) -> str:
        protocol, inner, chain = _address_parts(self.path)
        return f"{protocol}{inner.rpartition('/')[0]}{chain}"

    @property
    def name(self) -> str:
        return _address_parts(self.path)[1].rpartition("/")[2]


class Source(Protocol):
    """An open file, as `xlog.Reader` wants it."""

    path: str
    window: int
    """So many bytes should be read at once."""

    def read_at(self, offset: int, size: int) -> bytes: ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class LocalSource:
    """A file of this machine, as long as it was when it was listed: what is written later is not seen."""

    window = _WINDOW_NEAR

    def __init__(self, path: str, size: int | None = None) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _gone(path, error) from None
        self._size = os.fstat(self._file).st_size if size is None else size

    def read_at(self, offset: int, size: int) -> bytes:
        size = min(size, self._size - offset)
        parts = []
        while size > 0 and (data := os.pread(self._file, size, offset)):
            parts.append(data)
            offset += len(data)
            size -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def size(self) -> int:
        return self._size

    def close(self) -> None:
        os.close(self._file)


class RemoteSource:
    """A file that fsspec reads."""

    window = _WINDOW_FAR

    def __init__(self, path: str, size: int | None, options: Mapping[str, Any]) -> None:
        self.path = path
        self._fs, self._name = _remote(path, options)
        try:
            self._size = int(self._fs.info(self._name)["size"]) if size is None else size
        except OSError as error:
            raise _gone(path, error) from None

    def read_at(self, offset: int, size: int) -> bytes:
        end = min(offset + size, self._size)
        if end <= offset:
            return b""
        try:
            return cast(bytes, self._fs.cat_file(self._name, offset, end))
        except OSError as error:
            raise _gone(self.path, error) from None

    def size(self) -> int:
        return self._size

    def close(self) -> None:
        pass


class Storage:
    """Finds and opens. `options` go to fsspec."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._options = dict(options or {})

    def open(self, path: str, size: int | None = None) -> Source:
        return LocalSource(path, size) if is_local(path) else RemoteSource(path, size, self._options)

    def find(self, path: str, *, recursive: bool = False) -> list[Found]:
        """The files that a path means, by name. NotThere if it means none."""
        path = _plain(path)
        found = list(self._local(path, recursive) if is_local(path) else self._remote(path, recursive))
        if not found:
            raise NotThere(f"{path}: no file of that name or pattern, and no file in a directory of that name.")
        return sorted(found, key=lambda file: file.path)

    def beside(self, directory: str) -> list[Found]:
        """All files of a directory; nothing where it cannot be listed."""
        try:
            return self.find(directory)
        except PipelineError:
            return []

    # ---- local

    def _local(self, path: str, recursive: bool) -> Iterator[Found]:
        if os.path.isdir(path):
            yield from _walk(path, recursive)
        elif os.path.lexists(path):
            yield _local_file(path, is_named=True)
        else:
            for pattern in _braces(path):
                for name in glob.glob(pattern, recursive=True):
                    if os.path.isdir(name):
                        yield from _walk(name, recursive)
                    else:
                        yield _local_file(name, is_named=False)

    # ---- remote

    def _remote(self, path: str, recursive: bool) -> Iterator[Found]:
        fs, name = _remote(path, self._options)
        try:
            if fs.isdir(name):
                yield from self._listed(fs, path, name, recursive)
            elif fs.isfile(name):
                yield _remote_file(path, fs.info(name), is_named=True)
            else:
                for pattern in _braces(name):
                    for each, info in fs.glob(pattern, detail=True).items():
                        if info["type"] == "directory":
                            yield from self._listed(fs, path, each, recursive)
                        else:
                            yield _remote_file(_address(path, each), info, is_named=False)
        except OSError as error:
            raise _gone(path, error) from None

    def _listed(self, fs: Any, path: str, name: str, recursive: bool) -> Iterator[Found]:
        listed = fs.find(name, maxdepth=None if recursive else 1, detail=True)
        for each, info in listed.items():
            yield _remote_file(_address(path, each), info, is_named=False)


# ---- helpers --------------------------------------------------------------------------------------


def is_local(path: str) -> bool:
    return _URL.match(path) is None


def _plain(path: str) -> str:
    """Without `file://`, which names what a bare path names, and with `~` told."""
    if path.startswith("file:"):
        path = unquote(path.removeprefix("file:"))
        return "/" + path.lstrip("/")
    return os.path.abspath(os.path.expanduser(path)) if is_local(path) else path


def _walk(directory: str, recursive: bool) -> Iterator[Found]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        raise _gone(directory, error) from None
    for entry in entries:
        if entry.is_dir():
            if recursive:
                yield from _walk(entry.path, recursive)
        else:
            yield _local_file(entry.path, is_named=False)


def _local_file(path: str, *, is_named: bool) -> Found:
    try:
        told = os.stat(path)
    except OSError as error:
        raise _gone(path, error) from None
    if not stat.S_ISREG(told.st_mode) and is_named:
        raise NotThere(f"{path} is not a file.")
    return Found(path, told.st_size, f"{told.st_ino}-{told.st_mtime_ns}", is_named)


def _remote_file(path: str, info: Mapping[str, Any], *, is_named: bool) -> Found:
    marks = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "updated", "last_modified")
    version = next((f"{mark}={info[mark]}" for mark in marks if info.get(mark)), "")
    return Found(path, int(info["size"]), version, is_named)


def _remote(path: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    protocol = cast("re.Match[str]", _URL.match(path))[1]
    try:
        import fsspec
    except ImportError:
        raise OptionError(_GET_FSSPEC.format(protocol, _PACKAGES.get(protocol, "")).strip() + ".") from None
    try:
        fs, name = fsspec.core.url_to_fs(path, **options)
    except (ImportError, ValueError, TypeError) as error:
        raise OptionError(f"{path}: fsspec cannot open it: {error}.") from None
    except OSError as error:
        raise _gone(path, error) from None
    return fs, name


def _address(path: str, name: str) -> str:
    """A file that fsspec named, as it is opened again: with the protocol, and the chain behind it."""
    protocol = cast("re.Match[str]", _URL.match(path))[1]
    _, chain, rest = path.partition("::")
    return f"{protocol}://{name}{chain}{rest}"


def _address_parts(path: str) -> tuple[str, str, str]:
    """`zip://`, `a/b.xlog`, `::file:///c.zip`; a bare path is only the second."""
    found = _URL.match(path)
    begin = found.end() if found is not None else 0
    inner, chain, rest = path[begin:].partition("::") if found is not None else (path, "", "")
    return path[:begin], inner, chain + rest


def _braces(pattern: str) -> Iterator[str]:
    """`a{b,c}` as `ab` and `ac`, as patterns of Spark have it."""
    found = _BRACES.search(pattern)
    if found is None:
        yield pattern
        return
    for word in found[1].split(","):
        yield from _braces(pattern[: found.start()] + word + pattern[found.end() :])


def _gone(path: str, error: OSError) -> PipelineError:
    if isinstance(error, FileNotFoundError):
        return NotThere(
            f"{path} does not exist on the machine that looked for it. If it was there when the query began, its owner "
            "has removed it; if not, every executor must see it under this name."
        )
    return PipelineError(f"{path} cannot be read: {error}.")

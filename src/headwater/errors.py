"""Everything that can go wrong, with Tarantool's codes, types and texts (errcode.h, error.cc, exception.cc of 3.x).

An error that a client may see is a `BoxError`: it has a code, a type name, a message and a cause, and
is sent with its whole stack, because a peer rebuilds the class from the stack, not from the code.
`er(Er.NO_SUCH_SPACE, "t")` words one from its code.
"""

from __future__ import annotations

import errno as _errno
import os
from pathlib import Path

from headwater.errcodes import Er

__all__ = [
    "AccessDenied",
    "BoxError",
    "CustomError",
    "Er",
    "HeadwaterError",
    "IllegalParams",
    "MsgPackError",
    "OutOfMemory",
    "Packed",
    "SocketError",
    "SystemError_",
    "TimedOut",
    "XlogError",
    "XlogGapError",
    "er",
]


class HeadwaterError(Exception):
    """Base of all errors that Headwater raises on purpose."""


class MsgPackError(HeadwaterError, ValueError):
    """Bytes that are not MessagePack, or not the MessagePack that was expected."""


class Packed(bytes):
    """Bytes that are one MessagePack value already, for example a tuple in the payload of an error."""

    __slots__ = ()


class BoxError(HeadwaterError):
    """An error with a code that a client receives.

    `code`      a number of errcode.h
    `type_name` the class a peer rebuilds: ClientError, AccessDeniedError, XlogGapError, SystemError, …
    `message`   the whole text
    `fields`    further named values (map 6 of the error stack), for example object_name of AccessDeniedError
    `cause`     the error below it on the stack, if any
    `errno`     the operating system's number for a SystemError, else 0
    `place`     source file and line, if a peer told them; our own are taken from the traceback
    """

    type_name = "ClientError"

    def __init__(
        self,
        code: int,
        message: str,
        *,
        fields: dict[str, object] | None = None,
        cause: BoxError | None = None,
        errno: int = 0,
        type_name: str | None = None,
        place: tuple[str, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fields = fields if fields is not None else self._default_fields(code)
        self.cause = cause
        self.errno = errno
        self.place = place
        if type_name is not None:
            self.type_name = type_name

    def _default_fields(self, code: int) -> dict[str, object]:
        """A plain ClientError carries the name of its code (error.cc, ClientError::ClientError)."""
        if type(self) is not BoxError:
            return {}
        return {"name": _CODES.get(code, Er.UNKNOWN).name}

    def stack(self) -> list[BoxError]:
        """This error, then its causes, outermost first."""
        out: list[BoxError] = []
        error: BoxError | None = self
        while error is not None and error not in out:
            out.append(error)
            error = error.cause
        return out

    def location(self) -> tuple[str, int]:
        """Where it was raised: a path below the package, and a line. Empty while it was not raised."""
        if self.place is not None:
            return self.place
        step = self.__traceback__
        if step is None:
            return "", 0
        while step.tb_next is not None:
            step = step.tb_next
        path = Path(step.tb_frame.f_code.co_filename)
        return "/".join(path.parts[-2:]), step.tb_lineno


class AccessDenied(BoxError):  # noqa: N818
    """A user lacks a privilege (error.cc, AccessDeniedError::AccessDeniedError)."""

    type_name = "AccessDeniedError"

    def __init__(self, access: str, object_type: str, object_name: str, user: str) -> None:
        message = Er.ACCESS_DENIED.template % (access, object_type, object_name, user)
        fields: dict[str, object] = {
            "object_type": object_type,
            "object_name": object_name,
            "access_type": access,
            "user": user,
        }
        super().__init__(Er.ACCESS_DENIED, message, fields=fields)


class CustomError(BoxError):
    """An error whose type a stored procedure named (error.cc, CustomError::CustomError)."""

    type_name = "CustomError"

    def __init__(self, custom_type: str, message: str, code: int = 0) -> None:
        super().__init__(code, message, fields={"custom_type": custom_type})


class IllegalParams(BoxError):  # noqa: N818
    """A procedure was called with arguments that it does not take."""

    type_name = "IllegalParams"

    def __init__(self, message: str) -> None:
        super().__init__(Er.ILLEGAL_PARAMS, message)


class XlogError(BoxError):
    """A file of the data directory is not what it must be. Not a ClientError: its code is that of errors
    without one (error.cc, ClientError::get_errcode).

    `path`, `offset` say where in which file; `lsn` is the signature or LSN of the last good row before it, if
    known. They are in the message too, for people.
    """

    type_name = "XlogError"

    def __init__(self, message: str, *, path: str = "", offset: int | None = None, lsn: int | None = None) -> None:
        where = ", ".join(
            text
            for text in (
                f"offset {offset}" if offset is not None else "",
                f"last good LSN {lsn}" if lsn is not None else "",
            )
            if text
        )
        full = f"{path}: {message}" if path else message
        super().__init__(Er.PROC_LUA, f"{full} ({where})" if where else full)
        self.reason = message
        self.path = path
        self.offset = offset
        self.lsn = lsn


class XlogGapError(XlogError):
    """Rows between two vclocks are in no file. A replica that is told so joins anew or tries again."""

    type_name = "XlogGapError"

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message, path=path)
        self.code = Er.XLOG_GAP

    @classmethod
    def between(cls, from_sum: int, from_text: str, to_sum: int, to_text: str) -> XlogGapError:
        """In the words of error.cc (XlogGapError::XlogGapError); sums and texts are those of two vclocks."""
        return cls(f"Missing .xlog file between LSN {from_sum} {from_text} and {to_sum} {to_text}")


def system_words(error: OSError) -> str:
    """What the system says to the number of an error. asyncio puts words of its own there, in several forms; those of
    getaddrinfo have negative numbers and are kept."""
    if error.errno is None:
        return str(error)
    return os.strerror(error.errno) if error.errno > 0 else str(error.strerror)


class SystemError_(BoxError):  # noqa: N801, N818
    """The operating system refused something (exception.cc, SystemError). Not Python's SystemError."""

    type_name = "SystemError"

    def __init__(self, message: str, errno: int = 0) -> None:
        text = f"{message}: {os.strerror(errno)}" if errno else message
        super().__init__(Er.SYSTEM, text, errno=errno)

    @classmethod
    def of(cls, message: str, error: OSError) -> SystemError_:
        return cls(message, error.errno or 0)


def system_message(error: BoxError | None) -> str:
    """What the operating system calls it, where it was that; empty otherwise."""
    return os.strerror(error.errno) if error is not None and error.errno else ""


class SocketError(SystemError_):
    """A socket failed (exception.cc, SocketError)."""

    type_name = "SocketError"

    def __init__(self, message: str, name: str = "", errno: int = 0) -> None:
        super().__init__(f"{message}, called on {name}" if name else message, errno)


class TimedOut(SystemError_):
    """Something took longer than it may (exception.cc, TimedOut)."""

    type_name = "TimedOut"

    def __init__(self) -> None:
        super().__init__("timed out")
        self.errno = _errno.ETIMEDOUT


class OutOfMemory(SystemError_):
    """A quota of memory is used up (exception.cc, OutOfMemory)."""

    type_name = "OutOfMemory"

    def __init__(self, amount: int, allocator: str, what: str) -> None:
        super().__init__(Er.MEMORY_ISSUE.template % (amount, allocator, what))
        self.code = Er.MEMORY_ISSUE
        self.errno = _errno.ENOMEM


_CODES = {int(code): code for code in Er}


def er(code: Er, *args: object, cause: BoxError | None = None) -> BoxError:
    """The error of a code, worded as 3.x words it: `er(Er.NO_SUCH_SPACE, "t")`.

    The first arguments fill the text; all of them, those beyond the text included, fill the payload by the names
    that errcode.h gives them (`bytes` are MessagePack, None is left out). Codes that have a class of their own
    make that class.
    """
    if code is Er.ACCESS_DENIED:
        error: BoxError = AccessDenied(*(str(value) for value in args))
    elif code is Er.ILLEGAL_PARAMS:
        error = IllegalParams(str(args[0]))
    elif code is Er.SYSTEM:
        error = SystemError_(str(args[0]))
    elif code is Er.XLOG_GAP:
        error = XlogGapError(str(args[0]))
    else:
        error = BoxError(code, code.template % args[: code.arity], fields=_payload(code, args))
    error.cause = cause
    return error


def _payload(code: Er, args: tuple[object, ...]) -> dict[str, object]:
    fields: dict[str, object] = {"name": code.name}
    for name, value in zip(code.payload, args, strict=False):
        if name and value is not None:
            fields[name] = Packed(value) if isinstance(value, bytes) else value
    return fields

"""Everything that can go wrong, with Tarantool's codes, types and texts (errcode.h, error.h of 3.x).

An error that a client may see is a `BoxError`: it has a code, a type name, a message and a cause, and
is sent with its whole stack, because a peer rebuilds the class from the stack, not from the code.
"""

from __future__ import annotations


class HeadwaterError(Exception):
    """Base of all errors that Headwater raises on purpose."""


class MsgPackError(HeadwaterError, ValueError):
    """Bytes that are not MessagePack, or not the MessagePack that was expected."""


class BoxError(HeadwaterError):
    """An error with a code that a client receives.

    `code`      a number of errcode.h
    `type_name` the class a peer rebuilds: ClientError, AccessDeniedError, XlogGapError, SystemError, …
    `message`   the whole text
    `fields`    further named values (map 6 of the error stack), for example object_name of AccessDeniedError
    `cause`     the error below it on the stack, if any
    `errno`     the operating system's number for a SystemError, else 0
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
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fields = fields or {}
        self.cause = cause
        self.errno = errno

    def stack(self) -> list[BoxError]:
        """This error, then its causes, outermost first."""
        out: list[BoxError] = []
        error: BoxError | None = self
        while error is not None:
            out.append(error)
            error = error.cause
        return out

"""CALL: find the procedure, check that the user may call it, run it, encode what it returns (call.c, lua/call.c).

A name is looked for in `_func` first, then among the procedures of the option `procedures`, then among the built-ins.
Whoever may not call anything by a name learns nothing about whether it exists.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from inspect import isawaitable
from itertools import pairwise
from typing import Any

from headwater.box.host import Host, Session
from headwater.box.procedures import builtin
from headwater.box.procedures.context import Context
from headwater.errors import BoxError, Er, MsgPackError, Packed, er
from headwater.kernels import mp_array_fields
from headwater.store.functions import Function
from headwater.store.users import User
from headwater.txn import Transaction
from headwater.wire.constants import Type
from headwater.wire.msgpack import pack, unpack
from headwater.wire.request import Request

log = logging.getLogger("headwater.call")

Result = list[bytes]
"""The values of a reply, each one MessagePack value; for CALL_16 each one a tuple."""


class Calls:
    """The procedures of one node."""

    def __init__(self, host: Host, procedures: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self._host = host
        self._procedures = dict(procedures or {})

    def call(
        self, request: Request, session: Session, txn: Transaction | None = None
    ) -> Result | Coroutine[Any, Any, Result]:
        """Serve CALL and CALL_16. A procedure that waits for something gives a coroutine to be run as a fiber. What it
        wrote is prepared; the reply has to wait until that is in the journal. `txn`: the open transaction of the stream
        by which the request came."""
        context = Context(self._host, self, session, session.user, txn)
        as_tuples = request.type == Type.CALL_16
        try:
            value = self.run(context, request.function, unpack(request.args))
            if isawaitable(value):
                return self._finish_later(context, request.function, value, as_tuples)
            return _finish(context, value, as_tuples)
        except Exception as error:
            context.abandon()
            raise _boxed(error, request.function) from error

    def run(self, context: Context, name: str, args: Sequence[Any]) -> Any:
        """Call a procedure from a procedure, with the same checks."""
        function = self._host.schema.function(name)
        owner = self._check_access(context.effective, name, function)
        found = self._procedures.get(name) or builtin.find(context, name)
        if found is None:
            raise er(Er.NO_SUCH_PROC, name)
        if owner is None:
            return found(context, *args)
        return _as_owner(context, owner, found, args)

    def _check_access(self, user: User, name: str, function: Function | None) -> User | None:
        """The user as whom it runs, if that is not the caller (box_process_call)."""
        access = self._host.schema.access
        if function is None:
            access.check_call(user, name, builtin=builtin.is_builtin(name))
            return None
        access.check_function(user, function, persistent=function.is_persistent)
        if function.is_persistent:
            kind = f"functions written in {function.definition.language} (use a procedure in Python: '{name}')"
            raise er(Er.UNSUPPORTED, "Headwater", kind)
        return access.users.find(function.owner) if function.definition.setuid else None

    async def _finish_later(self, context: Context, name: str, value: Awaitable[Any], as_tuples: bool) -> Result:
        try:
            return _finish(context, await _Guarded(context, _coroutine(value)), as_tuples)
        except Exception as error:
            context.abandon()
            raise _boxed(error, name) from error
        except BaseException:
            context.abandon()
            raise


def _as_owner(context: Context, owner: User, function: Callable[..., Any], args: Sequence[Any]) -> Any:
    with context.as_user(owner):
        value = function(context, *args)
    return _await_as_owner(context, owner, value) if isawaitable(value) else value


async def _await_as_owner(context: Context, owner: User, value: Awaitable[Any]) -> Any:
    with context.as_user(owner):
        return await value


def _boxed(error: Exception, name: str) -> BoxError:
    """What the client gets. A mistake of the procedure is in the log with its traceback."""
    if isinstance(error, BoxError):
        return error
    log.error("procedure %s failed", name, exc_info=error)
    return er(Er.PROC_LUA, f"{name}: {type(error).__name__}: {error}")


class _Guarded:
    """Runs a procedure that waits. A transaction that nobody may interrupt, open when it begins to wait, is rolled
    back, and the procedure gets the error at the place where it waits."""

    def __init__(self, context: Context, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._context = context
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        resume: Callable[[Any], Any] = self._coroutine.send
        argument: Any = None
        while True:
            try:
                waiting = resume(argument)
            except StopIteration as stop:
                return stop.value
            lost = self._context.interrupt()
            if lost is not None:
                resume, argument = self._coroutine.throw, lost
                continue
            try:
                argument = yield waiting
                resume = self._coroutine.send
            except BaseException as error:
                resume, argument = self._coroutine.throw, error


def _coroutine(value: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
    async def wait() -> Any:
        return await value

    return value if isinstance(value, Coroutine) else wait()


# ---- what comes back ----------------------------------------------------------------------------------


def _finish(context: Context, value: Any, as_tuples: bool) -> Result:
    packed = encode(value)
    context.finish()
    if not as_tuples or isinstance(value, Packed):
        return packed
    return tuples_of(packed)


def encode(value: Any) -> Result:
    """None is no value, a tuple is several, anything else is one."""
    values = () if value is None else value if isinstance(value, tuple) else (value,)
    try:
        return [pack(each) for each in values]
    except MsgPackError as error:
        raise er(Er.PROC_LUA, str(error)) from None


def tuples_of(values: Result) -> Result:
    """What CALL_16 replies: every value made a tuple, and one array of arrays taken apart
    (lua/call.c, luamp_encode_call_16)."""
    if len(values) != 1 or not _is_array(values[0]):
        return [value if _is_array(value) else b"\x91" + value for value in values]
    ends = mp_array_fields(values[0])
    items = [values[0][start:end] for start, end in pairwise(ends)]
    if not items or not _is_array(items[0]):
        return values
    return [item if _is_array(item) else b"\x91" + item for item in items]


def _is_array(value: bytes) -> bool:
    return value[0] & 0xF0 == 0x90 or value[0] in (0xDC, 0xDD)

"""SELECT on the ordinary path (box.cc box_select, index.cc iterator_validate)."""

from __future__ import annotations

from collections.abc import Callable

from headwater.box.position import Order
from headwater.errors import BoxError, Er, IllegalParams, Packed, er
from headwater.kernels import KeyViolation, mp_array_fields
from headwater.store.definitions import IndexDef
from headwater.store.schema import Schema
from headwater.store.space import Space
from headwater.store.users import User
from headwater.store.violations import key_error
from headwater.txn import Transaction
from headwater.typing import IteratorType
from headwater.wire.request import Request

CheckKey = Callable[[bytes, bool], None]

_EMPTY_KEY = b"\x90"
_ITERATOR_MAX = int(max(IteratorType))
_SUPPORTED = {
    "hash": frozenset((IteratorType.ALL, IteratorType.EQ, IteratorType.GT)),
    "tree": frozenset(
        (
            IteratorType.ALL,
            IteratorType.EQ,
            IteratorType.REQ,
            IteratorType.LT,
            IteratorType.LE,
            IteratorType.GT,
            IteratorType.GE,
            IteratorType.NP,
            IteratorType.PP,
        )
    ),
}


class Selects:
    """Reads for the requests of one node."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def select(
        self, space: Space, request: Request, user: User, txn: Transaction | None
    ) -> tuple[list[bytes], bytes | None]:
        """Tuples, and the position behind the last one if the request asks for it and there is one."""
        index, order, after = self._prepare(space, request, user)
        key = walked_key(index, request)
        if txn is not None:
            txn.check_can_continue()
        if txn is not None and txn.interactive and space.view is None:
            found = txn.select(space, index.id, request.iterator, key, request.offset, request.limit, after)
        else:
            reader = space.reader(index.id, user)
            found = reader.select(request.iterator, key, request.offset, request.limit, after)
        if not request.fetch_position:
            return found, None
        if index.type != "tree":
            raise _unsupported(index, space, "pagination")
        order = order or self._order(space, index)
        return found, order.position_of(found[-1]) if found else None

    def count(self, space: Space, request: Request, user: User, txn: Transaction | None) -> int:
        """How many tuples a SELECT without offset and limit would give."""
        index, _, _ = self._prepare(space, request, user)
        key = walked_key(index, request)
        if txn is not None:
            txn.check_can_continue()
        if txn is not None and txn.interactive and space.view is None:
            return len(txn.select(space, index.id, request.iterator, key))
        return space.reader(index.id, user).count(request.iterator, key)

    def _prepare(self, space: Space, request: Request, user: User) -> tuple[IndexDef, Order | None, bytes | None]:
        """All checks, in 3.x's order. The order of the index is made only where a position asks for it."""
        order: Order | None = None
        after: bytes | None = None
        if request.after_position is None and request.after_tuple is not None:
            order = self._order(space, space.index(request.index_id))
            after = order.after_tuple(request.after_tuple)
        if not 0 <= request.iterator <= _ITERATOR_MAX:
            raise IllegalParams("Invalid iterator type")
        self._schema.check_read(user, space)
        index = space.index(request.index_id)
        key = request.key or _EMPTY_KEY
        validate_iterator(space, index, request.iterator, key, space.reader(index.id, user).key_def.check_key)
        if request.after_position:
            order = self._order(space, index)
            after = order.after_position(request.after_position)
        if after is not None and order is not None:
            order.check(after, request.iterator, key)
            if index.type != "tree":
                raise _unsupported(index, space, "pagination")
        return index, order, after

    def _order(self, space: Space, index: IndexDef) -> Order:
        return Order(index, space.pk, self._schema.collations)


def walked_key(index: IndexDef, request: Request) -> bytes:
    """A hash index has no order to begin in: ALL with a key is everything (memtx_hash_index_create_iterator)."""
    if index.type == "hash" and request.iterator == IteratorType.ALL:
        return _EMPTY_KEY
    return request.key or _EMPTY_KEY


def validate_iterator(space: Space, index: IndexDef, iterator: int, key: bytes, check_key: CheckKey) -> None:
    """May this index be walked so, from this key?"""
    if iterator not in _SUPPORTED[index.type]:
        raise _unsupported(index, space, "requested iterator type")
    count = len(mp_array_fields(key)) - 1
    prefixed = iterator in (IteratorType.NP, IteratorType.PP) and 0 < count <= len(index.parts)
    if prefixed and index.parts[count - 1].collation is not None:
        raise _unsupported(index, space, "requested iterator type along with collation")
    if not count and (index.type == "tree" or iterator in (IteratorType.ALL, IteratorType.GT)):
        return
    try:
        if index.type == "hash" and count < len(index.parts):
            raise er(Er.PARTIAL_KEY, "HASH", len(index.parts), count)
        check_key(key, False)
    except KeyViolation as violation:
        raise tell_key(key_error(violation, key, exact=False), space, index, key) from None
    except BoxError as error:
        raise tell_key(error, space, index, key) from None


def tell_key(error: BoxError, space: Space, index: IndexDef, key: bytes) -> BoxError:
    """Name index, space and key in the payload (error_set_index, error_set_key)."""
    tell_index(error, space, index)
    error.fields["key"] = Packed(key)
    return error


def tell_index(error: BoxError, space: Space, index: IndexDef) -> BoxError:
    error.fields.update(index=index.name, index_id=int(index.id), space=space.name, space_id=int(space.id))
    return error


def tell_space(error: BoxError, space: Space) -> BoxError:
    """error_set_space"""
    error.fields.update(space=space.name, space_id=int(space.id))
    return error


def _unsupported(index: IndexDef, space: Space, what: str) -> BoxError:
    return er(Er.UNSUPPORTED_INDEX_FEATURE, index.name, index.type.upper(), space.name, space.engine, what)

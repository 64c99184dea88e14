"""A tuple while operations change it: a tree whose untouched parts are bytes of the old tuple.

The shapes are those of Tarantool (xrow_update_array.c, _map.c, _bar.c, _route.c), because they decide where the keys of
a changed map end up, and which paths are found after earlier operations: every node of a replica set must make the
same bytes of the same operations.

    Nop      bytes that no operation has changed, or that one has set
    Scalar   the result of arithmetic, bits or splice
    Array    an array, field by field
    Map      a map: changed keys first, runs of untouched pairs behind
    Bar      bytes with one change somewhere inside, by a path that no other operation shares
    Route    a path that several operations share, and the container where they part
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headwater.errors import Er, er
from headwater.kernels import mp_array_fields, mp_next
from headwater.store.update_ops import Op
from headwater.store.update_path import Lexer, PathError, Token, TokenKind
from headwater.store.update_scalar import NOTHING, Scalar, read_scalar
from headwater.typing import FieldType
from headwater.wire.constants import MpType
from headwater.wire.mpread import KIND, read_bytes, read_length
from headwater.wire.mpwrite import pack_array_head, pack_map_head, pack_str

_NIL = b"\xc0"
_ADDED_NIL = -1
"""Entry of an Array: a nil that fills the gap before a field beyond the end."""


class Slot:
    """A place in the tree: operations replace the node in it."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node


@dataclass(slots=True)
class Nop:
    data: bytes
    start: int
    end: int

    def store(self, out: list[bytes]) -> None:
        out.append(self.data[self.start : self.end])


@dataclass(slots=True)
class Bar:
    data: bytes
    start: int
    end: int
    op: Op
    path: bytes
    """What was left of the operation's path; shortened when the tree grows between here and the change."""
    parent: int
    """Offset of the container in which it acts."""
    point: int
    """Offset of the value it changes, or before which it inserts; of the key of a pair it deletes."""
    point_end: int
    key: bytes | None = None
    """Key of a pair that it inserts into a map."""
    scalar: Scalar = NOTHING

    def store(self, out: list[bytes]) -> None:
        data = self.data
        if self.op.code not in "!#":
            new = self.op.value if self.op.code == "=" else self.scalar.pack()
            out += (data[self.start : self.point], new, data[self.point_end : self.end])
            return
        count, inside = read_length(data, self.parent)
        is_array = KIND[data[self.parent]] == MpType.ARRAY
        change = 1 if self.op.code == "!" else -self.op.count
        out.append(data[self.start : self.parent])
        out.append(pack_array_head(count + change) if is_array else pack_map_head(count + change))
        if self.key is not None:
            out += (pack_str(self.key), self.op.value, data[inside : self.end])
            return
        out += (data[inside : self.point], self.op.value if self.op.code == "!" else b"")
        out.append(data[self.point_end if self.op.code == "#" else self.point : self.end])


@dataclass(slots=True)
class Route:
    data: bytes
    start: int
    end: int
    path: bytes
    hop: Slot

    def store(self, out: list[bytes]) -> None:
        inner = self.hop.node
        assert isinstance(inner, Array | Map)
        out.append(self.data[self.start : inner.start])
        inner.store(out)
        out.append(self.data[inner.end : self.end])


class Array:
    """`entries`: the number of an untouched field in the old array, _ADDED_NIL, or a slot."""

    __slots__ = ("_fields", "data", "end", "entries", "start")

    def __init__(self, data: bytes, start: int = 0) -> None:
        self.data = data
        self.start = start
        self._fields = mp_array_fields(data, start)
        self.end = self._fields[-1]
        self.entries: list[int | Slot] = list(range(len(self._fields) - 1))

    def slot(self, number: int) -> Slot:
        entry = self.entries[number]
        if not isinstance(entry, int):
            return entry
        untouched = Nop(_NIL, 0, 1) if entry == _ADDED_NIL else self._untouched(entry)
        slot = self.entries[number] = Slot(untouched)
        return slot

    def adopt(self, number: int, child: Node) -> None:
        """Put a subtree that was made elsewhere over field `number` in its place."""
        self.entries[number] = Slot(_moved(child, self.data, self._fields[number], self._fields[number + 1]))

    def _untouched(self, number: int) -> Nop:
        return Nop(self.data, self._fields[number], self._fields[number + 1])

    def store(self, out: list[bytes], types: Sequence[FieldType] = ()) -> None:
        out.append(pack_array_head(len(self.entries)))
        at, count = 0, len(self.entries)
        while at < count:
            entry = self.entries[at]
            if isinstance(entry, int):
                at = self._store_run(out, at)
                continue
            if isinstance(entry.node, Scalar):
                out.append(entry.node.pack(types[at] if at < len(types) else FieldType.ANY))
            else:
                entry.node.store(out)
            at += 1

    def _store_run(self, out: list[bytes], at: int) -> int:
        """Untouched fields that are neighbours, in one piece."""
        first = self.entries[at]
        assert isinstance(first, int)
        if first == _ADDED_NIL:
            out.append(_NIL)
            return at + 1
        count = 1
        while at + count < len(self.entries) and self.entries[at + count] == first + count:
            count += 1
        out.append(self.data[self._fields[first] : self._fields[first + count]])
        return at + count

    def apply(self, op: Op, max_size: int) -> None:
        if op.consumed:
            op.next_token()
        if op.token != TokenKind.NUM:
            raise op.refused("can't update an array by a non-numeric index")
        if op.code == "!" or (op.code == "=" and op.field_no >= len(self.entries)):
            self._insert(op, max_size)
        elif op.code == "#" and op.is_terminal:
            self._delete(op)
        else:
            self._adjust(op, len(self.entries))
            _act(op, self.slot(op.field_no), max_size)

    def _adjust(self, op: Op, count: int) -> None:
        """Count a negative number from the end; it must be below `count`."""
        if -count <= op.field_no < 0:
            op.field_no += count
        elif not 0 <= op.field_no < count:
            raise op.no_such_field()

    def _insert(self, op: Op, max_size: int) -> None:
        if not op.is_terminal:
            self._adjust(op, len(self.entries))
            _act(op, self.slot(op.field_no), max_size)
            return
        missing = op.field_no - len(self.entries)
        if missing > 0 and op.for_root:
            # Each nil takes a byte. Tarantool finds out that the tuple is too large after it has made all of them.
            if op.field_no > max_size:
                raise er(Er.MEMTX_MAX_TUPLE_SIZE, op.field_no)
            self.entries += [_ADDED_NIL] * missing
        self._adjust(op, len(self.entries) + 1)
        self.entries.insert(op.field_no, Slot(Nop(op.value, 0, len(op.value))))

    def _delete(self, op: Op) -> None:
        """What is beyond the end is deleted already."""
        if op.field_no >= len(self.entries):
            return
        self._adjust(op, len(self.entries))
        del self.entries[op.field_no : op.field_no + op.count]


@dataclass(slots=True)
class Item:
    """A changed pair (none if `key` is None) and the untouched pairs data[start:end] behind it."""

    key: bytes | None
    slot: Slot
    data: bytes
    start: int
    end: int


class Map:
    """`items`: the one touched last comes first, as it will in the new tuple. `size` counts pairs."""

    __slots__ = ("data", "end", "items", "size", "start")

    def __init__(self, data: bytes, start: int) -> None:
        self.data = data
        self.start = start
        self.end = mp_next(data, start)
        self.size, inside = read_length(data, start)
        self.items = [Item(None, Slot(Nop(data, inside, inside)), data, inside, self.end)] if self.size else []

    def adopt(self, key: bytes, child: Node) -> None:
        """Put a subtree that was made elsewhere over the value of `key` in its place."""
        pair, value = _find_key(self.data, self.start, key)
        after = mp_next(self.data, value)
        self.items[0].end = pair
        moved = _moved(child, self.data, value, after)
        self.items.insert(0, Item(key, Slot(moved), self.data, after, self.end))

    def store(self, out: list[bytes]) -> None:
        out.append(pack_map_head(self.size))
        for item in self.items:
            if item.key is not None:
                out.append(pack_str(item.key))
                _store(item.slot.node, out)
        out += [item.data[item.start : item.end] for item in self.items]

    def apply(self, op: Op, max_size: int) -> None:
        if op.consumed:
            op.next_token()
            if op.token != TokenKind.STR:
                raise op.refused("can't update a map by not a string key")
        item = self._item(op.key)
        if not op.is_terminal or op.is_scalar:
            if item is None:
                raise op.no_such_field()
            _act(op, item.slot, max_size)
        elif op.code == "#":
            self._delete(op, item)
        elif item is None:
            self.size += 1
            new = Nop(op.value, 0, len(op.value))
            self.items.insert(0, Item(op.key, Slot(new), op.value, len(op.value), len(op.value)))
        elif op.code == "!":
            raise op.refused("the key exists already")
        else:
            _act(op, item.slot, max_size)

    def _delete(self, op: Op, item: Item | None) -> None:
        if op.count != 1:
            raise op.refused("can delete only 1 field from a map in a row")
        if item is not None:
            item.key = None
            self.size -= 1

    def _item(self, key: bytes) -> Item | None:
        """The pair with this key; it is taken out of the untouched ones, and so comes first from now on."""
        for item in self.items:
            if item.key == key:
                return item
        for item in self.items:
            found = _find_pair(item.data, item.start, item.end, key)
            if found is not None:
                return self._take(item, key, *found)
        return None

    def _take(self, item: Item, key: bytes, pair: int, value: int) -> Item:
        after = mp_next(item.data, value)
        slot = Slot(Nop(item.data, value, after))
        if pair == item.start and item.key is None:
            item.key, item.slot, item.start = key, slot, after
            return item
        new = Item(key, slot, item.data, after, item.end)
        self.items.insert(0, new)
        item.end = pair
        return new


Node = Nop | Scalar | Array | Map | Bar | Route


def _store(node: Node, out: list[bytes]) -> None:
    if isinstance(node, Scalar):
        out.append(node.pack())
    else:
        node.store(out)


def _moved(node: Node, data: bytes, start: int, end: int) -> Node:
    """A subtree that now stands for data[start:end]."""
    return replace(node, data=data, start=start, end=end) if isinstance(node, Bar | Route) else node


def _act(op: Op, slot: Slot, max_size: int) -> None:
    """Do `op` on the field in `slot`, or hand it further down."""
    if not op.is_terminal:
        op.consumed = True
        _descend(op, slot, max_size)
    elif op.code == "=":
        slot.node = Nop(op.value, 0, len(op.value))
    else:
        node = slot.node
        old = read_scalar(node.data, node.start) if isinstance(node, Nop) else NOTHING
        slot.node = op.compute(node if isinstance(node, Scalar) else old)


def _descend(op: Op, slot: Slot, max_size: int) -> None:
    """xrow_update_op_do_field_*"""
    node = slot.node
    if isinstance(node, Nop):
        slot.node = _bar(op, node)
    elif isinstance(node, Array | Map):
        node.apply(op, max_size)
    elif isinstance(node, Bar):
        _descend(op, _branch(slot, node, op, max_size), max_size)
    elif isinstance(node, Route):
        _descend(op, _next_hop(slot, node, op, max_size), max_size)
    else:
        raise op.no_such_field()


# ---- a change deep inside bytes --------------------------------------------------------------------------


def _go_to_index(data: bytes, at: int, index: int) -> int | None:
    """Offset of an element of an array; or of the value of a whole number, counted from 1, in a map
    (tuple_field_go_to_index)."""
    kind = KIND[data[at]]
    if kind == MpType.ARRAY:
        count, at = read_length(data, at)
        if index >= count:
            return None
        for _ in range(index):
            at = mp_next(data, at)
        return at
    if kind != MpType.MAP:
        return None
    count, at = read_length(data, at)
    for _ in range(count):
        after = mp_next(data, at)
        whole = KIND[data[at]] in (MpType.UINT, MpType.INT)
        if whole and read_scalar(data, at).value == index + 1:
            return after
        at = mp_next(data, after)
    return None


def _find_pair(data: bytes, at: int, end: int, key: bytes) -> tuple[int, int] | None:
    """(offset of the key, of its value) among the pairs data[at:end]."""
    while at < end:
        value = mp_next(data, at)
        if KIND[data[at]] == MpType.STR and read_bytes(data, at)[0] == key:
            return at, value
        at = mp_next(data, value)
    return None


def _find_key(data: bytes, at: int, key: bytes) -> tuple[int, int]:
    found = _go_to_key(data, at, key)
    assert found is not None
    return found


def _go_to_key(data: bytes, at: int, key: bytes) -> tuple[int, int] | None:
    """(offset of the key, of its value) in the map at `at`, if it is one (tuple_field_go_to_key)."""
    if KIND[data[at]] != MpType.MAP:
        return None
    _, inside = read_length(data, at)
    return _find_pair(data, inside, mp_next(data, at), key)


@dataclass(slots=True)
class _Place:
    """Where a path ends."""

    parent: int
    pair: int
    """Offset of the key, where the parent is a map and the last step a string; else -1."""
    point: int
    found: bool
    token: Token


def _locate(op: Op, nop: Nop) -> _Place:
    """Follow the path (xrow_update_bar_locate, _locate_opt). For `=` and `!` the last step may lead to nothing."""
    assert op.path is not None
    place = _Place(nop.start, -1, nop.start, True, Token(TokenKind.END))
    while True:
        token = _next(op)
        if token.kind == TokenKind.END:
            return place
        if token.kind == TokenKind.ANY:
            raise op.bad_path(PathError(op.path.symbols - 1))
        place = _step(nop.data, place.point, token)
        if place.found:
            continue
        if op.code not in "=!" or _next(op).kind != TokenKind.END:
            raise op.no_such_field()
        return place


def _next(op: Op) -> Token:
    assert op.path is not None
    try:
        return op.path.next_token()
    except PathError as error:
        raise op.bad_path(error) from None


def _step(data: bytes, at: int, token: Token) -> _Place:
    if token.kind == TokenKind.NUM:
        point = _go_to_index(data, at, token.num)
        return _Place(at, -1, at if point is None else point, point is not None, token)
    found = _go_to_key(data, at, token.key)
    pair, value = found or (-1, at)
    return _Place(at, pair, value, found is not None, token)


def _bar(op: Op, nop: Nop) -> Bar:
    """Make the first operation inside `nop` a Bar (xrow_update_op_do_nop_*)."""
    assert op.path is not None
    path = op.path.src[op.path.offset :]
    place = _locate(op, nop)
    data = nop.data
    end = mp_next(data, place.point) if place.found else place.point
    bar = Bar(data, nop.start, nop.end, op, path, place.parent, place.point, end)
    if op.code in "=!":
        if not place.found:
            _append(bar, place)
            op.code = "!"
        elif op.code == "!" and KIND[data[place.parent]] == MpType.MAP:
            raise op.refused("the key exists already")
    elif op.code == "#":
        _cut(bar, place)
    else:
        bar.scalar = op.compute(read_scalar(data, place.point))
    return bar


def _append(bar: Bar, place: _Place) -> None:
    """The last step was not there: it is the next element of an array, or a new key of a map."""
    op, kind = bar.op, KIND[bar.data[place.parent]]
    if place.token.kind == TokenKind.NUM:
        if kind != MpType.ARRAY:
            raise op.refused("can not access by index a non-array field")
        if place.token.num > read_length(bar.data, place.parent)[0]:
            raise op.no_such_field()
        bar.point = bar.point_end = mp_next(bar.data, place.parent)
        return
    bar.key = place.token.key
    if kind != MpType.MAP:
        raise op.refused("can not access by key a non-map field")


def _cut(bar: Bar, place: _Place) -> None:
    """How far a deletion reaches."""
    op, data = bar.op, bar.data
    if KIND[data[place.parent]] == MpType.ARRAY:
        count, _ = read_length(data, place.parent)
        op.count = min(op.count, count - place.token.num)
        for _ in range(op.count - 1):
            bar.point_end = mp_next(data, bar.point_end)
        return
    if op.count != 1:
        raise op.refused("can delete only 1 field from a map in a row")
    if place.pair < 0:
        # Tarantool walks off a null pointer here: a number that names a pair of a map can be set, never deleted.
        raise op.refused("can't update a map by not a string key")
    bar.point = place.pair


# ---- operations that share a path ------------------------------------------------------------------------


def _next_hop(slot: Slot, route: Route, op: Op, max_size: int) -> Slot:
    """Follow a route as long as its path is the beginning of the operation's, byte by byte (xrow_update_route_next)."""
    assert op.path is not None
    if op.path.src.startswith(route.path, op.path.offset):
        op.path.offset += len(route.path)
        return route.hop
    return _branch(slot, route, op, max_size)


@dataclass(slots=True)
class _Fork:
    """Where the path of an operation leaves that of a Bar or Route."""

    parent: int
    """Offset of the container where they part."""
    shared: int
    """How many bytes of the old path lead there, and how many include the step after it."""
    taken: int
    old: Token
    new: Token


def _fork(node: Bar | Route, op: Op) -> _Fork:
    lexer = Lexer(node.path)
    parent = node.start
    assert op.path is not None
    while True:
        shared = lexer.offset
        old = lexer.next_token()
        try:
            new = op.path.next_token()
        except PathError as error:
            raise op.bad_path(error) from None
        fork = _Fork(parent, shared, lexer.offset, old, new)
        if old != new or lexer.is_eof or op.path.is_eof:
            return fork
        below = _below(node.data, parent, new)
        if below is None:
            # The old operation inserts what the new one goes through: both are visible in this container.
            return fork
        parent = below


def _below(data: bytes, parent: int, token: Token) -> int | None:
    if token.kind == TokenKind.NUM:
        return _go_to_index(data, parent, token.num)
    found = _go_to_key(data, parent, token.key)
    return None if found is None else found[1]


def _branch(slot: Slot, node: Bar | Route, op: Op, max_size: int) -> Slot:
    """Grow a container where `op` parts from what is there; gives the slot of that container, to which `op` goes next
    (xrow_update_route_branch)."""
    fork = _fork(node, op)
    kind = KIND[node.data[fork.parent]]
    if kind == MpType.ARRAY and fork.new.kind != TokenKind.NUM:
        raise op.refused("can not update array by non-integer index")
    if kind == MpType.MAP and (fork.new.kind, fork.old.kind) != (TokenKind.STR, TokenKind.STR):
        raise op.refused("can not update map by non-string key")
    if kind not in (MpType.ARRAY, MpType.MAP):
        raise op.no_such_field()
    _stand(op, fork.new)
    hop = Slot(_container(node, fork, max_size))
    if fork.shared == 0:
        slot.node = hop.node
        return slot
    slot.node = Route(node.data, node.start, node.end, node.path[: fork.shared], hop)
    return hop


def _stand(op: Op, token: Token) -> None:
    """Let `op` act on this step of the container that it meets next."""
    op.consumed = False
    op.token, op.field_no, op.key = token.kind, token.num, token.key


def _container(node: Bar | Route, fork: _Fork, max_size: int) -> Array | Map:
    """The container at the fork with the old subtree in it."""
    data, old = node.data, fork.old
    container = Array(data, fork.parent) if KIND[data[fork.parent]] == MpType.ARRAY else Map(data, fork.parent)
    rest = node.path[fork.taken :]
    if isinstance(node, Bar) and not rest and not node.op.is_scalar:
        # It changes this very container: do it again, here.
        _stand(node.op, old)
        container.apply(node.op, max_size)
        return container
    child = _shortened(node, rest)
    if isinstance(container, Array):
        container.adopt(old.num, child)
    else:
        container.adopt(old.key, child)
    return container


def _shortened(node: Bar | Route, rest: bytes) -> Node:
    """The old subtree as seen from one step below the fork."""
    if not rest:
        return node.scalar if isinstance(node, Bar) else node.hop.node
    if isinstance(node, Route):
        return Route(node.data, node.start, node.end, rest, node.hop)
    return replace(node, path=rest)

"""Update operations as values: what a request asks for, read from MessagePack (xrow_update_field.c).

The texts of all errors are Tarantool's; each names its field by the path of the request, or by its number from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.errors import BoxError, Er, IllegalParams, MsgPackError, er
from headwater.kernels import mp_next
from headwater.store.update_path import INDEX_BASE, Lexer, PathError, TokenKind
from headwater.store.update_scalar import (
    NotADecimal,
    OverflowOf,
    Scalar,
    ScalarKind,
    add,
    read_scalar,
    read_signed,
    splice,
)
from headwater.wire.constants import MpType
from headwater.wire.mpread import KIND, read_bytes, read_length, read_uint

OPERATIONS_MAX = 4000
"""xrow_update.h, BOX_UPDATE_OP_CNT_MAX"""

_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1

Names = Mapping[str, int]
"""Field names of a format, and their numbers from 0."""


class Op:
    """One operation, and how far it has come on its way down the tuple.

    `code`       the character that names it; `=` becomes `!` where it adds what was not there
    `path`       reads the rest of the path; None if the field was given as a number
    `field_no`   the number in the array where it stands now, from 0; may be negative until that array is met
    `key`        the key in the map where it stands now
    `consumed`   the token above was used by the parent: the next container must read one more
    `for_root`   it changes a field of the tuple itself, not something inside one
    """

    __slots__ = (
        "bits", "code", "consumed", "count", "cut", "field_no", "for_root", "key", "offset", "operand", "paste", "path",
        "token", "value",
    )  # fmt: skip

    def __init__(self, code: str) -> None:
        self.code = code
        self.path: Lexer | None = None
        self.token = TokenKind.NUM
        self.consumed = False
        self.field_no = 0
        self.key = b""
        self.for_root = True
        self.value = b""
        self.count = 0
        self.operand = Scalar(ScalarKind.NONE)
        self.bits = 0
        self.offset = 0
        self.cut = 0
        self.paste = b""

    @property
    def is_terminal(self) -> bool:
        """Does it act on a field of the container where it stands now?"""
        return self.path is None or self.path.is_eof

    @property
    def is_scalar(self) -> bool:
        """It reckons with a value and changes no container."""
        return self.code not in "=!#"

    def next_token(self) -> None:
        """Read one more step of the path."""
        assert self.path is not None
        try:
            token = self.path.next_token()
        except PathError as error:
            raise self.bad_path(error) from None
        if token.kind == TokenKind.END:
            raise self.no_such_field()
        self.consumed = False
        self.token, self.field_no, self.key = token.kind, token.num, token.key

    def compute(self, old: Scalar) -> Scalar:
        """The new value of a field that holds `old`."""
        if self.code in "+-":
            return self._add(old)
        if self.code == ":":
            if old.kind not in (ScalarKind.STR, ScalarKind.BIN):
                raise self.bad_argument("a string or varbinary")
            result = splice(old, self.offset, self.cut, self.paste)
            if result is None:
                raise self.bad_splice()
            return result
        return self._bit(old)

    def _add(self, old: Scalar) -> Scalar:
        if not old.is_number:
            raise self.bad_argument("a number")
        try:
            return add(old, self.operand, self.code == "-")
        except NotADecimal:
            raise self.bad_argument("a number convertible to decimal") from None
        except OverflowOf as error:
            integer = error.kind == ScalarKind.INT
            code = Er.UPDATE_INTEGER_OVERFLOW if integer else Er.UPDATE_DECIMAL_OVERFLOW
            raise er(code, self.code, self.field) from None

    def _bit(self, old: Scalar) -> Scalar:
        value = old.value
        if old.kind != ScalarKind.INT or not isinstance(value, int) or value < 0:
            raise self.bad_argument("a positive integer")
        result = {"&": value & self.bits, "|": value | self.bits, "^": value ^ self.bits}[self.code]
        return Scalar(ScalarKind.INT, result)

    # ---- errors --------------------------------------------------------------------------------------

    @property
    def field(self) -> str:
        """The field in the words of an error (xrow_update_op_field_str)."""
        if self.path is not None:
            return f"'{_text(self.path.src)}'"
        return str(self.field_no + INDEX_BASE if self.field_no >= 0 else self.field_no)

    def no_such_field(self) -> BoxError:
        if self.path is None:
            return er(Er.NO_SUCH_FIELD_NO, self.field_no + (INDEX_BASE if self.field_no >= 0 else 0))
        return er(Er.NO_SUCH_FIELD_NAME, self.field)

    def refused(self, reason: str) -> BoxError:
        return er(Er.UPDATE_FIELD, self.field, reason)

    def bad_path(self, error: PathError) -> BoxError:
        return self.refused(f"invalid JSON in position {error.position}")

    def bad_argument(self, wanted: str) -> BoxError:
        return er(Er.UPDATE_ARG_TYPE, self.code, self.field, wanted)

    def bad_splice(self) -> BoxError:
        return er(Er.UPDATE_SPLICE, self.field, "offset is out of bound")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def read_ops(ops: bytes, names: Names, index_base: int) -> list[Op]:
    """All operations of a request (xrow_update_read_ops)."""
    if not ops or KIND[ops[0]] != MpType.ARRAY or mp_next(ops) != len(ops):
        raise MsgPackError("update operations: expected one array")
    count, at = read_length(ops, 0)
    if count > OPERATIONS_MAX:
        raise IllegalParams("too many operations for update")
    out = []
    for number in range(1, count + 1):
        op, at = _read_op(ops, at, number, names, index_base)
        out.append(op)
    return out


def _read_op(data: bytes, at: int, number: int, names: Names, index_base: int) -> tuple[Op, int]:
    """xrow_update_op_decode"""
    if KIND[data[at]] != MpType.ARRAY:
        raise IllegalParams("update operation must be an array {op,..}")
    count, at = read_length(data, at)
    if count < 1:
        raise IllegalParams("update operation must be an array {op,..}, got empty array")
    if KIND[data[at]] != MpType.STR:
        raise IllegalParams("update operation name must be a string")
    name, at = read_bytes(data, at)
    code = _text(name)
    if code not in _READERS:
        raise er(Er.UNKNOWN_UPDATE_OP, number, f'"{code}"')
    wanted, read_argument = _READERS[code]
    if count != wanted:
        raise er(Er.UNKNOWN_UPDATE_OP, number, f"wrong number of arguments, expected {wanted}, got {count}")
    op = Op(code)
    at = _read_field(op, data, at, names, index_base)
    return op, read_argument(op, data, at, index_base)


def _read_field(op: Op, data: bytes, at: int, names: Names, index_base: int) -> int:
    kind = KIND[data[at]]
    if kind in (MpType.INT, MpType.UINT):
        number, after = _read_int32(op, data, at)
        if number - index_base >= 0:
            op.field_no = number - index_base
        elif number < 0:
            op.field_no = number
        else:
            raise er(Er.NO_SUCH_FIELD_NO, number)
        return after
    if kind != MpType.STR:
        raise IllegalParams("field id must be a number or a string")
    path, after = read_bytes(data, at)
    _read_path(op, path, names)
    return after


def _read_path(op: Op, path: bytes, names: Names) -> None:
    """A name, or a path whose first step is a name or a number."""
    op.path = lexer = Lexer(path)
    if _text(path) in names:
        op.field_no = names[_text(path)]
        lexer.offset = len(path)
        return
    try:
        token = lexer.next_token()
    except PathError as error:
        raise op.bad_path(error) from None
    if token.kind == TokenKind.NUM:
        op.field_no = token.num
    elif token.kind == TokenKind.STR and _text(token.key) in names:
        op.field_no = names[_text(token.key)]
    else:
        raise er(Er.NO_SUCH_FIELD_NAME, _text(path))
    op.for_root = lexer.is_eof


# ---- arguments -----------------------------------------------------------------------------------------


def _read_int32(op: Op, data: bytes, at: int) -> tuple[int, int]:
    kind = KIND[data[at]]
    if kind in (MpType.INT, MpType.UINT):
        value = read_uint(data, at)[0] if kind == MpType.UINT else read_signed(data, at)
        if _INT32_MIN <= value <= _INT32_MAX:
            return value, mp_next(data, at)
    raise op.bad_argument("an integer")


def _read_value(op: Op, data: bytes, at: int, index_base: int) -> int:
    end = mp_next(data, at)
    op.value = data[at:end]
    return end


def _read_count(op: Op, data: bytes, at: int, index_base: int) -> int:
    if KIND[data[at]] != MpType.UINT:
        raise op.bad_argument("a positive integer")
    count, end = read_uint(data, at)
    op.count = count & 0xFFFF_FFFF
    if not op.count:
        raise op.refused("cannot delete 0 fields")
    return end


def _read_operand(op: Op, data: bytes, at: int, index_base: int) -> int:
    op.operand = read_scalar(data, at)
    if not op.operand.is_number:
        raise op.bad_argument("a number")
    return mp_next(data, at)


def _read_bits(op: Op, data: bytes, at: int, index_base: int) -> int:
    if KIND[data[at]] != MpType.UINT:
        raise op.bad_argument("a positive integer")
    op.bits, end = read_uint(data, at)
    return end


def _read_splice(op: Op, data: bytes, at: int, index_base: int) -> int:
    op.offset, at = _read_int32(op, data, at)
    if op.offset >= 0:
        if op.offset < index_base:
            raise op.bad_splice()
        op.offset -= index_base
    op.cut, at = _read_int32(op, data, at)
    if KIND[data[at]] not in (MpType.STR, MpType.BIN):
        raise op.bad_argument("a string or varbinary")
    op.paste, end = read_bytes(data, at)
    return end


Reader = Callable[[Op, bytes, int, int], int]
_READERS: Mapping[str, tuple[int, Reader]] = {
    "=": (3, _read_value),
    "!": (3, _read_value),
    "#": (3, _read_count),
    "+": (3, _read_operand),
    "-": (3, _read_operand),
    "&": (3, _read_bits),
    "|": (3, _read_bits),
    "^": (3, _read_bits),
    ":": (5, _read_splice),
}
"""How many items an operation has, and how its last ones are read."""

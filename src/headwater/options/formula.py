"""Quorums written as a formula of N, the number of registered replicas: `N / 2 + 1`.

Tarantool evaluates them as Lua with a few functions of `math` (box.cc, box_eval_replication_quorum). Ours is a
small arithmetic of its own: numbers, N, Q, + - * / % ^, brackets, and the same functions but `random`, which could
give a different quorum each time.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from functools import lru_cache

_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "abs": abs,
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
    "fmod": math.fmod,
}
_MAX_LENGTH = 1000
_MAX_POWER = 64


class FormulaError(ValueError):
    """The formula cannot be read or has no value; the text says why."""


def evaluate(formula: str, **names: int) -> int:
    """The value with these values of N (and Q), rounded down."""
    if len(formula) > _MAX_LENGTH:
        raise FormulaError(f"a formula of more than {_MAX_LENGTH} characters")
    try:
        value = _value(_parse(formula), names)
        return math.floor(value)
    except FormulaError:
        raise
    except (SyntaxError, RecursionError, MemoryError):
        raise FormulaError(f"Failed to load {formula}: not an arithmetic expression") from None
    except ZeroDivisionError:
        raise FormulaError("division by zero") from None
    except (ArithmeticError, TypeError, ValueError) as error:
        raise FormulaError(str(error)) from None


@lru_cache(maxsize=8)
def _parse(formula: str) -> ast.expr:
    """One formula is asked for many N."""
    return ast.parse(formula.replace("^", "**").strip(), mode="eval").body


def _value(node: ast.expr, names: Mapping[str, int]) -> float:
    match node:
        case ast.Constant(value=bool()):
            raise FormulaError("Expression should return a number")
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Name(id=name):
            raise FormulaError(f"unknown name '{name}'")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _value(left, names), _value(right, names))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"), attr=name), args=args, keywords=[]) if (
            name in _FUNCTIONS
        ):
            return _FUNCTIONS[name](*(_value(arg, names) for arg in args))
    raise FormulaError(f"'{ast.unparse(node)}' is not part of the arithmetic of a quorum")


def _binary(op: ast.operator, left: float, right: float) -> float:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case ast.Mod():
            return left % right
        case ast.Pow() if abs(right) <= _MAX_POWER:
            return float(left**right)
    raise FormulaError("an operator that is not part of the arithmetic of a quorum")

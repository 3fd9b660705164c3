"""Arithmetic of a job file: names, numbers, + - * / // % **, comparisons, a few functions, nothing else."""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping

from assay.errors import InputError, did_you_mean

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
    "log": math.log,
    "log2": math.log2,
    "cbrt": math.cbrt,
    "round": round,
}


def evaluate(text: str, values: Mapping[str, float], *, of: str = "formula") -> float:
    """The value of a formula; raises `InputError` for what is not arithmetic, or a name that is not known."""
    try:
        value = _value(_parsed(text, of), values, f"{of}: {text}")
    except (ZeroDivisionError, OverflowError, ValueError, TypeError) as fault:
        raise InputError(f"{of}: {text} cannot be worked out: {fault}") from None
    if isinstance(value, complex) or not math.isfinite(value):
        raise InputError(f"{of}: {text} is {value}")
    return float(value)


@functools.lru_cache(maxsize=4096)
def _parsed(text: str, of: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise InputError(f"{of}: {text!r} is not arithmetic", fix="for example cells / ranks * 8") from None


def _value(node: ast.expr, values: Mapping[str, float], where: str) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in values:
            raise InputError(f"{where}: unknown name {node.id!r}", fix=did_you_mean(node.id, values))
        return values[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _value(node.left, values, where), _value(node.right, values, where)
        if isinstance(node.op, ast.Pow) and abs(right) > 64:
            raise InputError(f"{where}: a power of {right:g} is too large")
        return _BINARY[type(node.op)](left, right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, values, where)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id not in _FUNCTIONS:
            raise InputError(
                f"{where}: unknown function {node.func.id!r}", fix=did_you_mean(node.func.id, _FUNCTIONS)
            )
        return _FUNCTIONS[node.func.id](*(_value(arg, values, where) for arg in node.args))
    if isinstance(node, ast.IfExp):
        taken = node.body if _value(node.test, values, where) else node.orelse
        return _value(taken, values, where)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = _value(node.left, values, where), _value(node.comparators[0], values, where)
        kinds: dict[type[ast.cmpop], bool] = {
            ast.Lt: left < right,
            ast.LtE: left <= right,
            ast.Gt: left > right,
            ast.GtE: left >= right,
            ast.Eq: left == right,
        }
        if type(node.ops[0]) in kinds:
            return float(kinds[type(node.ops[0])])
    raise InputError(f"{where} holds what is not arithmetic", fix="numbers, names, + - * / ** and functions")

"""Arithmetic on expressions, walked as a syntax tree and never evaluated as Python.

Decimals are fractions until a function makes them floats, so 1 mod 0.1 is 0.
"""

import ast
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any

from pydantic import Field
from simpleeval import (  # type: ignore[import-untyped]
    FunctionNotDefined,
    InvalidExpression,
    NameNotDefined,
    SimpleEval,
)

from podium_functions.errors import closest, invalid, limit_exceeded, tool_error
from podium_functions.written.notation import Ambiguous, python_notation
from podium_functions.written.numerals import rounded

# Below Python's limit of 4300 digits for turning an integer into text.
RESULT_BITS_MAX = 14_000
DECIMALS_MAX = 4_200
FACTORIAL_MAX = 1_500
SIGNIFICANT_DIGITS = 15
Number = int | float | Fraction
HELP = 'Examples: {"expression": "15% of 80"}, {"expression": "sqrt(2,340) * 17"}'


def calculator(
    expression: Annotated[
        str,
        Field(
            description="The arithmetic as written, for example 15% of 80 or (3 + 4) * 2^10.",
            min_length=1,
            max_length=1000,
        ),
    ],
) -> int | float:
    """Value of an arithmetic expression: exact for integers, 15 significant digits otherwise."""
    evaluator = SimpleEval(operators=OPERATORS, functions=FUNCTIONS, names=CONSTANTS)
    evaluator.nodes[ast.Constant] = _constant
    try:
        return _presentable(evaluator.eval(python_notation(expression)))
    except Ambiguous as error:
        raise invalid(f"cannot evaluate {expression!r}: {error}") from error
    except (NameNotDefined, FunctionNotDefined) as error:
        word = str(getattr(error, "name", None) or getattr(error, "func_name", ""))
        meant = closest(word, [*FUNCTIONS, *CONSTANTS])
        hint = f"; did you mean {meant}?" if meant else "."
        raise invalid(f"{word!r} in {expression!r} is not arithmetic{hint} {HELP}") from error
    except (
        *(InvalidExpression, SyntaxError, TypeError, RecursionError, KeyError),
        MemoryError,  # Python's parser, of what is nested too deep.
    ) as error:
        fault = getattr(error, "msg", error)
        raise invalid(
            f"cannot evaluate {expression!r} ({fault}); write numbers, + - * / ^ %, brackets "
            f"and functions such as sqrt, log10, comb. {HELP}"
        ) from error
    except ZeroDivisionError as error:
        raise tool_error(f"{expression!r} divides by zero") from error
    except ValueError as error:
        raise tool_error(f"{expression!r} has no real value: {error}") from error
    except OverflowError as error:
        raise limit_exceeded(f"the value of {expression!r} is too large: {error}") from error


def _constant(node: ast.Constant) -> object:
    exact = isinstance(node.value, float) and math.isfinite(node.value)
    return Fraction(repr(node.value)) if exact else node.value


def _presentable(value: object) -> int | float:
    if isinstance(value, int):
        _bounded(value)
        return value
    if isinstance(value, Fraction):
        value = float(value)
    if isinstance(value, float) and math.isfinite(value):
        return rounded(value, SIGNIFICANT_DIGITS)
    if isinstance(value, float):
        raise OverflowError("no finite number")
    raise TypeError("the expression gives no real number")


def _bounded(value: Number) -> Number:
    if isinstance(value, int) and value.bit_length() > RESULT_BITS_MAX:
        raise OverflowError("more than 4200 digits")
    if isinstance(value, Fraction) and _bits(value) > RESULT_BITS_MAX:
        return float(value)
    return value


def _bits(value: int | Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _divide(dividend: Number, divisor: Number) -> Number:
    if isinstance(dividend, float) or isinstance(divisor, float):
        return dividend / divisor
    return Fraction(dividend) / divisor


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        if base.bit_length() * exponent > RESULT_BITS_MAX and abs(base) > 1:
            raise OverflowError("more than 4200 digits")
        return int(base**exponent)
    if (
        not isinstance(base, float)
        and exponent == int(exponent)
        and _bits(base) * abs(int(exponent)) <= RESULT_BITS_MAX
    ):
        return Fraction(base) ** int(exponent)
    result: Any = float(base) ** float(exponent)
    if isinstance(result, complex):
        raise ValueError("the root of a negative number")
    return float(result)


def _on_numbers(operation: Callable[..., Number]) -> Callable[..., Number]:
    """Python's operators and functions also repeat and format texts, which can fill the memory."""

    def bounded(*operands: object, **named: object) -> Number:
        if not all(isinstance(operand, Number) for operand in (*operands, *named.values())):
            raise TypeError("only numbers can be calculated with")
        return _bounded(operation(*operands, **named))

    return bounded


def _round(number: Number, ndigits: int | None = None) -> Number:
    """Python's own writes ten to the power of any number of digits."""
    if ndigits is not None and abs(ndigits) > DECIMALS_MAX:
        raise TypeError(f"round takes -{DECIMALS_MAX} to {DECIMALS_MAX} decimals: round(2.345, 2)")
    return round(number if isinstance(number, int) else float(number), ndigits)


def _factorial(number: int) -> int:
    if number > FACTORIAL_MAX:
        raise OverflowError(f"factorial takes at most {FACTORIAL_MAX}")
    return math.factorial(number)


def _root(number: Number, degree: Number) -> Number:
    """Returns a root; of a negative number when the degree is odd."""
    sign = -1 if number < 0 and degree % 2 == 1 else 1
    return sign * _power(-number if sign < 0 else number, _divide(1, degree))


def _choose(ways: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def bounded(items: int, chosen: int) -> int:
        if items > FACTORIAL_MAX:
            raise OverflowError(f"at most {FACTORIAL_MAX} items")
        return ways(items, chosen)

    return bounded


OPERATORS = {
    kind: _on_numbers(operation)
    for kind, operation in (
        (ast.Add, operator.add),
        (ast.Sub, operator.sub),
        (ast.Mult, operator.mul),
        (ast.Div, _divide),
        (ast.FloorDiv, operator.floordiv),
        (ast.Mod, operator.mod),
        (ast.Pow, _power),
        (ast.USub, operator.neg),
        (ast.UAdd, operator.pos),
    )
}

_OF_MATH = (
    *("sqrt", "cbrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("floor", "ceil", "gcd", "lcm", "degrees", "radians", "hypot"),
)
_OWN: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "round": _round,
    "min": min,
    "max": max,
    "root": _root,
    "factorial": _factorial,
    "comb": _choose(math.comb),
    "perm": _choose(math.perm),
}
FUNCTIONS = {
    name: _on_numbers(function)
    for name, function in ({name: getattr(math, name) for name in _OF_MATH} | _OWN).items()
}
CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}

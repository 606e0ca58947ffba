from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import factorial
from random import Random

from podium_training.tasks.draft import Draft, decimal_text, solve
from podium_training.tasks.splits import (
    amount,
    decimals,
    drawn,
    plain,
    split_of,
    takes_th,
    whole,
    written,
)
from podium_training.tasks.task import Call, Split

# Of whole numbers; others the calculator rounds to 15.
DIGITS_MAX, ROUNDED_DIGITS_MAX = 24, 14
Numbers = dict[str, Decimal]


@dataclass(frozen=True)
class Sum:
    """A kind's expression over the numbers of its slots."""

    expression: str
    draw: Callable[[Random], Numbers]
    decimals_max: int = 4
    """An answer of more decimals is no answer that people copy, so others are drawn."""


def draw(random: Random, split: Split) -> Draft:
    name = random.choice((*SUMS, *LISTS, "expression"))
    if name == "expression":
        return _expression(random, split)
    return _of_list(name, random, split) if name in LISTS else _sum(name, random, split)


def _sum(name: str, random: Random, split: Split) -> Draft:
    kind = SUMS[name]
    while True:
        numbers = kind.draw(random)
        if any(split_of(each) is not split for each in numbers.values()):
            continue
        if len(set(numbers.values())) < len(numbers):
            continue
        texts = {slot: written(random, each) for slot, each in numbers.items()}
        # Between a function's arguments a comma separates, so none stands between thousands.
        shown = {slot: f"{each:f}" for slot, each in numbers.items()}
        filled = kind.expression.format(**(shown if "," in kind.expression else texts))
        call = Call("calculator", {"expression": filled})
        found = solve(call)
        expected = decimal_text(found)
        if "e" not in repr(found) and _is_copied(expected, kind.decimals_max):
            return Draft(name, texts, "numeric", {"expected": expected}, (call,))


def _is_copied(answer: str, decimals_max: int) -> bool:
    """Returns whether it is exact, and short enough to be copied."""
    places = decimals(Decimal(answer))
    return places <= decimals_max and len(answer) <= (ROUNDED_DIGITS_MAX if places else DIGITS_MAX)


def _of_list(name: str, random: Random, split: Split) -> Draft:
    """Several numbers in a row; the last one makes an average end after few decimals."""
    while True:
        places = random.choice((0, 0, 1, 2))
        count, high = random.randint(3, 6), random.choice((20, 100, 999))
        text = listed([f"{_listed_number(random, split, high, places):f}" for _ in range(count)])
        call = Call("calculator", {"expression": f"{LISTS[name]} of {text}"})
        expected = decimal_text(solve(call))
        if decimals(Decimal(expected)) <= places + 1:
            return Draft(name, {"numbers": text}, "numeric", {"expected": expected}, (call,))


def _listed_number(random: Random, split: Split, high: int, places: int) -> Decimal:
    return drawn(lambda: plain(Decimal(random.randint(1, high)).scaleb(-places)), split)


def listed(members: list[str]) -> str:
    """4, 8 and 15"""
    return f"{', '.join(members[:-1])} and {members[-1]}"


def _expression(random: Random, split: Split) -> Draft:
    while True:
        text = _operand(random, split)
        for _ in range(random.randint(1, 3)):
            text += f" {random.choice(SIGNS)} {_operand(random, split)}"
        if random.random() < BRACKETED and text.count(" ") > 2:
            first, sign, second, rest = text.split(" ", 3)
            text = f"({first} {sign} {second}) {rest}"
        call = Call("calculator", {"expression": text})
        expected = decimal_text(solve(call))
        if _is_copied(expected, SUMS["divide"].decimals_max):
            return Draft(
                "expression", {"expression": text}, "numeric", {"expected": expected}, (call,)
            )


def _operand(random: Random, split: Split) -> str:
    high = random.choice((20, 100, 5000))
    return written(random, drawn(lambda: amount(random, 2, high), split))


SIGNS = ("+", "+", "-", "-", "*", "*", "/", "x", "\u00d7", "\u00f7")
BRACKETED = 0.4
LISTS = {"average": "average", "add_several": "sum"}


def _two(low: int, high: int) -> Callable[[Random], Numbers]:
    return lambda random: {"a": _signed(random, low, high), "b": _signed(random, low, high)}


def _signed(random: Random, low: int, high: int) -> Decimal:
    found = amount(random, low, high)
    return -found if random.random() < 0.1 else found


def _wholes(**ranges: tuple[int, int]) -> Callable[[Random], Numbers]:
    return lambda random: {slot: whole(random, *bounds) for slot, bounds in ranges.items()}


def _amounts(**ranges: tuple[int, int]) -> Callable[[Random], Numbers]:
    return lambda random: {slot: amount(random, *bounds) for slot, bounds in ranges.items()}


def _multiple(over: str, under: str, low: int, high: int) -> Callable[[Random], Numbers]:
    """A number that another goes into, so that dividing ends."""

    def draw_numbers(random: Random) -> Numbers:
        divisor = amount(random, low, high, (0, 0, 1))
        return {over: plain(divisor * amount(random, 2, 900)), under: divisor}

    return draw_numbers


def _larger(large: str, small: str, high: int) -> Callable[[Random], Numbers]:
    def draw_numbers(random: Random) -> Numbers:
        one, other = sorted((whole(random, 3, high), whole(random, 3, high)))
        return {large: other + 1, small: one}

    return draw_numbers


def _changed(sign: int) -> Callable[[Random], Numbers]:
    def draw_numbers(random: Random) -> Numbers:
        old, percent = amount(random, 4, 90_000), _percent(random)
        return {"old": old, "new": plain(old * (100 + sign * percent) / 100)}

    return draw_numbers


def _percent(random: Random) -> Decimal:
    places = random.choice((0, 0, 0, 1))
    return plain(Decimal(random.randint(10**places, 95 * 10**places)).scaleb(-places))


def _bill(random: Random) -> Numbers:
    return {"total": amount(random, 9, 9_000), "people": whole(random, 2, 14)}


def _percentage(slot: str) -> Callable[[Random], Numbers]:
    return lambda random: {
        slot: amount(random, 4, 90_000, (0, 0, 1, 2)),
        "percent": _percent(random),
    }


def _part(random: Random) -> Numbers:
    total = amount(random, 4, 90_000, (0, 0, 0, 1))
    return {"part": plain(total * _percent(random) / 100), "whole": total}


def _root(power: int, high: int) -> Callable[[Random], Numbers]:
    places = (0, 0, 0, 1) if power == 2 else (0,)
    return lambda random: {"a": plain(amount(random, 2, high, places) ** power)}


def _shared(random: Random) -> Numbers:
    factor = whole(random, 2, 60)
    return {"a": factor * whole(random, 2, 60), "b": factor * whole(random, 2, 60)}


def _choice(random: Random) -> Numbers:
    return {"many": Decimal(random.randint(8, 99)), "few": Decimal(random.randint(2, 7))}


def _interest(random: Random) -> Numbers:
    return {
        "a": whole(random, 50, 90_000),
        "percent": amount(random, 1, 12, (0, 1, 1)),
        "years": Decimal(random.randint(2, 40)),
    }


def _exponent(random: Random, high: int) -> Decimal:
    """Phrasings write it as 24th, too."""
    return Decimal(random.choice([n for n in range(4, high + 1) if takes_th(n)]))


def _orders(random: Random) -> Numbers:
    return {"n": Decimal(random.choice([n for n in range(3, 26) if factorial(n) < 10**DIGITS_MAX]))}


SUMS = {
    "product": Sum("{a} * {b}", _wholes(a=(11, 90_000), b=(3, 9_000))),
    "product_plus": Sum("{a} * {b} + {c}", _wholes(a=(11, 9_000), b=(3, 900), c=(10, 90_000))),
    "square_minus": Sum("{a}^2 - {b}", _wholes(a=(11, 9_000), b=(3, 120))),
    "combinations": Sum("{many} choose {few}", _choice),
    "compound_interest": Sum("round({a} * (1 + {percent}/100)^{years}, 2)", _interest),
    "power_remainder": Sum(
        "{a}^{exponent} mod {b}",
        lambda random: {
            "a": whole(random, 2, 9_000),
            "exponent": _exponent(random, 90),
            "b": whole(random, 7, 990),
        },
    ),
    "remainder": Sum("{a} mod {b}", _wholes(a=(500, 90_000), b=(3, 490))),
    "add": Sum("{a} + {b}", _two(1, 90_000)),
    "subtract": Sum("{a} - {b}", _amounts(a=(2, 90_000), b=(1, 60_000))),
    "times": Sum("{a} * {b}", _two(2, 9_000)),
    "divide": Sum("{a} / {b}", _multiple("a", "b", 2, 900)),
    "divide_rounded": Sum("round({a} / {b}, 2)", _amounts(a=(40, 90_000), b=(3, 900))),
    "percent_of": Sum("{percent}% of {total}", _percentage("total")),
    "percent_share": Sum("100 * {part} / {whole}", _part),
    "percent_increase": Sum("100 * ({new} - {old}) / {old}", _changed(1), 2),
    "percent_decrease": Sum("100 * ({old} - {new}) / {old}", _changed(-1), 2),
    "add_percent": Sum("{price} increased by {percent}%", _percentage("price"), 3),
    "discount": Sum("{percent}% off {price}", _percentage("price"), 3),
    "share_bill": Sum("{total} / {people}", _bill, 2),
    "speed": Sum("{distance} / {time}", _multiple("distance", "time", 2, 14), 2),
    "leftover": Sum("{have} - {gone}", _larger("have", "gone", 90_000)),
    "altogether": Sum("{first} + {second}", _wholes(first=(3, 90_000), second=(3, 90_000))),
    "power": Sum(
        "{a}^{n}",
        lambda random: {"a": amount(random, 2, 60, (0, 0, 0, 1)), "n": _exponent(random, 14)},
        9,
    ),
    "square_root": Sum("square root of {a}", _root(2, 3_000)),
    "cube_root": Sum("cube root of {a}", _root(3, 300)),
    "factorial": Sum("{n}!", _orders),
    "common_divisor": Sum("gcd({a}, {b})", _shared),
    "common_multiple": Sum("lcm({a}, {b})", _shared),
    "circle_area": Sum("round(pi * {radius}^2, 2)", _amounts(radius=(1, 400))),
}

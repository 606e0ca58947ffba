"""Sums a calculator does exactly."""

from random import Random

from podium_training.tasks.draft import Draft, solve
from podium_training.tasks.splits import number
from podium_training.tasks.task import Call, Split

EXPRESSIONS = {
    "product": "{a} * {b}",
    "product_plus": "{a} * {b} + {c}",
    "square_minus": "{a} ** 2 - {b}",
    "combinations": "comb({many}, {few})",
    "compound_interest": "round({a} * {growth} ** {years}, 2)",
    "power_remainder": "{a} ** {exponent} % {b}",
    "remainder": "{a} % {b}",
}


def draw(random: Random, split: Split) -> Draft:
    """An expression and its exact answer; of interest, to the cent."""
    kind, expression = random.choice(list(EXPRESSIONS.items()))
    numbers: dict[str, float] = {
        "a": number(random, split, 1000, 9999),
        "b": number(random, split, 12, 999),
    }
    numbers["c"] = number(random, split, 100, 9999)
    numbers |= {"many": number(random, split, 20, 99), "few": number(random, split, 2, 9)}
    tenths = number(random, split, 11, 89)
    numbers["years"] = numbers["exponent"] = number(random, split, 10, 40)
    numbers |= {"percent": tenths / 10}
    numbers["growth"] = (1000 + tenths) / 1000
    call = Call("calculator", {"expression": expression.format(**numbers)})
    return Draft(kind, numbers, "numeric", {"expected": str(solve(call))}, (call,))

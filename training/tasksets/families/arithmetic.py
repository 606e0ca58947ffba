"""Sums a calculator does exactly."""

from random import Random

from tasksets.draft import Draft, Wordings, solve
from tasksets.splits import number
from tasksets.task import Call, Split

KINDS = {
    "{a} * {b}": Wordings(
        ("What is {a} multiplied by {b}?", "Multiply {a} by {b}.", "Compute {a} times {b}."),
        ("Find the product of {a} and {b}.", "{a} boxes hold {b} screws each. How many in all?"),
    ),
    "{a} * {b} + {c}": Wordings(
        ("Multiply {a} by {b}, then add {c}.", "What is {a} times {b} plus {c}?"),
        ("Add {c} to the product of {a} and {b}. What do you get?",),
    ),
    "{a} ** 2 - {b}": Wordings(
        ("What is the square of {a} minus {b}?", "Square {a} and subtract {b}."),
        ("From {a} times itself take away {b}. What remains?",),
    ),
    "{a} % {b}": Wordings(
        ("What is the remainder of {a} divided by {b}?", "Divide {a} by {b}: what remains?"),
        ("{a} eggs are packed in trays of {b}. How many are left over?",),
    ),
}


def draw(random: Random, split: Split) -> Draft:
    """Whole numbers, and a whole number as the answer."""
    expression, wordings = random.choice(list(KINDS.items()))
    numbers = {"a": number(random, split, 1000, 9999), "b": number(random, split, 12, 999)}
    numbers["c"] = number(random, split, 100, 9999)
    call = Call("calculator", {"expression": expression.format(**numbers)})
    return Draft(wordings, numbers, "numeric", {"expected": str(solve(call))}, (call,))

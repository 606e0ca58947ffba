"""Arithmetic as people write it, in Python's notation: "17% of 2,340" becomes "(17 * 2340 / 100)".

Python's own notation passes through as it is. "of" takes the number, power or bracket right behind
it, so "10% of 50 + 3" is 8. What has two readings raises Ambiguous, which shows how to write each.
"""

import re
from collections import deque
from itertools import pairwise
from keyword import iskeyword

from podium_functions.written.numerals import (
    NUMBER,
    SCALES,
    spelled_ordinals,
    spelled_out,
    without_separators,
)


class Ambiguous(ValueError):
    pass


SIGNS = str.maketrans(
    {"\u03c0": " pi ", "\u221a": " sqrt_of ", "\u221b": " cbrt_of ", "^": " ** "}
    | dict.fromkeys("\u2212\u2013\u2014", "-")
    | dict.fromkeys("\u00d7\u2715\u2716\u00b7\u22c5\u2219", " * ")
    | dict.fromkeys("\u00f7\u2215\u2044", " / ")
)
RAISED = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
LOWERED = str.maketrans(RAISED, "0123456789")
PHRASES = tuple(
    (re.compile(phrase), notation)
    for phrase, notation in (
        (
            r"^(?:please )?(?:what(?: is|'s|\u2019s)|how much (?:is|are)|calculate|compute|evaluate"
            r"|work out|find)\b",
            "",
        ),
        (r"(?:\b(?:equals?|is)\b|[=?:.\s])+$", ""),
        (r"\bthe\b|\b(?:value|result|number) of\b", " "),
        (r"\bper ?cent(?:age)?\b", "%"),
        (r"(.+) is what % of (.+)", r"100 * (\1) / (\2)"),
        (r"what % of (.+) is (.+)", r"100 * (\2) / (\1)"),
        (r"remainder (?:of|when) (.+?) (?:is )?divided by ([\w.,]+|\(.+\))", r"(\1) mod (\2)"),
        (r"% increase from (.+) to (.+)", r"100 * ((\2) - (\1)) / (\1)"),
        (r"% decrease from (.+) to (.+)", r"100 * ((\1) - (\2)) / (\1)"),
        (r"^multiply (.+) (?:by|and|with) (.+)$", r"(\1) * (\2)"),
        (r"^divide (.+) by (.+)$", r"(\1) / (\2)"),
        (r"^add (.+) (?:to|and) (.+)$", r"(\1) + (\2)"),
        (r"^subtract (.+) from (.+)$", r"(\2) - (\1)"),
        (r"\b(?:raised )?to\s+power(?: of)?\b|\braised to(?!\s+\d+(?:st|nd|rd|th))\b", " ** "),
        (r"\b(?:raised )?to\s+(\d+)(?:st|nd|rd|th)(?: power)?\b", r" ** \1 "),
        (r"\bsquared\b", " ** 2 "),
        (r"\bcubed\b", " ** 3 "),
        (r"\b(?:multiplied by|times)\b", " * "),
        (r"\bdivided by\b", " / "),
        (r"\b(?:plus|added to)\b", " + "),
        (r"\b(?:minus|negative)\b", " - "),
        (r"\bmodulo\b", " mod "),
        (r"\bsquare root of\b|\bsqrt of\b", " sqrt_of "),
        (r"\bcube root of\b", " cbrt_of "),
        (r"\b(\d+)(?:st|nd|rd|th) root of\b", r" root_of \1 "),
        (r"\b(square|cube|factorial|product|sum|average|mean) of\b", r" \1_of "),
        (r"\bfactorial\b(?!\s*\()", "!"),
        (r"\b(?:a )?half of\b", " (1 / 2) of "),
        (r"\bquarter(?=s?\b)", "4th"),
        (r"\ba (\d+)th of\b", r" (1 / \1) of "),
        (r"\b(\d+) (\d+)ths? of\b", r" (\1 / \2) of "),
        (r"\b(?:twice|double)\b", " twice_of "),
        (r"\b(increased|decreased|reduced) by\b", r" \1 "),
        # A letter between two numbers, but not that of 0x1f.
        (r"(?<=[\d)!%])\s*(?<!\b0)x\s*(?=[\d(.-])", " * "),
    )
)
CURRENCIES = tuple(
    re.compile(mark)
    for mark in (
        r"(?:\bus)?\$|\bdollars?\b|\busd\b",
        r"\u20ac|\beuros?\b|\beur\b",
        r"\u00a3|\bpounds?\b|\bgbp\b",
        r"\u00a5|\byen\b|\bjpy\b",
        r"\u20b9|\brupees?\b|\binr\b",
    )
)
# A % between two numbers is Python's remainder, every other one a percentage.
TIGHT_PERCENT = re.compile(r"(?<=[\d)])%\s+(?=[\d(.])")
REMAINDER = re.compile(
    r"%\s*(?=[\d(.]|(?!of\b|off\b|mod\b|choose\b)[a-z])|(?<=\s)%\s*(?=[-+][\d(])"
)
QUOTED = re.compile(r"""^\s*(["'`\u201c])(.*)["'`\u201d]\s*$""", re.DOTALL)
SEVERAL = re.compile(r";\s*\S|\d\s*\n\s*\d")
TOKEN = re.compile(rf"0[xbo][0-9a-f]+|{NUMBER}|[a-z_]\w*|\*\*|//|[<>=!]=|\S", re.ASCII)

PREFIXES = {
    "sqrt_of": "sqrt({})",
    "cbrt_of": "cbrt({})",
    "square_of": "({} ** 2)",
    "cube_of": "({} ** 3)",
    "factorial_of": "factorial({})",
    "twice_of": "(2 * {})",
}
LISTS = {"product_of": " * ", "sum_of": " + ", "average_of": " + ", "mean_of": " + "}
CHANGES = {"increased": "+", "decreased": "-", "reduced": "-"}
WORDS = {"%", "of", "off", "choose", "root_of", *PREFIXES, *LISTS, *CHANGES, *SCALES}
# Their brackets hold one number, so a comma in it groups thousands.
ONE_OR_TWO = {"log", "round"}
OF_SEVERAL = {"log", "gcd", "lcm", "hypot", "round", "min", "max", "comb", "perm", "root"}


def python_notation(expression: str) -> str:
    """The same expression for Python. Raises Ambiguous, and SyntaxError for unequal brackets."""
    expression = QUOTED.sub(r"\2", expression)
    if SEVERAL.search(expression):
        raise Ambiguous("it is several calculations; write one, or ask for each in turn")
    text = spelled_out(spelled_ordinals(expression.casefold().translate(SIGNS)))
    text = re.sub(f"[{RAISED}]+", lambda raised: f" ** {raised[0].translate(LOWERED)} ", text)
    text = _without_currency(text)
    for phrase, notation in PHRASES:
        text = phrase.sub(notation, " ".join(text.split()))
    if unclear := TIGHT_PERCENT.search(text):
        percent, other = text[: unclear.start()].split()[-1], text[unclear.end() :].split()[0]
        raise Ambiguous(
            f"write {percent}% of {other} for a part or {percent} mod {other} for a remainder"
        )
    tokens = deque(TOKEN.findall(REMAINDER.sub(" mod ", text)))
    written = _bracket(tokens, "")
    if tokens:
        raise SyntaxError("a closing bracket has no opening one")
    return written


def _without_currency(text: str) -> str:
    used = [mark for mark in CURRENCIES if mark.search(text)]
    if len(used) > 1:
        raise Ambiguous("it mixes currencies, and there are no exchange rates; write one of them")
    return used[0].sub(" ", text) if used else text


def _bracket(tokens: deque[str], function: str) -> str:
    items: list[str] = []
    while tokens and tokens[0] != ")":
        item = tokens.popleft()
        if item != "(":
            items.append(item)
            continue
        called = items and items[-1].isidentifier() and _is_operand(items[-1])
        name = items.pop() if called else ""
        items.append(f"{name}({_bracket(tokens, name)})")
        if not tokens:
            raise SyntaxError("a bracket is not closed")
        tokens.popleft()
    return _joined(_ungrouped(items, function), function)


def _ungrouped(items: list[str], function: str) -> list[str]:
    """Removes separators of thousands; a comma between arguments stays."""
    if function not in OF_SEVERAL:
        return [without_separators(item) if item[0].isdigit() else item for item in items]
    several = "," in items or function in ONE_OR_TWO
    if several and any("," in item and item[0].isdigit() for item in items):
        inside = " ".join(items)
        raise Ambiguous(f"{function}({inside}) mixes commas; write its numbers without separators")
    return items


def _joined(items: list[str], function: str) -> str:
    if words := [item for item in items if iskeyword(item) and item != "and"]:
        raise SyntaxError(f'"{words[0]}" is not arithmetic')
    _fold_postfixes(items)
    _fold_powers(items)
    # From the right, so that "of" finds what follows it already folded.
    for place in range(len(items) - 1, -1, -1):
        if place < len(items) and items[place] in WORDS:
            _fold(items, place)
    if not function and "," in items:
        raise Ambiguous(
            "a comma stands neither between thousands nor arguments; write 3.5, not 3,5"
        )
    if "and" in items:
        raise Ambiguous('"and" joins no numbers; write +, or "sum of 5 and 7"')
    for left, right in pairwise(items):
        if _is_operand(left) and _is_operand(right):
            raise SyntaxError(f"{left} and {right} have no sign between them, such as *")
    return " ".join("%" if item == "mod" else item for item in items)


def _fold_postfixes(items: list[str]) -> None:
    place = 1
    while place < len(items):
        item, before = items[place], items[place - 1]
        if item in SCALES and _is_operand(before):
            items[place - 1 : place + 1] = [f"({before} * {SCALES[item]})"]
        elif items[place : place + 2] == ["!", "!"]:
            raise Ambiguous("!! has two meanings; write factorial(factorial(3)) or the product")
        elif item == "!" and _is_operand(before):
            items[place - 1 : place + 1] = [f"factorial({before})"]
        else:
            place += 1


def _fold_powers(items: list[str]) -> None:
    for place in range(len(items) - 2, 0, -1):
        if items[place] == "**" and _is_operand(items[place - 1]) and _is_operand(items[place + 1]):
            items[place - 1 : place + 2] = [f"({items[place - 1]} ** {items[place + 1]})"]


def _fold(items: list[str], place: int) -> None:
    word = items[place]
    if word in PREFIXES:
        _fold_sign(items, place + 1)
        items[place : place + 2] = [PREFIXES[word].format(_operand(items, place + 1))]
    elif word in LISTS:
        _fold_list(items, place)
    elif word == "root_of":
        degree, number = _operand(items, place + 1), _operand(items, place + 2)
        items[place : place + 3] = [f"root({number}, {degree})"]
    elif word == "choose":
        many, few = _operand(items, place - 1), _operand(items, place + 1)
        items[place - 1 : place + 2] = [f"comb({many}, {few})"]
    elif word == "%":
        _fold_percentage(items, place)
    elif word == "of" and items[place - 1 : place] == ["(1 / 2)"]:
        _fold_sign(items, place + 1)
        items[place - 1 : place + 2] = [f"((1 / 2) * {_operand(items, place + 1)})"]
    elif word == "of" and items[place - 1 : place] != ["%"]:
        items[place] = "*"
    elif word in CHANGES:
        items[place] = CHANGES[word]


def _fold_sign(items: list[str], place: int) -> None:
    if items[place : place + 1] == ["-"]:
        items[place : place + 2] = [f"(-{_operand(items, place + 1)})"]


def _fold_list(items: list[str], place: int) -> None:
    _fold_sign(items, place + 1)
    numbers = [_operand(items, place + 1)]
    end = place + 2
    while end < len(items) and items[end] in (",", "and"):
        end += 1 + (items[end : end + 2] == [",", "and"])
        _fold_sign(items, end)
        numbers.append(_operand(items, end))
        end += 1
    total = LISTS[items[place]].join(numbers)
    divided = f" / {len(numbers)}" if items[place] in ("average_of", "mean_of") else ""
    ends = end == len(items) and numbers[0][0] != "("
    if len(numbers) == 1 and (divided or ends):
        raise Ambiguous(f'{numbers[0]} is one number; write a space behind commas: "sum of 5, 7"')
    items[place:end] = [f"(({total}){divided})"]


def _fold_percentage(items: list[str], place: int) -> None:
    start, percent = place - 1, _operand(items, place - 1)
    follower = items[place + 1] if place + 1 < len(items) else ""
    leader = items[start - 1] if start else ""
    if follower in ("of", "off"):
        number = _operand(items, place + 2)
        share = percent if follower == "of" else f"(100 - {percent})"
        items[start : place + 3] = [f"({share} * {number} / 100)"]
    elif leader in CHANGES:
        number = _operand(items, start - 2)
        items[start - 2 : place + 1] = [f"({number} * (100 {CHANGES[leader]} {percent}) / 100)"]
    elif leader in ("+", "-") and start > 1 and _is_operand(items[start - 2]):
        if follower not in ("*", "/"):
            number = items[start - 2]
            raise Ambiguous(
                f"write {number} {leader} {percent}% of {number} for a part of it "
                f"or {number} {leader} {percent}/100 for the fraction"
            )
        items[start : place + 1] = [f"({percent} / 100)"]
    elif follower in ("+", "-") and leader not in ("*", "/"):
        raise Ambiguous(f"write {percent}/100 {follower} ... for the fraction")
    else:
        items[start : place + 1] = [f"({percent} / 100)"]


def _operand(items: list[str], place: int) -> str:
    if 0 <= place < len(items) and _is_operand(items[place]):
        return items[place]
    raise SyntaxError("a number is missing")


def _is_operand(item: str) -> bool:
    return item[0] in "(." or (item[0].isalnum() and item not in WORDS and item != "mod")

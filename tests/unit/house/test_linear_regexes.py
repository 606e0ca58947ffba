"""No regular expression of a service takes longer than linear time, whatever its text.

For each pattern texts are made of what its own parts match, repeated. One that reads them once
takes milliseconds; one that goes back over them is stopped by a timer of this process's own work.
"""

import ast
import importlib
import pkgutil
import re
import signal
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

# Modules that typeshed does not state, which mypy finds in some runs only.
sre: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")
ROOT = Path(__file__).resolve().parents[3]
PACKAGES = (
    *("gateway", "episodes", "orchestrator_inference", "tool_registry", "tool_adapters"),
    *("cost_ledger", "podium_functions", "podium_kit"),
)
METHODS = {"search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
CHARACTERS = 40_000
WORK_S = 0.25
SEPARATORS = ("", " ", "-", "\n", ".")
SAMPLES = {
    sre.CATEGORY_DIGIT: "0",
    sre.CATEGORY_NOT_DIGIT: "x",
    sre.CATEGORY_SPACE: " ",
    sre.CATEGORY_NOT_SPACE: "x",
    sre.CATEGORY_WORD: "a0",
    sre.CATEGORY_NOT_WORD: "-",
}
# Their texts are arguments of at most so many characters.
BOUNDED = {"podium_functions": 1_000}
# Some of them do not match, whatever the pattern.
ENDINGS = ("\0", " \u20ac")
Found = tuple[str, str, str, int]


class TooMuchWork(Exception):
    pass


def modules() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        [folder] = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages([folder], f"{package}."):
            if ".migrations" not in module.name and not module.name.endswith("__main__"):
                path = Path(folder, *module.name.split(".")[1:])
                yield module.name, path / "__init__.py" if module.ispkg else path.with_suffix(".py")


def compiled(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list | frozenset | dict) and depth < 3:
        for each in value.values() if isinstance(value, dict) else value:
            yield from compiled(each, depth + 1)


def patterns() -> Iterator[Found]:
    """Module, pattern, method and flags of each that a service uses."""
    for name, path in modules():
        source = path.read_text()
        if "import re\n" not in source and "from re import" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called, method = node.func.value, node.func.attr
                literal = node.args[0] if node.args else None
                if (
                    isinstance(called, ast.Name)
                    and called.id == "re"
                    and method in METHODS
                    and isinstance(literal, ast.Constant)
                ):
                    flags = re.IGNORECASE if "IGNORECASE" in ast.unparse(node) else 0
                    yield name, str(literal.value), method, int(flags)
        for variable, value in vars(importlib.import_module(name)).items():
            used = set(re.findall(rf"\b{variable}\.(\w+)\(", source)) & METHODS
            for pattern in compiled(value):
                text = pattern.pattern
                text = text.decode("latin-1") if isinstance(text, bytes) else text
                for method in used or {"search"}:
                    yield name, text, method, pattern.flags & ~int(re.UNICODE)


def samples(tree: Any) -> list[str]:
    found = [""]
    for kind, value in tree:
        found = [text + part for text in found for part in _parts(kind, value)][:6]
    return found


def _parts(kind: Any, value: Any) -> list[str]:
    match kind:
        case sre.LITERAL:
            return [chr(value)]
        case sre.NOT_LITERAL | sre.ANY:
            return ["a"]
        case sre.IN:
            return _members(value)
        case sre.BRANCH:
            return [text for branch in value[1] for text in samples(branch)[:1]][:4]
        case sre.SUBPATTERN:
            return samples(value[-1])
        case sre.ATOMIC_GROUP:
            return samples(value)
        case sre.MAX_REPEAT | sre.MIN_REPEAT | sre.POSSESSIVE_REPEAT:
            return [text * max(1, min(value[0], 20)) for text in samples(value[2])]
    return [""]


def _members(members: Any) -> list[str]:
    negated = members[0][0] is sre.NEGATE
    found: list[str] = []
    for kind, value in members:
        if kind is sre.LITERAL:
            found.append(chr(value))
        elif kind is sre.RANGE:
            found.append(chr(value[0]))
        elif kind is sre.CATEGORY:
            found += SAMPLES[value]
    if negated:
        return [each for each in "a -0" if each not in found][:2] or ["\u20ac"]
    return [found[0], *found[-2:]]


def pumps(tree: Any) -> set[str]:
    """The parts that a slow text may repeat: each part, and the sequences up to each."""
    found: set[str] = set()
    for end in range(1, len(tree) + 1):
        found |= set(samples(tree[:end])) | set(samples(tree[end - 1 : end]))
    for kind, value in tree:
        if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            found |= pumps(value[2])
        elif kind is sre.SUBPATTERN:
            found |= pumps(value[-1])
        elif kind is sre.BRANCH:
            for branch in value[1]:
                found |= pumps(branch)
    return {pump for pump in found if pump}


def texts(pattern: str, flags: int, characters: int) -> Iterator[str]:
    for pump in sorted(pumps(parser.parse(pattern, flags)))[:60]:
        for separator in SEPARATORS:
            unit = pump + separator
            # Few repetitions first: they are enough for what is exponential.
            for length, ending in product((60, characters), ENDINGS):
                yield unit * (length // len(unit)) + ending


def slow_text(pattern: str, method: str, flags: int, characters: int) -> str:
    expression = re.compile(pattern, flags)
    slow = (text for text in texts(pattern, flags, characters) if _slow(expression, method, text))
    return next(slow, "")[:40]


def _slow(expression: re.Pattern[str], method: str, text: str) -> bool:
    # The timer may still fire while it is being stopped: the outer clause sees that, too.
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, WORK_S)
        try:
            _use(expression, method, text)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except TooMuchWork:
        return True
    return False


def _use(expression: re.Pattern[str], method: str, text: str) -> None:
    if method in ("search", "match", "fullmatch"):
        getattr(expression, method)(text)
    else:
        for _ in expression.finditer(text):
            pass


def _stop(*_: object) -> None:
    raise TooMuchWork


@pytest.fixture(autouse=True)
def timer() -> Iterator[None]:
    before = signal.signal(signal.SIGVTALRM, _stop)
    yield
    signal.signal(signal.SIGVTALRM, before)


def test_every_pattern_of_a_service_is_read_in_linear_time() -> None:
    slow = {}
    for module, pattern, method, flags in dict.fromkeys(patterns()):
        bounds = (BOUNDED[each] for each in BOUNDED if module.startswith(each))
        characters = next(bounds, CHARACTERS)
        if text := slow_text(pattern, method, flags, characters):
            slow[module, pattern, method] = text
    assert slow == {}


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"\beyJ[\w-]+\.[\w-]+", "sub"),
        (r"(a+)+$", "match"),
        (r"\s+$", "search"),
        (r"<b>(.*?)</b>", "findall"),
        (r"(\w+\s?)*:", "fullmatch"),
    ],
)
def test_a_slow_text_is_found_for_what_has_one(pattern: str, method: str) -> None:
    assert slow_text(pattern, method, 0, CHARACTERS)

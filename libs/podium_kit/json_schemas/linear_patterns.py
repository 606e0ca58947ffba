"""Patterns of JSON Schemas in RE2, which reads a text once.

A schema is a stranger's: Python's own engine takes hours over `^(a+)+$`, in a process that
serves every tenant. jsonschema cannot be given another engine yet (its issue 1142), and the
MCP client checks results with it out of our sight, so its modules get one here.
"""

from functools import lru_cache
from typing import Any

import re2
from jsonschema import ValidationError, _keywords, _legacy_keywords, _utils

# A compiled pattern may take that much; no honest one does.
PATTERN_BYTES_MAX = 1024 * 1024
PATTERNS_KEPT = 512
# Instructions that the patterns of one schema are compiled to, in about 0.2 s; one that does not
# compile counts as what it took to find out.
INSTRUCTIONS_MAX = 500_000
INSTRUCTIONS_OF_A_FAILURE = 20_000
DIALECT = "patterns are those of RE2, without lookaround and backreferences"


class UnsupportedPattern(ValidationError):
    """A pattern that cannot be matched in linear time."""


class LinearPatterns:
    """The part of Python's `re` that jsonschema uses."""

    @staticmethod
    def search(pattern: str, text: str) -> bool:
        # JSON can write half of a surrogate pair.
        return bool(compiled(pattern).search(text.encode(errors="surrogatepass")))


def use_linear_patterns() -> None:
    for module in (_keywords, _legacy_keywords, _utils):
        if "re" not in vars(module):
            raise ImportError(f"{module.__name__} finds patterns in another way than by re")
        vars(module)["re"] = LinearPatterns


class PatternBudget:
    """Compiles the patterns of one schema, each once and as many as its budget covers."""

    def __init__(self) -> None:
        self._remaining = INSTRUCTIONS_MAX
        self._problems: dict[str, str] = {}

    def check(self, pattern: str) -> None:
        if pattern not in self._problems:
            self._problems[pattern] = self._problem(pattern)
        if problem := self._problems[pattern]:
            raise UnsupportedPattern(problem)

    def _problem(self, pattern: str) -> str:
        if self._remaining <= 0:
            return "the patterns of the schema are too large together; state fewer or shorter ones"
        try:
            self._remaining -= compiled(pattern).programsize
        except UnsupportedPattern as error:
            self._remaining -= INSTRUCTIONS_OF_A_FAILURE
            return error.message
        return ""


@lru_cache(PATTERNS_KEPT)
def compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0]
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else "half a character"
        raise UnsupportedPattern(f"{words[:100]}; {DIALECT}") from error

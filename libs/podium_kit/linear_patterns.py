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
DIALECT = "patterns are those of RE2, without lookaround and backreferences"


class UnsupportedPattern(ValidationError):
    """A pattern that cannot be matched in linear time."""


class LinearPatterns:
    """The part of Python's `re` that jsonschema uses."""

    @staticmethod
    def search(pattern: str, text: str) -> bool:
        """Raises UnsupportedPattern."""
        # JSON can write half of a surrogate pair.
        return bool(compiled(pattern).search(text.encode(errors="surrogatepass")))


def use_linear_patterns() -> None:
    """For every validator of this process."""
    for module in (_keywords, _legacy_keywords, _utils):
        if "re" not in vars(module):
            raise ImportError(f"{module.__name__} finds patterns in another way than by re")
        vars(module)["re"] = LinearPatterns


@lru_cache(PATTERNS_KEPT)
def compiled(pattern: str) -> Any:
    """Raises UnsupportedPattern."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0]
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else "half a character"
        raise UnsupportedPattern(f"{words[:100]}; {DIALECT}") from error

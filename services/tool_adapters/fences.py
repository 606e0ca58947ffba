"""Code as models write it: in a Markdown fence, or between backticks."""

import re

FENCED = re.compile(r"\s*```[\w+-]*[ \t]*\n(.*?)\n?\s*```\s*", re.DOTALL)
QUOTED = re.compile(r"\s*`([^`\n]+)`\s*")


def unfenced(code: str) -> str:
    """The code alone; a text without a fence around it stays as it is."""
    fence = FENCED.fullmatch(code) or QUOTED.fullmatch(code)
    return fence[1] if fence else code

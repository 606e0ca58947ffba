"""Code as models write it: in a Markdown fence, or between backticks."""

import re

# Of a text without space around it. No two parts match the same space: a model that writes much of
# it would else keep everybody's calls waiting, for the time grows with its square.
FENCED = re.compile(r"```[\w+-]*[ \t]*\n(.*)```", re.DOTALL)
QUOTED = re.compile(r"`([^`\n]+)`")


def unfenced(code: str) -> str:
    """The code alone; a text without a fence around it stays as it is."""
    text = code.strip()
    if fence := FENCED.fullmatch(text):
        return fence[1].rstrip()
    quoted = QUOTED.fullmatch(text)
    return quoted[1] if quoted else code

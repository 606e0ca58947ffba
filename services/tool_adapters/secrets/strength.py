import re

from tool_adapters.secrets.errors import WeakSecret

CHARACTERS_MIN = 8
DISTINCT_MIN = 5
# From this length on also a text of one kind of characters is rare enough.
CHARACTERS_OF_RARE_TEXT = 16
_ONE_WORD = re.compile(r"[^A-Za-z]*(?:[a-z]+|[A-Z]+|[A-Z][a-z]+)?[^A-Za-z]*")


def require_strong(value: str) -> None:
    value = value.strip()
    if len(value) < CHARACTERS_MIN:
        raise WeakSecret(f"it has fewer than {CHARACTERS_MIN} characters")
    if len(set(value.lower())) < DISTINCT_MIN:
        raise WeakSecret(f"it has fewer than {DISTINCT_MIN} different characters")
    if len(value) < CHARACTERS_OF_RARE_TEXT and _ONE_WORD.fullmatch(value):
        raise WeakSecret("it is a single word or number")

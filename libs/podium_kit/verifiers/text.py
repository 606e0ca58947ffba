import re
import unicodedata
from decimal import Decimal

# Takes a row of digits whole: every shorter one would look to the end of the word again.
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d++)(?:\.\d++)?(?:[eE][-+]?\d{1,3})?(?!\w*\d)"
)
_NOT_WORDS = re.compile(r"[^\w+-]+")
_SEPARATORS = re.compile(r",|;|\n|\band\b|&")


def normalized(text: str) -> str:
    """Lower case without accents, articles and punctuation, single spaces."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    words = _NOT_WORDS.sub(" ", plain).split()
    return " ".join(word for word in words if word not in ("the", "a", "an"))


def items(text: str) -> frozenset[str]:
    """Normalized members of a list such as "France, Spain and Italy"."""
    return frozenset(filter(None, map(normalized, _SEPARATORS.split(text))))


def numbers(text: str) -> list[Decimal]:
    """Numbers in the order of the text; 1,234.5 and 1.2e3 are one each."""
    # People write a true minus sign; ranges and dates such as 2025-01-02 stay apart.
    plain = text.replace("\u2212", "-")
    return [Decimal(found.replace(",", "")) for found in _NUMBER.findall(plain)]

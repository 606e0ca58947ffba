import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from podium_kit.verifiers.verifier import Expected, Verdict, Verifier

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


class ExactMatch(Verifier):
    """Accepts any one of the expected phrases, and nothing beside it."""

    name: ClassVar[str] = "exact"
    version: ClassVar[str] = "1"

    expected: Expected

    def judge(self, answer: str, results: Sequence[str] = ()) -> Verdict:
        right = normalized(answer) in map(normalized, self.expected)
        return Verdict.of(right, f"expected {' or '.join(self.expected)}")


class ContainsAll(Verifier):
    name: ClassVar[str] = "contains"
    version: ClassVar[str] = "1"

    expected: Expected

    def judge(self, answer: str, results: Sequence[str] = ()) -> Verdict:
        found = f" {normalized(answer)} "
        missing = [each for each in self.expected if f" {normalized(each)} " not in found]
        return Verdict.of(not missing, f"missing: {', '.join(missing)}" if missing else "all said")


def _one_number(expected: tuple[str, ...]) -> tuple[str, ...]:
    if len(expected) == 1 and len(numbers(expected[0])) == 1:
        return expected
    raise ValueError(f"{list(expected)} is not one number")


class NumericMatch(Verifier):
    """Accepts an answer whose last number is within the tolerance of the expected one.

    The last number counts because people and models show their sum first: "12 * 12 = 144".
    """

    name: ClassVar[str] = "numeric"
    version: ClassVar[str] = "1"

    expected: Annotated[Expected, AfterValidator(_one_number)]
    tolerance: Annotated[Decimal, Field(ge=0, max_digits=40)] = Decimal(0)
    """Absolute and inclusive."""

    def judge(self, answer: str, results: Sequence[str] = ()) -> Verdict:
        wanted, found = numbers(self.expected[0])[0], numbers(answer)
        if not found:
            return Verdict.of(False, "the answer holds no number")
        right = abs(found[-1] - wanted) <= self.tolerance
        words = f"found {found[-1]:.40}, expected {wanted:.40} within {self.tolerance}"
        return Verdict.of(right, words)


class SetMatch(Verifier):
    name: ClassVar[str] = "set"
    version: ClassVar[str] = "1"

    expected: Expected

    def judge(self, answer: str, results: Sequence[str] = ()) -> Verdict:
        found, wanted = items(answer), frozenset(map(normalized, self.expected))
        missing, extra = sorted(wanted - found), sorted(found - wanted)
        return Verdict.of(found == wanted, f"missing {missing}, not expected {extra}")

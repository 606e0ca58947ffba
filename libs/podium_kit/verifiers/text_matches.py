from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from podium_kit.verifiers.text import items, normalized, numbers
from podium_kit.verifiers.verifier import Expected, Verdict, Verifier


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
        return Verdict.of(
            not missing, f"missing: {', '.join(missing)}" if missing else "all are in the answer"
        )


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

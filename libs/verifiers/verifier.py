"""The four ways to decide whether a final answer is right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from verifiers.text import items, normalized, numbers


class VerifierKind(StrEnum):
    """How an answer is compared."""

    EXACT = "exact"
    NUMERIC = "numeric"
    SET = "set"
    CONTAINS = "contains"


class InvalidVerifier(ValueError):
    """A verifier or its expected answer makes no sense; the message says why."""


@dataclass(frozen=True)
class Verifier:
    """Accepts or rejects an answer; never raises because of what a model wrote.

    exact:    the same words, whatever their case, accents and punctuation.
    numeric:  the last number of the answer is within `tolerance` of the expected.
    set:      the same members in any order.
    contains: every expected phrase occurs in the answer, as whole words.
    """

    kind: VerifierKind
    tolerance: Decimal = Decimal(0)

    @classmethod
    def parse(cls, fields: Mapping[str, object]) -> "Verifier":
        """From `{"kind": "numeric", "tolerance": 0.01}`. Raises InvalidVerifier."""
        unknown = set(fields) - {"kind", "tolerance"}
        if unknown:
            raise InvalidVerifier(f"unknown fields {sorted(unknown)}; use kind and tolerance")
        try:
            kind = VerifierKind(str(fields.get("kind")))
        except ValueError as error:
            raise InvalidVerifier(f"{error}; use {', '.join(VerifierKind)}") from error
        return cls(kind, _tolerance(fields.get("tolerance", 0)))

    def accepts(self, answer: str, expected: Sequence[str]) -> bool:
        """Whether the answer is right. Raises InvalidVerifier for an impossible expectation."""
        if not expected or not all(normalized(each) for each in expected):
            raise InvalidVerifier("the expected answer is empty")
        match self.kind:
            case VerifierKind.EXACT:
                return normalized(answer) in map(normalized, expected)
            case VerifierKind.NUMERIC:
                return self._is_near(answer, _single_number(expected))
            case VerifierKind.SET:
                return items(answer) == frozenset(map(normalized, expected))
            case VerifierKind.CONTAINS:
                found = f" {normalized(answer)} "
                return all(f" {normalized(each)} " in found for each in expected)

    def _is_near(self, answer: str, expected: Decimal) -> bool:
        found = numbers(answer)
        return bool(found) and abs(found[-1] - expected) <= self.tolerance


def _single_number(expected: Sequence[str]) -> Decimal:
    if len(expected) == 1 and len(numbers(expected[0])) == 1:
        return numbers(expected[0])[0]
    raise InvalidVerifier(f"{list(expected)} is not one number")


def _tolerance(value: object) -> Decimal:
    try:
        tolerance = Decimal(str(value))
    except InvalidOperation as error:
        raise InvalidVerifier(f"tolerance {value!r} is not a number") from error
    if not tolerance.is_finite() or tolerance < 0:
        raise InvalidVerifier(f"tolerance {value!r} must be 0 or more")
    return tolerance

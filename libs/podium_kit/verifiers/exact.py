"""The same words, whatever their case, accents, articles and punctuation."""

from collections.abc import Sequence
from typing import ClassVar

from podium_kit.verifiers.text import normalized
from podium_kit.verifiers.verifier import Expected, Verdict, Verifier


class ExactMatch(Verifier):
    """Accepts any one of the expected phrases, and nothing beside it."""

    name: ClassVar[str] = "exact"
    version: ClassVar[str] = "1"

    expected: Expected

    def judge(self, answer: str, results: Sequence[str] = ()) -> Verdict:
        """1 if the answer is one of the expected phrases."""
        right = normalized(answer) in map(normalized, self.expected)
        return Verdict.of(right, f"expected {' or '.join(self.expected)}")

"""Expected phrases somewhere in the answer, as whole words."""

from collections.abc import Sequence
from typing import ClassVar

from podium_kit.verifiers.text import normalized
from podium_kit.verifiers.verifier import Expected, Verdict, Verifier


class ContainsAll(Verifier):
    """Accepts an answer that says every expected phrase, whatever else it says."""

    name: ClassVar[str] = "contains"
    version: ClassVar[str] = "1"

    expected: Expected

    def judge(self, answer: str, results: Sequence[str] = ()) -> Verdict:
        """1 if no expected phrase is missing."""
        found = f" {normalized(answer)} "
        missing = [each for each in self.expected if f" {normalized(each)} " not in found]
        return Verdict.of(not missing, f"missing: {', '.join(missing)}" if missing else "all said")

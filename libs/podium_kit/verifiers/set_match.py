"""The same members in any order."""

from collections.abc import Sequence
from typing import ClassVar

from podium_kit.verifiers.text import items, normalized
from podium_kit.verifiers.verifier import Expected, Verdict, Verifier


class SetMatch(Verifier):
    """Accepts a list with every expected member and no other."""

    name: ClassVar[str] = "set"
    version: ClassVar[str] = "1"

    expected: Expected

    def judge(self, answer: str, results: Sequence[str] = ()) -> Verdict:
        """1 if the answer lists exactly the expected members."""
        found, wanted = items(answer), frozenset(map(normalized, self.expected))
        missing, extra = sorted(wanted - found), sorted(found - wanted)
        return Verdict.of(found == wanted, f"missing {missing}, not expected {extra}")

"""A verifier of the state that an episode leaves behind: databases, files, tool state.

The paper's first condition for function calling, execution correctness: the database equals
the one after the golden calls. `look` reads the state, for example one SELECT; the wanted
state is given, or is what `look` reads after the golden calls were made on a state of their own.
"""

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from podium_kit.verifiers.text_matches import ContainsAll
from podium_kit.verifiers.verifier import Unjudged, Verdict, Verifier, VerifierCall


class PlannedCall(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: str
    arguments: dict[str, Any] = {}

    def on(self, *, episode: bool) -> VerifierCall:
        return VerifierCall(self.tool, self.arguments, in_episode=episode)


class StateMatch(Verifier):
    """Compares what `look` reads, and, where `say` is given, what the answer says."""

    name: ClassVar[str] = "state"
    version: ClassVar[str] = "1"

    look: PlannedCall
    expected: Any = None
    """JSON or text that `look` must give; None where golden calls say it."""
    golden_calls: tuple[PlannedCall, ...] = ()
    say: tuple[str, ...] = ()
    """Words that the answer must have besides (the paper's process fidelity); empty: they do not
    matter."""

    @model_validator(mode="after")
    def _one_expectation(self) -> "StateMatch":
        if (self.expected is None) == (not self.golden_calls):
            raise ValueError("give either expected or golden_calls")
        return self

    def calls(self, question: str, answer: str) -> Sequence[VerifierCall]:
        """The look at the episode's state, then the golden calls and a look at theirs."""
        found = self.look.on(episode=True)
        if not self.golden_calls:
            return (found,)
        golden = (call.on(episode=False) for call in self.golden_calls)
        return (found, *golden, self.look.on(episode=False))

    def judge(self, answer: str, results: Sequence[str] = ()) -> Verdict:
        if len(results) != len(self.calls("", answer)):
            raise Unjudged("a look at the state has no result")
        found = _state(results[0])
        wanted = _state(results[-1]) if self.golden_calls else self.expected
        if isinstance(wanted, str):
            wanted = _state(wanted)
        if found != wanted:
            return Verdict.of(False, f"found {found}")
        if not self.say:
            return Verdict.of(True, "the states are equal")
        return ContainsAll(expected=self.say).judge(answer)


def _state(result: str) -> Any:
    try:
        return json.loads(result)
    except (ValueError, RecursionError):
        return result.strip()

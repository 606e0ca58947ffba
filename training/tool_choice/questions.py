"""A question put to the policy once: its prompt, its grammar, and what each choice comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grpo.episodes import Episode
from grpo.grammar import Constraint
from grpo.rewards import Features, Preferences
from grpo.samples import Row


@dataclass(frozen=True)
class Question:
    """One decision under a grammar that leaves finitely many choices."""

    id: str
    prompt_ids: tuple[int, ...]
    constraint: Constraint
    outcomes: Mapping[str, Features]
    """What a choice comes to, by the text its completions begin with, and no others' do."""
    tools: tuple[str, ...]
    """What `Features.tool_calls` and `Preferences.tools` are about, in order."""
    preferences: Preferences

    def chosen(self, text: str) -> str | None:
        """The choice that a completion so far has come to; None while several are left."""
        left = [each for each in self.outcomes if each.startswith(text) or text.startswith(each)]
        return left[0] if len(left) == 1 else None


@dataclass(frozen=True)
class Choice:
    """What the policy chose, and the tokens it took until that was decided.

    What follows only spells the chosen name, so it is neither sampled nor trained on.
    """

    row: Row
    text: str
    """A key of the question's outcomes."""


def episodes(question: Question, choices: Sequence[Choice], group_id: str) -> list[Episode]:
    """The choices as a group of judged episodes of one call each."""
    return [
        Episode(
            id=f"{group_id}-{index}",
            group_id=group_id,
            group_size=len(choices),
            task_id=question.id,
            tenant="",
            rows=(choice.row,),
            constraints={question.constraint.digest: question.constraint},
            tools=question.tools,
            features=question.outcomes[choice.text],
            currency="USD",
            preferences=question.preferences,
            model_versions=("",),
        )
        for index, choice in enumerate(choices)
    ]

"""The tenant's policy, asked again when calls are made.

An episode lists the tools that its policy allowed when it began. A policy that changes while the
episode runs applies to its next call, as it does to direct calls.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Protocol

from episodes.execution.registry_answers import RegistryAnswers
from episodes.execution.tool_calls import EpisodeToolCall
from episodes.models import PolicyDecision, PolicyQuestion
from episodes.step_log.running_episode import RunningEpisode
from podium_kit.rpc.identity import Identity

DECISIONS_MAX = 50_000


class Policies(Protocol):
    async def check(self, policy: str, questions: Sequence[PolicyQuestion]) -> list[PolicyDecision]:
        """Returns one decision per question, in order. Raises Unavailable and its like."""


class PolicyChecks:
    """Decisions, some of them made before: a caller's episodes make the same calls."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self.known: RegistryAnswers[tuple[Identity, str, PolicyQuestion], PolicyDecision] = (
            RegistryAnswers(DECISIONS_MAX)
        )

    async def authorize(
        self, episode: RunningEpisode, calls: Sequence[EpisodeToolCall]
    ) -> list[EpisodeToolCall]:
        """Returns the calls with the decisions of the episode's policy in its present version.

        A fallback that needs a person's approval is left out: no one has approved it.
        """
        questions = {question for call in calls for question in call.policy_questions}
        decisions = await self.decide(episode.identity, episode.spec.policy, questions)
        return [_decided(call, decisions) for call in calls]

    async def decide(
        self, caller: Identity, policy: str, questions: Set[PolicyQuestion]
    ) -> dict[PolicyQuestion, PolicyDecision]:
        known = {each: self.known.get((caller, policy, each)) for each in questions}
        found = {each: decision for each, decision in known.items() if decision is not None}
        if missing := sorted(questions - found.keys()):
            changes = self.known.changes
            fresh = await self._policies.check(policy, missing)
            for question, decision in zip(missing, fresh, strict=True):
                found[question] = decision
                asked, is_brief = (caller, policy, question), not decision.allowed
                self.known.keep(asked, decision, changes, is_brief=is_brief)
        return found


def _decided(
    call: EpisodeToolCall, decisions: Mapping[PolicyQuestion, PolicyDecision]
) -> EpisodeToolCall:
    if not (questions := call.policy_questions):
        return call
    first, *others = questions
    allowed = [
        question
        for question in others
        if decisions[question].allowed and not decisions[question].needs_approval
    ]
    fallbacks = frozenset(alias for _, _, alias in allowed)
    # Whichever model answers.
    guardrails = [one for each in (first, *allowed) for one in decisions[each].guardrails]
    return replace(
        call,
        decision=decisions[first],
        fallbacks=fallbacks,
        guardrails=tuple(dict.fromkeys(guardrails)),
    )

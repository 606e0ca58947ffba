"""Judges: tools of kind llm that compare answers with references, asked by direct calls."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from podium.common.v1 import failure_pb2
from podium.episodes.v1 import direct_call_service_pb2 as calls_pb
from podium.episodes.v1 import trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import tool_pb2
from podium_evaluation.runs.names import budget_name
from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.gateway import Gateway, segment
from podium_kit.derived_ids import derived_uuid7
from podium_kit.models.lineages import shared_family
from podium_kit.money import Money
from podium_kit.tool_kinds import kind_of
from podium_kit.verifiers import Unjudged
from podium_kit.verifiers.llm_judge import TASK, LlmJudge
from podium_kit.wire import optional_money_from_proto
from podium_training.rollouts.rolling import models_of, retried

PROMPT_DIGEST = hashlib.sha256(TASK.encode()).hexdigest()
# A call that failed is made again under another id: so many times by one command, and in all.
ATTEMPTS_MAX, ALL_ATTEMPTS_MAX = 3, 100
PROBE = ("What is two plus two?", "4", "Two plus two is 4.")


@dataclass(frozen=True)
class Judge:
    """A tool, and the alias of its model where it has several; written `TOOL/ALIAS`."""

    tool: str
    model: str = ""

    @classmethod
    def parse(cls, text: str) -> "Judge":
        tool, _, model = text.partition("/")
        return cls(tool, model)

    def __str__(self) -> str:
        return f"{self.tool}/{self.model}" if self.model else self.tool

    def verifier(self, reference: str | None, rubric: str = "") -> LlmJudge:
        """Its family is checked before it is asked."""
        return LlmJudge(
            judges=(str(self),), reference=reference, rubric=rubric, allow_own_family=True
        )

    def models(self, tools: Mapping[str, tool_pb2.ToolSpec]) -> list[str]:
        """Names of the models that may answer. Raises UsageError where it is no judge."""
        spec = tools.get(self.tool)
        if spec is None:
            raise UsageError(f"there is no tool {self.tool} to judge by", "see `podium tools list`")
        if not kind_of(spec.kind).has_models:
            raise UsageError(f"the judge {self.tool} is no tool of kind llm", "name one that is")
        found = models_of(spec)
        if self.model and self.model not in found:
            raise UsageError(
                f"the judge {self.tool} has no model {self.model}", f"use {', '.join(found)}"
            )
        if not self.model and len(found) > 1:
            choices = " or ".join(f"{self.tool}/{alias}" for alias in found)
            raise UsageError(f"the judge {self.tool} has several models", f"name {choices}")
        return [found[self.model]] if self.model else list(found.values())


@dataclass(frozen=True)
class Asked:
    """The outcome of one question to a judge; no score is not a score of 0."""

    score: float | None
    explanation: str
    call_id: str = ""
    cost: Money | None = None
    out_of_budget: bool = False


@dataclass(frozen=True)
class Question:
    name: str
    """Name that the call's id derives from: within a run it is one call, charged once."""
    question: str
    answer: str


async def ask(
    gateway: Gateway, evaluation_id: str, judge: Judge, verifier: LlmJudge, asked: Question
) -> Asked:
    """Asks one judge within the run's budget. Raises Rejected, Unreachable.

    A repetition finds the call of before; only one that failed is made again, under another id.
    """
    wanted = verifier.calls(asked.question, asked.answer)
    if not wanted:
        verdict = verifier.judge(asked.answer)
        return Asked(verdict.score, verdict.explanation)
    spec = calls_pb.DirectCallSpec(
        tool_name=judge.tool,
        model_alias=judge.model,
        messages=[orchestrator_pb.ConversationMessage(role="user", content=wanted[0].task)],
        labels={"evaluation": evaluation_id, "agent": budget_name(evaluation_id)},
    )
    names = (str(judge), PROMPT_DIGEST, asked.name)
    failed = 0
    for attempt in range(ALL_ATTEMPTS_MAX):
        call, is_new = await _made(
            gateway, derived_uuid7(evaluation_id, *names, str(attempt)), spec
        )
        failed += is_new and call.HasField("failure")
        if not call.HasField("failure") or failed == ATTEMPTS_MAX:
            break
    cost = optional_money_from_proto(call.cost)
    if call.HasField("failure"):
        spent = call.failure.kind == failure_pb2.FAILURE_KIND_BUDGET_EXHAUSTED
        return Asked(None, f"{judge} failed: {call.failure.message}"[:1000], call.id, cost, spent)
    try:
        verdict = verifier.judge(asked.answer, [call.content])
    except Unjudged as error:
        return Asked(None, str(error)[:1000], call.id, cost)
    return Asked(verdict.score, verdict.explanation, call.id, cost)


async def _made(
    gateway: Gateway, call_id: str, spec: calls_pb.DirectCallSpec
) -> tuple[calls_pb.DirectCall, bool]:
    """The ended call, and whether it had not ended before."""
    request = calls_pb.StartDirectCallRequest(call_id=call_id, spec=spec)
    started = await retried(
        gateway.post, "/v1/direct-calls", request, calls_pb.StartDirectCallResponse
    )
    call = started.call
    path = f"/v1/direct-calls/{segment(call_id)}"
    while not call.ended:
        found = await retried(gateway.get, path, calls_pb.GetDirectCallResponse, wait="true")
        call = found.call
    return call, not started.call.ended


async def probe(gateway: Gateway, evaluation_id: str, judge: Judge) -> None:
    """Asks a question whose verdict is known. Raises UserError where it is not given."""
    question, reference, answer = PROBE
    asked = Question("probe", question, answer)
    found = await ask(gateway, evaluation_id, judge, judge.verifier(reference), asked)
    if found.score != 1:
        raise UserError(
            f"the judge {judge} does not judge a plain case: {found.explanation}",
            "try it with `podium tools try`, or name another judge",
        )


def check_family(judge: Judge, own: Iterable[str], judged: Iterable[str]) -> None:
    """Raises UsageError where a judge's model is of the family of one that it would judge."""
    if shared := shared_family(own, judged):
        raise UsageError(
            f"the judge {judge} is {shared}",
            "name a judge of another family, or allow this with --allow-own-family,"
            " in a run's file `allow_own_family: true`",
        )


def models_among(names: Iterable[str], tools: Mapping[str, tool_pb2.ToolSpec]) -> set[str]:
    """Names of the models of those tools that have models."""
    return {model for name in names if name in tools for model in models_of(tools[name]).values()}


def writers(
    trajectory: trajectory_pb2.Trajectory, tools: Mapping[str, tool_pb2.ToolSpec]
) -> set[str]:
    """Names of the models that wrote in an episode: its orchestrators, and those of its tools."""
    called = {
        call.observation.call.tool_name
        for turn in trajectory.turns
        for call in turn.tool_invocations
    }
    orchestrators = {turn.model_call.response.model_version for turn in trajectory.turns}
    return (orchestrators - {""}) | models_among(called, tools)

"""Judges an answer by the episode's check.

Every call of a verifier is a durable step like any other: held, made, logged and priced under a key
of its own. An answer that cannot be judged is recorded as unjudged, with the reason; only a fault
of the platform that may pass is raised, and tried again.
"""

import asyncio
import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from episodes.clients import Adapters, RegistryClient
from episodes.errors import TRANSIENT
from episodes.execution.call_tools import ask_adapters, rejected
from episodes.execution.tool_calls import problem_of
from episodes.keys import StepKind, effect_key, verifier_session
from episodes.models import StopReason
from episodes.spending.holds import Charges, GrantedHold
from episodes.spending.worst_case import (
    call_worst_case,
    hold_request,
    model_alias,
    model_problem,
    model_worst_case,
    sku_of,
    timeout_s,
    tokens_max,
)
from episodes.step_log.log import StepLog, StepLogs
from episodes.step_log.running_episode import RunningEpisode, RunningEpisodes
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.episodes.v1 import check_pb2, episode_pb2, trajectory_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import toolset_pb2
from podium_kit import telemetry
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.models.lineages import shared_family
from podium_kit.rpc.errors import DomainError, InvalidArgument
from podium_kit.rpc.identity import acting_as
from podium_kit.tool_kinds import kind_of
from podium_kit.verifiers import (
    InvalidVerifier,
    Unjudged,
    Verdict,
    Verifier,
    VerifierCall,
    load_verifier,
)
from podium_kit.wire import failure_to_proto

# Ends that say nothing about what the model can do: such an episode is unjudged, not wrong.
INTERRUPTED = (StopReason.CANCELLED, StopReason.FAILED)


def verifier_of(check: check_pb2.Check) -> Verifier:
    try:
        parameters = json.loads(check.parameters_json or "{}")
    except ValueError as error:
        raise InvalidVerifier(f"parameters_json is not JSON: {error}") from error
    if not isinstance(parameters, dict):
        raise InvalidVerifier("parameters_json is not a JSON object")
    return load_verifier(check.verifier, parameters, check.verifier_version)


def tools_of_check(spec: episode_pb2.EpisodeSpec) -> list[str]:
    """The tool of each call that the check would make."""
    if not spec.HasField("check"):
        return []
    return [call.tool for call in verifier_of(spec.check).calls(spec.task, "any answer")]


def judged(verifier: Verifier, verdict: Verdict) -> check_pb2.Judgement:
    return check_pb2.Judgement(
        verifier=verifier.name,
        verifier_version=verifier.version,
        score=verdict.score,
        explanation=verdict.explanation,
    )


def unjudged(check: check_pb2.Check, reason: str) -> check_pb2.Judgement:
    return check_pb2.Judgement(
        verifier=check.verifier, verifier_version=check.verifier_version, explanation=reason
    )


def without_answer(check: check_pb2.Check, stop_reason: StopReason) -> check_pb2.Judgement:
    """Judges an episode without an answer: one that reached its limits has not solved its task."""
    if stop_reason in INTERRUPTED:
        return unjudged(check, f"the episode ended early: {stop_reason}")
    verdict = Verdict.of(False, f"no answer was given: {stop_reason}")
    return judged(verifier_of(check), verdict)


def answer_of(episode: RunningEpisode, log: StepLog, turn: int) -> str | None:
    """Returns the answer of a turn; None where it came to none.

    Of several calls with an answer the first one's counts. A result that does not fit the answer's
    JSON Schema is an ordinary result: the model sees it, and continues.
    """
    action = log.model_calls[turn].response.action
    if action.WhichOneof("decision") == "final_answer":
        return action.final_answer
    episode = episode.with_found_tools(log)
    for _, record in sorted(log.tool_calls.get(turn, {}).items()):
        observation = record.observation
        tool = episode.tool(observation.call.tool_name)
        # A text that was cut or declined is a result, and no answer.
        if tool is None or record.cut_reason or not (tool.gives_answer or record.gives_answer):
            continue
        if observation.HasField("failure"):
            continue
        if _fits(observation.content, episode.spec.answer_json_schema):
            return observation.content
    return None


def _fits(answer: str, schema: str) -> bool:
    if not schema:
        return bool(answer.strip())
    try:
        return not problem_of(json.loads(answer), schema)
    except (ValueError, RecursionError):
        return False


@dataclass(frozen=True)
class VerifierCalls:
    registry: RegistryClient
    adapters: Adapters
    charges: Charges
    logs: StepLogs

    async def result(
        self, episode: RunningEpisode, steps: StepLog, turn: int, index: int, call: VerifierCall
    ) -> str:
        if index not in steps.verifier_calls:
            try:
                record = await self._make(episode, steps, turn, index, call)
            except TRANSIENT:
                raise
            except DomainError as error:
                if call.may_fail:
                    return ""
                raise Unjudged(f"{call.tool} cannot be called: {error.message}") from error
            await self.logs.append(steps, [(turn, StepKind.VERIFIER, index, record)])
        observation = steps.verifier_calls[index].observation
        if observation.HasField("failure") and not call.may_fail:
            raise Unjudged(f"{call.tool} failed: {observation.failure.message}")
        return observation.content

    async def _make(
        self, episode: RunningEpisode, steps: StepLog, turn: int, index: int, call: VerifierCall
    ) -> trajectory_pb2.ToolInvocation:
        tool = await self._resolve(episode, call.tool)
        asked = pb.ToolCall(
            index=index, tool_name=call.tool, arguments_json=json.dumps(call.arguments)
        )
        if problem := model_problem(asked, tool):
            raise InvalidArgument(problem.message)
        request = _hold_request(episode, turn, asked, tool, call)
        record = trajectory_pb2.ToolInvocation(
            key=request.key,
            observation=pb.Observation(call=asked),
            tool_version=tool.version,
            model=request.subject.model,
        )
        if call.of_other_family and (denial := _own_family(episode, steps, tool, record.model)):
            record.observation.failure.CopyFrom(failure_to_proto(denial))
            return record
        [reply] = await self.charges.settle_and_reserve(episode, steps, [request])
        if not isinstance(reply, GrantedHold):
            record.observation.failure.CopyFrom(failure_to_proto(rejected(reply)))
            return record
        record.granted_output_tokens = reply.output_tokens
        steps.note_sent(record.key)
        await self._invoke(episode, tool, call, record)
        return record

    async def _resolve(self, episode: RunningEpisode, name: str) -> toolset_pb2.ResolvedTool:
        if tool := episode.tool(name):
            return tool
        toolset = await self.registry.resolve(
            episode.stored.new.policy_name, [name], for_direct_calls=True
        )
        return next(tool for tool in toolset.tools if tool.name == name)

    async def _invoke(
        self,
        episode: RunningEpisode,
        tool: toolset_pb2.ResolvedTool,
        call: VerifierCall,
        record: trajectory_pb2.ToolInvocation,
    ) -> None:
        request = adapters_pb.InvokeRequest(
            key=record.key,
            episode_id=episode.id if call.in_episode else verifier_session(episode.id),
            tool_name=tool.name,
            tool_version=tool.version,
            arguments_json=record.observation.call.arguments_json,
            task=call.task,
            model_alias=record.model,
            max_output_tokens=record.granted_output_tokens or tool.max_output_tokens,
        )
        response = await ask_adapters(self.adapters, request, tool, record)
        if response is not None and response.output.content_json:
            record.observation.content = response.output.content_json


def _own_family(
    episode: RunningEpisode, steps: StepLog, judge: toolset_pb2.ResolvedTool, alias: str
) -> ToolFailure | None:
    """The reason why the judge's model is not asked about what its own family wrote."""
    shared = shared_family(models_asked(judge, alias), writers(episode, steps))
    if shared is None:
        return None
    return ToolFailure(
        FailureKind.DENIED_BY_POLICY,
        f"the judge {judge.name} is {shared}; name a judge of another family, or set"
        " allow_own_family",
    )


def writers(episode: RunningEpisode, steps: StepLog) -> set[str]:
    """Names of the models that wrote in the episode: its orchestrators, and those of its tools."""
    found = {call.response.model_version for call in steps.model_calls.values()}
    episode = episode.with_found_tools(steps)
    for call in (call for turn in steps.tool_calls.values() for call in turn.values()):
        if tool := episode.tool(call.observation.call.tool_name):
            found |= models_asked(tool, call.answered_by_model or call.model)
            found.add(tool.podium.model)
    return found - {""}


def models_asked(tool: toolset_pb2.ResolvedTool, alias: str) -> set[str]:
    names = tool.model_names
    return {names[alias]} if alias in names else set(names.values())


def _hold_request(
    episode: RunningEpisode,
    turn: int,
    asked: pb.ToolCall,
    tool: toolset_pb2.ResolvedTool,
    call: VerifierCall,
) -> ledger_pb.ReserveRequest:
    alias = model_alias(asked, tool)
    worst_case = call_worst_case(timeout_s(tool))
    if kind_of(tool.kind).has_models:
        size = len(call.task.encode()) + asked.ByteSize() + tool.prompt_bytes
        read = tokens_max(size)
        worst_case = model_worst_case(read, tool.max_output_tokens, timeout_s(tool))
    key = effect_key(episode.id, turn, StepKind.VERIFIER, asked.index)
    return hold_request(key, tool.name, alias, sku_of(tool, alias), worst_case, turn=turn)


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AnswerJudge:
    episodes: RunningEpisodes
    logs: StepLogs
    calls: VerifierCalls

    async def judge_answer(self, episode_id: str, *, is_retry: bool, answer_time: datetime) -> None:
        episode = await self.episodes.get(episode_id)
        with (
            acting_as(episode.identity),
            telemetry.episode_context(episode.id),
            telemetry.span("judge", {"podium.verifier": episode.spec.check.verifier}),
        ):
            steps = await self.logs.open(episode.id)
            steps.is_retry = is_retry
            if steps.judgement is None:
                await self._judge(episode, steps, answer_time)

    async def judge_without_calls(self, episode: RunningEpisode, turn: int) -> bool:
        """Judges the answer of a turn if its verifier makes no calls, as most do."""
        steps = await self.logs.open(episode.id, turn)
        if not episode.spec.HasField("check") or steps.judgement is not None:
            return True
        answer = answer_of(episode, steps, turn) or ""
        with suppress(InvalidVerifier):
            if verifier_of(episode.spec.check).calls(episode.spec.task, answer):
                return False
        await self._judge(episode, steps, datetime.now(UTC))
        return True

    async def _judge(self, episode: RunningEpisode, steps: StepLog, answer_time: datetime) -> None:
        turn = max(steps.model_calls)
        answer = answer_of(episode, steps, turn) or ""
        judgement = await self._judgement(episode, steps, turn, answer)
        judgement.answer_time.FromDatetime(answer_time)
        await self.logs.append(steps, [(turn, StepKind.JUDGEMENT, 0, judgement)])

    async def _judgement(
        self, episode: RunningEpisode, steps: StepLog, turn: int, answer: str
    ) -> check_pb2.Judgement:
        check = episode.spec.check
        try:
            verifier = verifier_of(check)
            results = [
                await self.calls.result(episode, steps, turn, index, call)
                for index, call in enumerate(verifier.calls(episode.spec.task, answer))
            ]
            # Answer and check are strangers'. Beside the loop, which has leases to renew meanwhile.
            return judged(verifier, await asyncio.to_thread(_verdict, verifier, answer, results))
        except (InvalidVerifier, Unjudged) as error:
            return unjudged(check, str(error))


def _verdict(verifier: Verifier, answer: str, results: Sequence[str]) -> Verdict:
    try:
        return verifier.judge(answer, results)
    except Unjudged:
        raise
    except Exception as error:
        log.exception("verifier %s crashed", verifier.name)
        raise Unjudged(f"the verifier crashed: {type(error).__name__}") from error

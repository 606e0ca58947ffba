"""Plays a conversation as one episode: the worker answers the calls of the environment's functions.

It answers every request of the episode for results, from the first one on, whatever was answered
before: the platform takes the same results again and rejects others. So an interrupted conversation
is rebuilt by its own record, and one whose environment repeats it otherwise has diverged.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as episodes_pb
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import tool_pb2, tool_registry_service_pb2
from podium_evaluation.environments.asked_models import AskedModel, Diverged
from podium_evaluation.environments.lines import JUDGE, USER, Values
from podium_evaluation.environments.programs import (
    EnvironmentFailed,
    EnvironmentLost,
    Environments,
    Session,
)
from podium_evaluation.runs.judges import Judge, writers
from podium_evaluation.runs.names import path_of
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway, segment
from podium_kit.client.rejections import Rejected
from podium_kit.models.lineages import shared_family
from podium_kit.verifiers.environment import EnvironmentCheck
from podium_kit.verifiers.llm_judge import Vote, in_words, majority
from podium_kit.wire import enum_word, money_to_proto
from podium_training.rollouts.rolling import ended, retried

# So often is a conversation rebuilt in another process of its environment.
PROCESSES_MAX = 3
EXPLANATION_CHARACTERS_MAX = 1000
# Reasons of the platform: another record, an episode that ended meanwhile, one that never began.
OTHER_RESULTS, OTHER_SPEC = "RESULTS_CONFLICT", "EPISODE_CONFLICT"
TOO_LATE, NOT_BEGUN = "NOTHING_TO_ANSWER", "EPISODE_NOT_FOUND"
SPENT = "a budget that is not a trial's own is spent"


@dataclass
class Models:
    """Models that a conversation asks: the user's, and its judges."""

    user: AskedModel
    judges: Sequence[AskedModel]
    judge: AskedModel | None = None
    """The one that is judging."""

    @property
    def all(self) -> list[AskedModel]:
        return [self.user, *self.judges]

    async def asked(self, who: str, messages: Sequence[Mapping[str, Any]]) -> str:
        model = self.user if who == USER else self.judge
        if model is None:
            raise EnvironmentFailed(f"the suite names no {who} model")
        return await model.answer(messages)


@dataclass(frozen=True)
class Conversations:
    gateway: Gateway
    evaluation_id: str
    environments: Environments

    async def play(self, trial: pb.Trial, spec: episode_pb2.EpisodeSpec) -> str:
        """Plays a trial and records its verdict; returns why the run cannot continue, else "".

        Raises Rejected, Unreachable.
        """
        check = EnvironmentCheck.model_validate_json(trial.item.check.parameters_json)
        found: Values = {}

        def spent() -> bool:
            return any(model.budget_spent for model in models.all)

        for processes in range(1, PROCESSES_MAX + 1):
            models = self._models(trial.episode_id, check, spec.labels)
            try:
                found = await self._judged(trial, spec, check, models)
            except UsageError as error:
                return f"{error.cause}; {error.fix}"
            except EnvironmentFailed as error:
                if isinstance(error, EnvironmentLost) and processes < PROCESSES_MAX:
                    continue
                if not await self._cancelled(trial.episode_id):
                    return SPENT if spent() else error.cause
                found = {"explanation": error.cause}
            break
        await self._record(trial, found, models, not_run=spent())
        return SPENT if spent() else ""

    def _models(
        self, episode_id: str, check: EnvironmentCheck, labels: Mapping[str, str]
    ) -> Models:
        def asked(who: str, name: str) -> AskedModel:
            return AskedModel(self.gateway, episode_id, who, name, labels)

        return Models(asked(USER, check.user_model), [asked(JUDGE, name) for name in check.judges])

    async def _judged(
        self,
        trial: pb.Trial,
        spec: episode_pb2.EpisodeSpec,
        check: EnvironmentCheck,
        models: Models,
    ) -> Values:
        environments, id = self.environments, trial.episode_id
        async with environments.session(check.environment, id, models.asked) as session:
            opening = await session.open(check.domain, check.task)
            await self._start(id, conversation_spec(spec, opening))
            episode = await self._followed(id, session)
            if episode.stop_reason == episode_pb2.STOP_REASON_ANSWERED:
                return await self._verdict(session, episode, check, models)
        reason = enum_word(episode_pb2.StopReason.Name(episode.stop_reason), "STOP_REASON_")
        return {"explanation": f"the episode ended early: {reason}"}

    async def _verdict(
        self,
        session: Session,
        episode: episode_pb2.Episode,
        check: EnvironmentCheck,
        models: Models,
    ) -> Values:
        """The program's verdict; of several judges that it asks, that of more than half."""
        if not check.judges:
            return await session.judge(episode.answer)
        if not check.allow_own_family:
            await self._bar(episode.id, models.judges)
        votes = []
        for judge in models.judges:
            models.judge = judge
            try:
                found = await session.judge(episode.answer)
            except EnvironmentLost:
                raise
            except EnvironmentFailed as error:
                found = {"explanation": judge.barred or error.cause}
            if not judge.asked:
                return found
            explanation = found["explanation"][:EXPLANATION_CHARACTERS_MAX]
            votes.append(Vote(judge.name, found.get("score"), explanation))
        words = votes[0].explanation if len(votes) == 1 else in_words(votes)
        return {"score": majority(votes), "explanation": words, "votes": votes}

    async def _bar(self, episode_id: str, judges: Sequence[AskedModel]) -> None:
        """Bars those whose model is of the family of one that wrote in the episode."""
        listed = await retried(
            self.gateway.all, "/v1/tools", tool_registry_service_pb2.ListToolsResponse
        )
        tools = {tool.spec.name: tool.spec for tool in listed.tools}
        path = f"/v1/episodes/{segment(episode_id)}/trajectory"
        reply = await retried(self.gateway.get, path, episodes_pb.GetTrajectoryResponse)
        written = writers(reply.trajectory, tools)
        for judge in judges:
            own = Judge.parse(judge.name).models(tools)
            if shared := shared_family(own, written):
                judge.barred = f"the judge {judge.name} is {shared}"

    async def _start(self, id: str, spec: episode_pb2.EpisodeSpec) -> None:
        request = episodes_pb.StartEpisodeRequest(episode_id=id, spec=spec)
        try:
            await retried(
                self.gateway.post, "/v1/episodes", request, episodes_pb.StartEpisodeResponse
            )
        except Rejected as error:
            if error.reason != OTHER_SPEC:
                raise
            raise Diverged("the conversation begins otherwise than before") from error

    async def _followed(self, id: str, session: Session) -> episode_pb2.Episode:
        """Answers the episode's calls until it ends."""
        over = False
        async for event in self.gateway.events(id):
            if event.HasField("finished"):
                return event.finished.episode
            if event.HasField("client_calls_requested"):
                results = []
                for call in event.client_calls_requested.calls:
                    result, over = await _result(session, call, over=over)
                    results.append(result)
                await self._answer(id, event.turn, results)
        raise AssertionError("events end with that of the end")

    async def _answer(
        self, id: str, turn: int, results: Sequence[episodes_pb.ClientResult]
    ) -> None:
        request = episodes_pb.AnswerToolCallsRequest(turn=turn, results=results)
        path = f"/v1/episodes/{segment(id)}/tool-results"
        try:
            await retried(self.gateway.post, path, request, episodes_pb.AnswerToolCallsResponse)
        except Rejected as error:
            if error.reason == OTHER_RESULTS:
                raise Diverged(f"the results of turn {turn} are others than before") from error
            if error.reason != TOO_LATE:
                raise

    async def _cancelled(self, id: str) -> bool:
        """Ends the episode, and returns whether there is one."""
        path = f"/v1/episodes/{segment(id)}/cancel"
        try:
            await retried(self.gateway.post, path, {}, episodes_pb.CancelEpisodeResponse)
        except Rejected as error:
            if error.reason != NOT_BEGUN:
                raise
            return False
        await retried(ended, self.gateway, id)
        return True

    async def _record(
        self, trial: pb.Trial, found: Values, models: Models, *, not_run: bool
    ) -> None:
        request = pb.RecordVerdictRequest(
            place=trial.place,
            score=found.get("score"),
            explanation=found["explanation"][:EXPLANATION_CHARACTERS_MAX],
            not_run=not_run,
            unpriced_call_count=sum(model.unpriced_call_count for model in models.all),
        )
        costs = {judge.name: judge.cost for judge in models.judges if judge.cost is not None}
        for vote in found.get("votes", ()):
            request.votes.add(judge=vote.judge, score=vote.score, explanation=vote.explanation)
            if vote.judge in costs:
                request.votes[-1].cost.CopyFrom(money_to_proto(costs[vote.judge]))
        if models.user.cost is not None:
            request.simulator_cost.CopyFrom(money_to_proto(models.user.cost))
        if costs:
            first, *others = costs.values()
            request.judge_cost.CopyFrom(money_to_proto(sum(others, first)))
        path = f"{path_of(self.evaluation_id)}/verdict"
        await retried(self.gateway.post, path, request, pb.RecordVerdictResponse)


async def _result(
    session: Session, call: orchestrator_pb.ToolCall, *, over: bool
) -> tuple[episodes_pb.ClientResult, bool]:
    """The result of a call, and whether the conversation is over."""
    result = episodes_pb.ClientResult(call_index=call.index)
    if over:
        result.error = "the conversation is over"
        return result, over
    found = await session.call(call.tool_name, json.loads(call.arguments_json or "{}"))
    result.content, result.error = found.get("content", ""), found.get("error", "")
    result.gives_answer = "ended" in found
    return result, result.gives_answer


def conversation_spec(spec: episode_pb2.EpisodeSpec, opening: Values) -> episode_pb2.EpisodeSpec:
    """The episode of a trial with what its environment opens the conversation with."""
    whole = episode_pb2.EpisodeSpec()
    whole.CopyFrom(spec)
    whole.task = opening["task"]
    for message in opening["history"]:
        whole.history.add(role=message["role"], content=message["content"])
    for tool in opening["tools"]:
        schema = json.dumps(tool["parameters"])
        whole.client_tools.append(
            tool_pb2.ClientTool(
                name=tool["name"], description=tool["description"], parameters_json_schema=schema
            )
        )
        whole.tool_names.append(tool["name"])
    return whole

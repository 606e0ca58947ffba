"""Evaluations: suites played by arms, and what became of every trial."""

from collections.abc import Sequence
from typing import Literal

from podium_client._async.pages import AsyncPages
from podium_client._async.transport import AsyncTransport, required
from podium_client.models import (
    CreateEvaluationRequest,
    CreateEvaluationResponse,
    Evaluation,
    EvaluationItem,
    GetEvaluationResponse,
    ListEvaluationsResponse,
    ListTrialsResponse,
    ListVerdictsResponse,
    RecordVerdictsRequest,
    RecordVerdictsResponse,
    StartLiveEvaluationRequest,
    StartLiveEvaluationResponse,
    StopLiveEvaluationRequest,
    StopLiveEvaluationResponse,
    Trial,
    UpdateEvaluationRequest,
    UpdateEvaluationResponse,
    Verdict,
)
from podium_client.wire import path

EVALUATIONS, EVALUATION = "/v1/evaluations", "/v1/evaluations/{evaluation_id}"
LIVE = "/v1/live-evaluations"
State = Literal["running", "paused", "ended"]


class AsyncEvaluations:
    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, evaluation: Evaluation, items: Sequence[EvaluationItem]) -> Evaluation:
        """Stores a run and plans its trials; a worker starts them. `id` is the retry's, too."""
        body = CreateEvaluationRequest(evaluation=evaluation, items=[*items])
        reply = await self._transport.call("POST", EVALUATIONS, CreateEvaluationResponse, body=body)
        return required(reply.evaluation)

    async def get(self, evaluation_id: str) -> GetEvaluationResponse:
        """Returns the run, and how far each arm has come."""
        return await self._transport.call(
            "GET", path(EVALUATION, evaluation_id=evaluation_id), GetEvaluationResponse
        )

    def list(self, *, page_size: int = 0) -> AsyncPages[Evaluation]:
        """Lists runs, newest first."""
        return self._transport.pages(
            EVALUATIONS,
            ListEvaluationsResponse,
            lambda page: (page.evaluations, page.next_page_token),
            {"page_size": page_size},
        )

    def trials(
        self, evaluation_id: str, *, with_items: bool = False, page_size: int = 0
    ) -> AsyncPages[Trial]:
        """Lists the trials in the order in which they are started."""
        return self._transport.pages(
            f"{path(EVALUATION, evaluation_id=evaluation_id)}/trials",
            ListTrialsResponse,
            lambda page: (page.trials, page.next_page_token),
            {"page_size": page_size, "with_items": with_items},
        )

    async def start_live(self, evaluation: Evaluation) -> Evaluation:
        """Begins shadows or an A/B test of live traffic: its own arm, and a candidate."""
        body = StartLiveEvaluationRequest(evaluation=evaluation)
        reply = await self._transport.call("POST", LIVE, StartLiveEvaluationResponse, body=body)
        return required(reply.evaluation)

    async def stop_live(self, evaluation_id: str, *, reason: str = "") -> Evaluation:
        """Ends it: from the next start on, all episodes are as their callers ask."""
        body = StopLiveEvaluationRequest(reason=reason)
        address = path(f"{LIVE}/{{evaluation_id}}/stop", evaluation_id=evaluation_id)
        reply = await self._transport.call("POST", address, StopLiveEvaluationResponse, body=body)
        return required(reply.evaluation)

    async def record_verdicts(self, evaluation_id: str, verdicts: Sequence[Verdict]) -> None:
        """Stores verdicts of judges beside those of the trials' own checks; a verdict stays."""
        body = RecordVerdictsRequest(verdicts=[*verdicts])
        address = f"{path(EVALUATION, evaluation_id=evaluation_id)}/verdicts"
        await self._transport.call("POST", address, RecordVerdictsResponse, body=body)

    def verdicts(self, evaluation_id: str, *, page_size: int = 0) -> AsyncPages[Verdict]:
        """Lists the stored verdicts of judges, by trial and judge."""
        return self._transport.pages(
            f"{path(EVALUATION, evaluation_id=evaluation_id)}/verdicts",
            ListVerdictsResponse,
            lambda page: (page.verdicts, page.next_page_token),
            {"page_size": page_size},
        )

    async def update(self, evaluation_id: str, state: State, *, reason: str = "") -> Evaluation:
        """Pauses, resumes or ends a run; trials that have begun continue to their end."""
        body = UpdateEvaluationRequest(state=f"EVALUATION_STATE_{state.upper()}", reason=reason)
        address = path(EVALUATION, evaluation_id=evaluation_id)
        reply = await self._transport.call("PATCH", address, UpdateEvaluationResponse, body=body)
        return required(reply.evaluation)

"""Episodes: start, follow, answer, approve, cancel."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, Unpack

from podium_client._async.pages import AsyncPages
from podium_client._async.transport import AsyncTransport, required
from podium_client.errors import EpisodeUnanswered, PodiumError
from podium_client.events import EpisodeEvent, WrittenAnswer
from podium_client.functions import Functions
from podium_client.ids import new_id
from podium_client.models import (
    AnswerToolCallsRequest,
    AnswerToolCallsResponse,
    ApproveToolCallRequest,
    ApproveToolCallResponse,
    CancelEpisodeResponse,
    ClientResult,
    ClientTool,
    Episode,
    Feedback,
    GetEpisodeResponse,
    GetTrajectoryResponse,
    GiveFeedbackRequest,
    GiveFeedbackResponse,
    ListApprovalsResponse,
    ListEpisodesResponse,
    StartEpisodeRequest,
    StartEpisodeResponse,
    Trajectory,
    WaitingApproval,
)
from podium_client.orders import EpisodeOptions, episode_spec
from podium_client.wire import ANSWER_PART, path

EPISODE = "/v1/episodes/{id}"
EpisodeState = Literal["pending", "running", "waiting", "finished"]


class AsyncEpisodes:
    """Durable runs of an orchestrator and its tools."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def run(
        self,
        task: str,
        *,
        functions: Sequence[Callable[..., Any]] = (),
        on_event: Callable[[EpisodeEvent], object] | None = None,
        on_text: Callable[[str], object] | None = None,
        episode_id: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[EpisodeOptions],
    ) -> Episode:
        """Starts an episode, runs the functions that it calls, and waits for its answer.

        `on_text` gets the answer piece by piece, while it is written where nothing may change it
        any more. Raises EpisodeUnanswered, ApiError, ConnectionFailed.
        """
        if on_text is not None:
            options["stream_answer"] = True
        episode = await self.start(
            task,
            functions=functions,
            episode_id=episode_id,
            idempotency_key=idempotency_key,
            **options,
        )
        return await self.wait(episode.id, functions=functions, on_event=on_event, on_text=on_text)

    async def start(
        self,
        task: str,
        *,
        functions: Sequence[Callable[..., Any] | ClientTool] = (),
        episode_id: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[EpisodeOptions],
    ) -> Episode:
        """Starts an episode and returns at once.

        The same `episode_id` (a UUIDv7) or `idempotency_key` (any text, remembered for seven
        days) finds the episode that it started before. Without either the client makes an id,
        so that its own repetitions start one episode.
        """
        request = StartEpisodeRequest(spec=episode_spec(task, functions, options))
        headers = {"idempotency-key": idempotency_key} if idempotency_key else {}
        if not idempotency_key:
            request.episode_id = episode_id or new_id()
        reply = await self._transport.call(
            "POST", "/v1/episodes", StartEpisodeResponse, body=request, headers=headers
        )
        return required(reply.episode)

    async def wait(
        self,
        episode_id: str,
        *,
        functions: Sequence[Callable[..., Any]] = (),
        on_event: Callable[[EpisodeEvent], object] | None = None,
        on_text: Callable[[str], object] | None = None,
    ) -> Episode:
        """The episode once it has answered; runs the functions that it calls meanwhile.

        Calls of turns before its newest were answered, and are not run again. Those of the newest
        may be, where a program ended before the episode went on. `on_text` gets the answer piece
        by piece: while it is written if the episode was started with `stream_answer`.

        Raises EpisodeUnanswered, ApiError, ConnectionFailed.
        """
        own = Functions(tuple(functions))
        before = await self.get(episode_id) if functions else None
        async for event in self._watch(episode_id, 0, on_text):
            if on_event is not None:
                on_event(event)
            if event.client_calls_requested is not None and before and _may_wait(before, event):
                calls = event.client_calls_requested.calls
                results = [await own.acall(call) for call in calls]
                await self.answer(episode_id, event.turn, results)
            if event.finished is not None:
                episode = required(event.finished.episode)
                if episode.stop_reason != "STOP_REASON_ANSWERED":
                    raise EpisodeUnanswered(episode)
                return episode
        raise PodiumError(f"the stream of episode {episode_id} ended before the episode did")

    async def watch(self, episode_id: str, after: int = 0) -> AsyncIterator[EpisodeEvent]:
        """Yields past and new events until the episode ends.

        A broken connection is taken up where it broke: no event is lost or comes twice. `after`
        is the sequence of the last event that is known already.
        """
        async for event in self._watch(episode_id, after):
            yield event

    async def get(self, episode_id: str) -> Episode:
        """The episode as it is now."""
        address = path(EPISODE, id=episode_id)
        return required((await self._transport.call("GET", address, GetEpisodeResponse)).episode)

    def list(
        self,
        *,
        states: Sequence[EpisodeState] = (),
        labels: Mapping[str, str] | None = None,
        page_size: int = 0,
    ) -> AsyncPages[Episode]:
        """Newest first; only those in one of the states, with all of the labels."""
        query = {
            "filter.states": [f"EPISODE_STATE_{state.upper()}" for state in states],
            "filter.labels": labels,
            "page_size": page_size,
        }
        return self._transport.pages(
            "/v1/episodes",
            ListEpisodesResponse,
            lambda page: (page.episodes, page.next_page_token),
            query,
        )

    async def cancel(self, episode_id: str, reason: str = "") -> Episode:
        """Cancels it; one that has ended stays as it is."""
        address = path(EPISODE + "/cancel", id=episode_id)
        reply = await self._transport.call(
            "POST", address, CancelEpisodeResponse, body={"reason": reason}
        )
        return required(reply.episode)

    def approvals(self, *, page_size: int = 0) -> AsyncPages[WaitingApproval]:
        """The tenant's calls that wait for a person."""
        return self._transport.pages(
            "/v1/approvals",
            ListApprovalsResponse,
            lambda page: (page.approvals, page.next_page_token),
            {"page_size": page_size},
        )

    async def approve(
        self, episode_id: str, turn: int, call_index: int, *, reason: str = ""
    ) -> Episode:
        """Lets a call be made that waits for a person."""
        return await self._decide(episode_id, turn, call_index, True, reason)

    async def deny(
        self, episode_id: str, turn: int, call_index: int, *, reason: str = ""
    ) -> Episode:
        """Rejects a call that waits for a person; the model sees that it was denied."""
        return await self._decide(episode_id, turn, call_index, False, reason)

    async def answer(self, episode_id: str, turn: int, results: Sequence[ClientResult]) -> Episode:
        """Gives the results of all calls of a turn that wait for this client."""
        address = path(EPISODE + "/tool-results", id=episode_id)
        body = AnswerToolCallsRequest(turn=turn, results=[*results])
        reply = await self._transport.call("POST", address, AnswerToolCallsResponse, body=body)
        return required(reply.episode)

    async def give_feedback(
        self,
        episode_id: str,
        *,
        score: float | None = None,
        label: str = "",
        comment: str = "",
        feedback_id: str = "",
    ) -> Feedback:
        """Says how good an ended episode was; a score is from 0 to 1, and 1 is solved.

        The same again changes nothing. With an id, other words under it are an ApiError.
        """
        address = path(EPISODE + "/feedback", id=episode_id)
        body = GiveFeedbackRequest(id=feedback_id, score=score, label=label, comment=comment)
        reply = await self._transport.call("POST", address, GiveFeedbackResponse, body=body)
        return required(reply.feedback)

    async def trajectory(self, episode_id: str) -> Trajectory:
        """Everything that happened in an ended episode, as trainers see it."""
        address = path(EPISODE + "/trajectory", id=episode_id)
        reply = await self._transport.call("GET", address, GetTrajectoryResponse)
        return required(reply.trajectory)

    async def _watch(
        self, episode_id: str, after: int, on_text: Callable[[str], object] | None = None
    ) -> AsyncIterator[EpisodeEvent]:
        written = WrittenAnswer(on_text) if on_text is not None else None
        query = {"answer_parts": "true"} if written is not None else {}
        address = path(EPISODE + "/events", id=episode_id)
        async for news in self._transport.events(address, after, query):
            if news.name == ANSWER_PART:
                part = json.loads(news.data)
                if written is not None:
                    written.add(part["start"], part["text"])
                continue
            event = EpisodeEvent.model_validate_json(news.data)
            if event.finished is not None and written is not None:
                written.end(required(event.finished.episode).answer)
            yield event
            if event.finished is not None:
                return

    async def _decide(
        self, episode_id: str, turn: int, call_index: int, approved: bool, reason: str
    ) -> Episode:
        address = path(EPISODE + "/approve", id=episode_id)
        body = ApproveToolCallRequest(
            turn=turn, call_index=call_index, approved=approved, reason=reason
        )
        reply = await self._transport.call("POST", address, ApproveToolCallResponse, body=body)
        return required(reply.episode)


def _may_wait(before: Episode, event: EpisodeEvent) -> bool:
    """Returns whether the calls of an event were not yet answered when the episode was as
    `before`.
    """
    return before.state != "EPISODE_STATE_FINISHED" and event.turn >= before.turn_count

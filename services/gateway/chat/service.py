import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from gateway.chat.outcomes import has_answer, no_answer, stopped
from gateway.chat.request import ChatRequest
from gateway.chat.response import Chunks, Json, completion
from gateway.chat.runs import Event, Progress, Run, merged
from gateway.http.error_responses import error_body
from gateway.http.sse import data
from gateway.models import AnswerPart, Outcome, ProgressNote
from podium_kit.rpc.errors import DomainError

Ends = dict[int, Outcome | DomainError]


@dataclass(frozen=True)
class ChatRun:
    runs: Sequence[Run]
    request: ChatRequest
    created: int = field(default_factory=lambda: int(time.time()))

    async def complete(self) -> Json:
        """Waits for the end. Raises the first error when no choice has an answer."""
        ends: Ends = {}
        async for index, event in self._events(end_only=True):
            if not isinstance(event, Progress):
                ends[index] = event
        custom = self.request.custom_tools()
        return completion(_answered(ends), self.request.model, self.created, custom)

    async def stream(self) -> AsyncIterator[bytes]:
        """Server-sent events from the first turn to the answer, or to an error event:
        the status line is long gone by then."""
        options = self.request.stream_options
        include_usage = bool(options and options.include_usage)
        first = self.runs[0].episode_id
        custom = self.request.custom_tools()
        stops = self.request.stop or ()
        chunks = Chunks(
            first,
            self.request.model,
            self.created,
            include_usage=include_usage,
            custom=custom,
            stops=stops,
        )
        ends: Ends = {}
        for index in range(len(self.runs)):
            yield chunks.opening(index, may_call=bool(self.request.tools))
        async for index, event in self._events(with_parts=True):
            if isinstance(event, ProgressNote):
                yield chunks.reasoning(index, event.line)
                continue
            if isinstance(event, AnswerPart):
                for chunk in chunks.part(index, event):
                    yield chunk
                continue
            ends[index] = event
            if isinstance(event, Outcome) and has_answer(event):
                for chunk in chunks.choice(index, event):
                    yield chunk
        try:
            yield chunks.closing(_answered(ends))
        except DomainError as error:
            yield data(error_body(error))

    async def _events(
        self, *, with_parts: bool = False, end_only: bool = False
    ) -> AsyncIterator[tuple[int, Event]]:
        async for index, event in merged(self.runs, with_parts=with_parts, end_only=end_only):
            stops = self.request.stop or ()
            yield index, stopped(event, stops) if isinstance(event, Outcome) else event


def _answered(ends: Ends) -> dict[int, Outcome]:
    """The outcomes by choice, when one of them has an answer. Raises the first error otherwise."""
    errors = [_error(ends[index]) for index in sorted(ends)]
    if all(errors) and errors[0] is not None:
        raise errors[0]
    return {index: end for index in sorted(ends) if isinstance(end := ends[index], Outcome)}


def _error(end: Outcome | DomainError) -> DomainError | None:
    return no_answer(end) if isinstance(end, Outcome) else end

"""Chat completions of episodes: whole, or as a stream."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from gateway.chat.episode_run import EpisodeRun
from gateway.chat.request import ChatRequest
from gateway.chat.response import Chunks, Json, completion
from gateway.error_responses import error_body
from gateway.models import Progress
from gateway.sse import data
from podium_kit.rpc.errors import DomainError


@dataclass(frozen=True)
class ChatRun:
    """One chat completion."""

    run: EpisodeRun
    request: ChatRequest
    created: int = field(default_factory=lambda: int(time.time()))

    async def complete(self) -> Json:
        """Waits for the end. Raises the error of an episode without an answer."""
        return completion(await self.run.outcome(), self.request.model, self.created)

    async def stream(self) -> AsyncIterator[bytes]:
        """Server-sent events from the first turn to the answer, or to an error event:
        the status line is long gone by then."""
        chunks = Chunks(self.run.episode_id, self.request.model, self.created)
        yield chunks.opening()
        try:
            async for event in self.run.events():
                if isinstance(event, Progress):
                    yield chunks.reasoning(event.line)
                    continue
                for chunk in chunks.closing(event, self.request.stream_options.include_usage):
                    yield chunk
        except DomainError as error:
            yield data(error_body(error))

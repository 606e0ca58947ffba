"""A web service that shows an episode's turns while they happen.

    pip install ./sdks/python fastapi uvicorn   # from the repository
    python fastapi_live_turns.py 8900
    curl -N "http://127.0.0.1:8900/ask?task=What+is+6+x+7%3F"

An episode continues when its reader leaves; GET /ask/<episode id> resumes the stream.
"""

import sys
from collections.abc import AsyncIterator

import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from podium_client import AsyncPodium, EpisodeEvent

podium = AsyncPodium()
app = FastAPI()


def line(event: EpisodeEvent) -> str:
    if event.action_decided and event.action_decided.action:
        calls = event.action_decided.action.tool_calls
        names = ", ".join(call.tool_name for call in calls.calls) if calls else "the answer"
        return f"turn {event.turn}: {names}"
    if event.tool_returned and event.tool_returned.observation:
        observation = event.tool_returned.observation
        return f"  {observation.failure.message if observation.failure else observation.content}"
    if event.finished and event.finished.episode:
        episode = event.finished.episode
        return f"answer: {episode.answer} ({episode.cost.amount if episode.cost else 0} USD)"
    return event.kind


async def turns(episode_id: str) -> AsyncIterator[str]:
    async for event in podium.episodes.watch(episode_id):
        yield f"data: {line(event)}\n\n"


@app.get("/ask")
async def ask(task: str) -> StreamingResponse:
    episode = await podium.episodes.start(task, tools=["calculator"], budget="0.05")
    headers = {"x-episode": episode.id}
    return StreamingResponse(turns(episode.id), headers=headers, media_type="text/event-stream")


@app.get("/ask/{episode_id}")
async def again(episode_id: str) -> StreamingResponse:
    return StreamingResponse(turns(episode_id), media_type="text/event-stream")


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]) if sys.argv[1:] else 8000, log_level="warning")

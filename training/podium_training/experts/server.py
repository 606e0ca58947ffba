"""The experts of a pool as an OpenAI-compatible server.

An expert that is right gives the known answer. One that is wrong gives another task's answer of
the same family: nothing in it tells that it is wrong.
"""

import time
from collections.abc import Sequence
from random import Random
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from podium_training.experts.pool import Expert, Pool
from podium_training.tasks.task import Task

NOTHING_KNOWN = "I cannot tell."
# Of other tasks' answers, before an expert says that it cannot tell.
GUESSES = 20


class Knowledge:
    def __init__(self, tasks: Sequence[Task], seed: int) -> None:
        self._tasks = [task for task in tasks if "expected" in task.parameters]
        self._seed = seed

    def answer(self, expert: Expert, conversation: str) -> str:
        asked = (task for task in self._tasks if task.question in conversation)
        task = max(asked, key=lambda each: len(each.question), default=None)
        if task is None:
            return NOTHING_KNOWN
        return task.answer if expert.is_right(task, self._seed) else self._wrong(expert, task)

    def _wrong(self, expert: Expert, task: Task) -> str:
        chance = Random(f"{self._seed}/{task.id}/{expert.alias}/wrong")  # noqa: S311 chance
        family = [other for other in self._tasks if other.family == task.family]
        verifier = task.judge()
        answers = (chance.choice(family).answer for _ in range(GUESSES))
        return next(
            (answer for answer in answers if verifier.judge(answer).score == 0), NOTHING_KNOWN
        )


def make_app(pool: Pool, knowledge: Knowledge) -> Starlette:
    experts = {expert.alias: expert for expert in pool.experts}

    async def models(_: Request) -> JSONResponse:
        cards = [{"id": alias, "object": "model", "owned_by": "simulation"} for alias in experts]
        return JSONResponse({"object": "list", "data": cards})

    async def chat(request: Request) -> JSONResponse:
        try:
            body = await request.json()
            expert = experts[body["model"]]
            conversation = "\n".join(message["content"] for message in body["messages"])
        except (KeyError, TypeError, ValueError) as error:
            message = f"no chat completion of {', '.join(experts)}: {error!r}"
            return JSONResponse({"error": {"message": message, "code": 400}}, status_code=400)
        return JSONResponse(
            _completion(expert, conversation, knowledge.answer(expert, conversation))
        )

    return Starlette(
        routes=[
            Route("/v1/models", models),
            Route("/v1/chat/completions", chat, methods=["POST"]),
        ]
    )


def _completion(expert: Expert, asked: str, text: str) -> dict[str, Any]:
    """Tokens are estimated at four characters; thinking is paid for."""
    written = len(text) // 4 + 1 + expert.thinking_tokens
    tokens = {"prompt_tokens": len(asked) // 4 + 1, "completion_tokens": written}
    message = {"role": "assistant", "content": text}
    return {
        "id": f"simulation-{time.time_ns()}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": expert.alias,
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": tokens | {"total_tokens": sum(tokens.values())},
    }

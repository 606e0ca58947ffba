"""The demonstrator as an OpenAI-compatible server, with what vLLM adds for training.

It says that it is vLLM's kind of engine, because only then are token ids asked for; its
version says what it is, and every trajectory records that as the engine.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from transformers import PreTrainedTokenizerBase

from podium_training.imitation.solutions import NoDemonstration, Solutions

# The demonstrator's distribution has one outcome, whose probability is 1.
CERTAIN = 0.0


def completion(
    tokenizer: PreTrainedTokenizerBase,
    model: str,
    messages: Sequence[Mapping[str, str]],
    text: str,
) -> dict[str, Any]:
    """The body of a chat completion with token ids, as vLLM gives it for `return_token_ids`.

    The ids end with the end-of-turn token, which a policy has to learn, too.
    """
    prompt_ids = tokenizer.apply_chat_template(
        [dict(message) for message in messages], add_generation_prompt=True, return_dict=False
    )
    ids = [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
        "token_ids": ids,
        "logprobs": {"content": [_certain(tokenizer, token) for token in ids]},
    }
    return {
        "id": f"demonstration-{time.time_ns()}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [choice],
        "prompt_token_ids": prompt_ids,
        "usage": {
            "prompt_tokens": len(prompt_ids),
            "completion_tokens": len(ids),
            "total_tokens": len(prompt_ids) + len(ids),
        },
    }


def _certain(tokenizer: PreTrainedTokenizerBase, token: int) -> dict[str, Any]:
    return {"token": tokenizer.decode([token]), "logprob": CERTAIN, "top_logprobs": []}


VERSION = "demonstrator"


def make_app(
    solutions: Solutions,
    tokenizer: PreTrainedTokenizerBase,
    model: str,
    context_tokens: int,
) -> Starlette:
    async def models(_: Request) -> JSONResponse:
        card = {"id": model, "object": "model", "owned_by": "vllm", "max_model_len": context_tokens}
        return JSONResponse({"object": "list", "data": [card]})

    async def version(_: Request) -> JSONResponse:
        return JSONResponse({"version": VERSION})

    async def tokenizer_info(_: Request) -> JSONResponse:
        return JSONResponse({"chat_template": tokenizer.chat_template})

    async def chat(request: Request) -> JSONResponse:
        body = await request.json()
        try:
            messages = body["messages"]
            schema = body["response_format"]["json_schema"]["schema"]
            text = solutions.action(messages[0]["content"], messages[-1]["content"], schema)
        except KeyError as error:
            return _rejected(f"the request lacks {error}")
        except NoDemonstration as error:
            return _rejected(str(error))
        return JSONResponse(completion(tokenizer, model, messages, text))

    return Starlette(
        routes=[
            Route("/version", version),
            Route("/tokenizer_info", tokenizer_info),
            Route("/health", version),
            Route("/v1/models", models),
            Route("/v1/chat/completions", chat, methods=["POST"]),
        ]
    )


def _rejected(message: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "code": 400}}, status_code=400)

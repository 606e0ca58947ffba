"""The demonstrator as an OpenAI-compatible server, with what vLLM adds for training.

It says that it is vLLM's kind of engine, because only then are token ids asked for; its
version says what it is, and every trajectory records that as the engine.
"""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from transformers import PreTrainedTokenizerBase

from podium_training.demonstrations.completions import completion
from podium_training.demonstrations.solutions import NoDemonstration, Solutions

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

"""Checks a user's own model server before anything is started."""

import asyncio
import time
from collections.abc import Callable
from difflib import get_close_matches

import httpx

from podium_cli.local.engines import EngineChoice
from podium_kit.client.errors import UserError

TIMEOUT_S = 10.0
PAUSE_S = 0.5
# A server that was started a moment ago loads its model first.
STARTING_S = 90.0


async def check_engine(choice: EngineChoice, note: Callable[[str], None]) -> None:
    """Waits for the server of --openai-base-url; `note` gets a line when it does not answer yet.

    Raises UserError when it does not answer in 90 s, or does not serve the model.
    """
    served = await _served_models(choice, note)
    if choice.model not in served:
        near = get_close_matches(choice.model, served) or served[:5]
        fix = f"use --openai-model {' or '.join(near)}" if near else "check --openai-model"
        raise UserError(f"{choice.openai_base_url} serves no model {choice.model!r}", fix)


async def _served_models(choice: EngineChoice, note: Callable[[str], None]) -> list[str]:
    url = f"{choice.openai_base_url.rstrip('/')}/models"
    headers = {"authorization": f"Bearer {choice.openai_api_key}"} if choice.openai_api_key else {}
    try:
        reply = await _answer(url, headers, note)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise UserError(
            f"no model server answered at {url} within {STARTING_S:.0f} s ({type(error).__name__})",
            "start the server, or check --openai-base-url; it ends with /v1",
        ) from error
    if reply.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise UserError(f"{url} rejects the API key", "check --openai-api-key or OPENAI_API_KEY")
    try:
        return [str(model["id"]) for model in reply.json()["data"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{url} answers HTTP {reply.status_code} and no list of models",
            "check --openai-base-url; it ends with /v1",
        ) from error


async def _answer(url: str, headers: dict[str, str], note: Callable[[str], None]) -> httpx.Response:
    """The first answer of a server that listens and has loaded its model."""
    ends = time.monotonic() + STARTING_S
    noted = False
    async with httpx.AsyncClient(timeout=TIMEOUT_S, headers=headers) as client:
        while True:
            is_over = time.monotonic() > ends
            try:
                reply = await client.get(url)
                if reply.status_code != httpx.codes.SERVICE_UNAVAILABLE or is_over:
                    return reply
            except (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError):
                if is_over:
                    raise
            if not noted:
                note(f"waiting for the model server at {url}, for {STARTING_S:.0f} s at most")
                noted = True
            await asyncio.sleep(PAUSE_S)

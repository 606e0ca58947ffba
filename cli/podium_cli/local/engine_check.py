"""Checks a user's own model server before anything is started."""

from difflib import get_close_matches

import httpx
import tenacity

from podium_cli.local.engines import EngineChoice
from podium_kit.client.errors import UserError

TIMEOUT_S = 10.0
# It may have been started a moment ago.
STARTING_S = 15.0


async def check_engine(choice: EngineChoice) -> None:
    """Raises UserError when the server of --openai-base-url does not serve the model."""
    if not choice.openai_base_url:
        return
    served = await _served_models(choice)
    if choice.model not in served:
        near = get_close_matches(choice.model, served) or served[:5]
        fix = f"use --openai-model {' or '.join(near)}" if near else "check --openai-model"
        raise UserError(f"{choice.openai_base_url} serves no model {choice.model!r}", fix)


async def _served_models(choice: EngineChoice) -> list[str]:
    url = f"{choice.openai_base_url.rstrip('/')}/models"
    headers = {"authorization": f"Bearer {choice.openai_api_key}"} if choice.openai_api_key else {}
    try:
        reply = await _answer(url, headers)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise UserError(
            f"no model server answers at {url} ({type(error).__name__})",
            "check --openai-base-url; it ends with /v1",
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


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(httpx.ConnectError),
    wait=tenacity.wait_fixed(0.5),
    stop=tenacity.stop_after_delay(STARTING_S),
    reraise=True,
)
async def _answer(url: str, headers: dict[str, str]) -> httpx.Response:
    async with httpx.AsyncClient(timeout=TIMEOUT_S, headers=headers) as client:
        return await client.get(url)

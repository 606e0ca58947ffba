"""Guardrails that are servers of tenants, asked before a call is made and before a result is shown.

The worker holds what a question costs before it makes the call, and captures it.
"""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from podium_kit.failures import FailureKind
from podium_kit.rpc.identity import current_identity
from podium_kit.text import one_line
from tool_adapters.adapter import CallFailed, reply_json
from tool_adapters.guardrails.models import Guardrail, GuardrailFinding, Reading, ServerCheck
from tool_adapters.http.client import HttpClient, HttpRequest, host_of, is_success
from tool_adapters.secret_store import SecretStore, for_header, holder
from tool_adapters.used_secrets import UsedSecrets, noting_secrets

REASON_CHARACTERS_MAX = 300
# An answer may repeat all texts, escaped.
ANSWER_BYTES_MIN = 65_536


class Undecided(Exception):
    """A server gave no answer that decides; the message is the reason."""


@dataclass(frozen=True)
class ServerGuardrails:
    http: HttpClient
    secrets: SecretStore

    async def find(
        self, guardrail: Guardrail, check: ServerCheck, reading: Reading
    ) -> GuardrailFinding | None:
        """Raises Undecided."""
        body = {
            "guardrail": guardrail.name,
            "stage": reading.stage.value,
            "tool": reading.tool,
            "model": reading.model,
            "texts": reading.texts,
        }
        sent = json.dumps(body).encode()
        with noting_secrets() as used:
            try:
                async with asyncio.timeout(check.timeout_s):
                    answer = await self._answer(check, sent)
            except TimeoutError:
                raise Undecided(f"no answer within {check.timeout_s:g} s") from None
            except CallFailed as error:
                raise Undecided(used.redact(error.failure.message)) from error
            except (ValueError, RecursionError):
                raise Undecided("the answer is not JSON") from None
        return _finding(answer, reading, used)

    async def _answer(self, check: ServerCheck, sent: bytes) -> Any:
        tenant = current_identity().tenant
        headers = {"content-type": "application/json", "user-agent": "podium-guardrails/1"}
        credential = (holder(tenant, check.secret), check.secret) if check.secret else ()
        if check.secret:
            value = await self.secrets.value(tenant, check.secret, host_of(check.url))
            headers["authorization"] = f"Bearer {for_header(check.secret, value)}"
        request = HttpRequest("POST", check.url, headers, body=sent, credential=credential)
        async with self.http.opened(request) as arriving:
            reply = await arriving.whole(max(ANSWER_BYTES_MIN, 2 * len(sent)))
        if not is_success(reply.status):
            raise CallFailed(FailureKind.TOOL_ERROR, f"the answer has status {reply.status}")
        return reply_json(reply.body)


def _finding(answer: Any, reading: Reading, used: UsedSecrets) -> GuardrailFinding | None:
    if not isinstance(answer, dict) or not isinstance(answer.get("flagged"), bool):
        raise Undecided('the answer lacks "flagged", true or false')
    if not answer["flagged"]:
        return None
    reason = answer.get("reason") or "the server flagged it"
    if not isinstance(reason, str):
        raise Undecided('"reason" of the answer is no text')
    texts = answer.get("texts")
    if texts is not None and not (
        isinstance(texts, list)
        and len(texts) == len(reading.texts)
        and all(isinstance(each, str) for each in texts)
    ):
        raise Undecided(f'"texts" of the answer are not the {len(reading.texts)} that were sent')
    if texts is not None and sum(map(len, texts)) > sum(map(len, reading.texts)):
        # A hold covers what was to be sent.
        raise Undecided('"texts" of the answer are longer than those that were sent')
    shown = one_line(used.redact(reason), REASON_CHARACTERS_MAX)
    return GuardrailFinding(shown, None if texts is None else tuple(map(used.redact, texts)))

"""The receiver's side of webhooks: verification, and the event."""

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

from pydantic import AwareDatetime, BaseModel, ValidationError

from podium_client.errors import PodiumError

PREFIX = "whsec_"
TOLERANCE_S = 300.0


class InvalidWebhook(PodiumError):
    """The request was not signed with the secret, or is too old: reject it."""


class WebhookEvent(BaseModel):
    """An event; `id` is the same for every attempt, so a receiver can drop a repeated one."""

    id: str
    # Like "episode.ended".
    type: str
    timestamp: AwareDatetime
    data: dict[str, Any]


def verify_webhook(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str,
    *,
    tolerance_s: float = TOLERANCE_S,
) -> WebhookEvent:
    """The event of a request whose body is given as it arrived.

    Raises InvalidWebhook.
    """
    given = {name.lower(): value for name, value in headers.items()}
    message_id, sent = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    content = body.encode() if isinstance(body, str) else body
    if not sent.isdecimal() or abs(time.time() - int(sent)) > tolerance_s:
        raise InvalidWebhook("webhook-timestamp is missing, or too far from this machine's time")
    expected = _signature(secret, f"{message_id}.{sent}.".encode() + content)
    found = [each.partition(",") for each in given.get("webhook-signature", "").split()]
    if not any(
        version == "v1" and hmac.compare_digest(value.encode(), expected)
        for version, _, value in found
    ):
        raise InvalidWebhook("no signature is of this secret and body")
    try:
        return WebhookEvent.model_validate({**json.loads(content), "id": message_id})
    except (ValueError, TypeError, ValidationError) as error:
        raise InvalidWebhook(f"the body is no event: {error}") from error


def _signature(secret: str, signed: bytes) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise InvalidWebhook(f"the secret is not {PREFIX} and base64") from None
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256))

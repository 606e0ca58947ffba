import asyncio
import base64
import binascii
import hashlib
import hmac
import re
import time
from dataclasses import dataclass

from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc.errors import InvalidArgument
from tool_adapters.adapter import CallFailed
from tool_adapters.http.client import HttpClient, HttpRequest
from tool_adapters.secret_store import SecretStore

PREFIX = "whsec_"
# What Standard Webhooks asks of a secret.
BYTES_MIN, BYTES_MAX = 24, 64
TIMEOUT_S = 15.0
BODY_BYTES_MAX = 64 * 1024


class UnusableSecret(ValueError):
    """The value is no secret of a webhook; the message says what one is, and no value."""

    def __init__(self) -> None:
        super().__init__(
            f"a webhook's secret is {PREFIX} and the base64 of {BYTES_MIN} to {BYTES_MAX} bytes, "
            f'as `echo "{PREFIX}$(openssl rand -base64 32)"` makes one'
        )


def signatures(secrets: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Signatures of Standard Webhooks, one for each secret: HMAC-SHA256 of id, time and body."""
    keys = [_key(secret) for secret in secrets.split()]
    if not keys:
        raise UnusableSecret
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.digest(key, signed, hashlib.sha256) for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def _key(secret: str) -> bytes:
    if not secret.startswith(PREFIX):
        raise UnusableSecret
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise UnusableSecret from None
    if not BYTES_MIN <= len(key) <= BYTES_MAX:
        raise UnusableSecret
    return key


MESSAGE_ID = re.compile(r"[!-\-/-~]{1,200}")


@dataclass(frozen=True)
class WebhookMessage:
    """A message and its receiver; `secret` is the name of one of the tenant's."""

    tenant: str
    message_id: str
    url: str
    secret: str
    body: bytes


class Deliveries:
    def __init__(self, http: HttpClient, secrets: SecretStore) -> None:
        self._http = http
        self._secrets = secrets

    async def deliver(self, message: WebhookMessage) -> int | ToolFailure:
        """The status of the answer, whose body is not read; or why there is none. Raises
        InvalidArgument.
        """
        if not MESSAGE_ID.fullmatch(message.message_id):
            raise InvalidArgument("message_id is empty, too long or holds a full stop or a space")
        if len(message.body) > BODY_BYTES_MAX:
            raise InvalidArgument(f"body_json is larger than {BODY_BYTES_MAX} bytes")
        try:
            request = await self._signed(message)
            async with asyncio.timeout(TIMEOUT_S), self._http.opened(request) as arriving:
                return arriving.status
        except CallFailed as error:
            return error.failure
        except TimeoutError:
            words = f"the receiver did not answer within {TIMEOUT_S:g} s"
            return ToolFailure(FailureKind.TIMEOUT, words, retryable=True)

    async def _signed(self, message: WebhookMessage) -> HttpRequest:
        timestamp = int(time.time())
        value = await self._secrets.value(message.tenant, message.secret)
        try:
            signature = signatures(value, message.message_id, timestamp, message.body)
        except UnusableSecret as error:
            raise CallFailed(FailureKind.PERMISSION_DENIED, str(error)) from None
        headers = {
            "content-type": "application/json",
            "user-agent": "podium-webhooks/1",
            "webhook-id": message.message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature,
        }
        credential = (message.tenant, message.secret)
        return HttpRequest("POST", message.url, headers, body=message.body, credential=credential)

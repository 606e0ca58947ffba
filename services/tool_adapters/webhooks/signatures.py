"""Signatures of Standard Webhooks: HMAC-SHA256 over id, time and body."""

import base64
import binascii
import hashlib
import hmac

PREFIX = "whsec_"
# What Standard Webhooks asks of a secret.
BYTES_MIN, BYTES_MAX = 24, 64


class UnusableSecret(ValueError):
    """The value is no secret of a webhook; the message says what one is, and no value."""

    def __init__(self) -> None:
        super().__init__(
            f"a webhook's secret is {PREFIX} and the base64 of {BYTES_MIN} to {BYTES_MAX} bytes, "
            f'as `echo "{PREFIX}$(openssl rand -base64 32)"` makes one'
        )


def signatures(secrets: str, message_id: str, timestamp: int, body: bytes) -> str:
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

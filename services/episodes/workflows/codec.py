"""Payloads of workflows and activities: small, and encrypted where there are keys.

With keys, a payload that is not encrypted is rejected where it is read: a writer to Temporal could
otherwise forge an approval. A signal with one is dropped, and does not hold its workflow up. An
over-large argument would be retried by the server for ever without a visible error, and an
over-large result as if it could shrink.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverter,
    DefaultFailureConverterWithEncodedAttributes,
    DefaultPayloadConverter,
    PayloadCodec,
)
from temporalio.exceptions import ApplicationError

from podium_kit.crypto.key_file import InvalidKeyFile, KeyFile
from podium_kit.rpc.errors import FailedPrecondition

NONCE_BYTES = 12
# As Temporal's own samples name them, which tools that show payloads know.
ENCODING, KEY_ID = "encoding", "encryption-key-id"
ENCRYPTED = b"binary/encrypted"
# Of what was not encrypted; its data is the reason.
REJECTED = b"binary/rejected"
SETTING = "TEMPORAL__PAYLOAD_KEYS_FILE"


class UnreadablePayload(FailedPrecondition):
    """A payload that no key opens. Temporal retries, so nothing is lost once the key is back."""


class PayloadEncryption(PayloadCodec):
    """AES-256-GCM under the current key of the file; without a file nothing is encrypted."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else KeyFile(path)
        self._keys()

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        if self._file is None:
            return list(payloads)
        key_id, key = list(self._keys().items())[-1]
        return [_sealed(payload, key_id, key) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        keys = self._keys()
        return [self._opened(each, keys) for each in payloads]

    def _opened(self, payload: Payload, keys: dict[str, bytes]) -> Payload:
        if bytes(payload.metadata.get(ENCODING, b"")) != ENCRYPTED:
            if self._file is None:
                return payload
            reason = (
                f"the history is not encrypted, although {SETTING} is set: a process that writes"
                " to it lacks the file"
            )
            return Payload(metadata={ENCODING: REJECTED}, data=reason.encode())
        key_id = bytes(payload.metadata.get(KEY_ID, b"")).decode(errors="replace")
        of = f"the history is encrypted with the key {key_id}"
        if self._file is None:
            raise UnreadablePayload(f"{of}: set {SETTING} to the file that has it")
        if key_id not in keys:
            raise UnreadablePayload(
                f"{of}, which {self._file.path} ({SETTING}) lacks: add it above the last line"
            )
        nonce, sealed = payload.data[:NONCE_BYTES], payload.data[NONCE_BYTES:]
        try:
            return Payload.FromString(AESGCM(keys[key_id]).decrypt(nonce, sealed, None))
        except (InvalidTag, ValueError):
            raise UnreadablePayload(
                f"{of}, and the one in {self._file.path} ({SETTING}) does not open it: put the "
                "former one back, a new key needs an id of its own"
            ) from None

    def _keys(self) -> dict[str, bytes]:
        if self._file is None:
            return {}
        try:
            return self._file.keys()
        except InvalidKeyFile as error:
            raise FailedPrecondition(f"{self._file.path} ({SETTING}) {error}") from None


def _sealed(payload: Payload, key_id: str, key: bytes) -> Payload:
    nonce = os.urandom(NONCE_BYTES)
    return Payload(
        metadata={ENCODING: ENCRYPTED, KEY_ID: key_id.encode()},
        data=nonce + AESGCM(key).encrypt(nonce, payload.SerializeToString(), None),
    )


PAYLOAD_BYTES_MAX = 64 * 1024


class BoundedPayloadConverter(DefaultPayloadConverter):
    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        payloads = super().to_payloads(values)
        for value, payload in zip(values, payloads, strict=True):
            if len(payload.data) > PAYLOAD_BYTES_MAX:
                raise ApplicationError(
                    f"{type(value).__name__} is {len(payload.data)} bytes; workflow payloads are"
                    f" at most {PAYLOAD_BYTES_MAX}, so pass a reference instead",
                    type="PayloadTooLarge",
                    non_retryable=True,
                )
        return payloads

    def from_payloads(
        self, payloads: Sequence[Payload], type_hints: list[type[Any]] | None = None
    ) -> list[Any]:
        for payload in payloads:
            if payload.metadata.get(ENCODING) == REJECTED:
                raise UnreadablePayload(payload.data.decode())
        return super().from_payloads(payloads, type_hints)


def data_converter(payload_keys_file: Path | None = None) -> DataConverter:
    return replace(
        DataConverter.default,
        payload_converter_class=BoundedPayloadConverter,
        payload_codec=PayloadEncryption(payload_keys_file),
        # What fails may say what it was about; without keys words stay where people look.
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes
        if payload_keys_file
        else DefaultFailureConverter,
    )

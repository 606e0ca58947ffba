"""What goes into a workflow's history: small payloads, encrypted where there are keys.

An over-large argument would otherwise be retried by the server for ever without
an error anyone sees; an over-large result would be retried as if it could shrink.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverter,
    DefaultFailureConverterWithEncodedAttributes,
    DefaultPayloadConverter,
)
from temporalio.exceptions import ApplicationError

from episodes.temporal.encryption import PayloadEncryption

PAYLOAD_BYTES_MAX = 64 * 1024


class BoundedPayloadConverter(DefaultPayloadConverter):
    """JSON payloads of at most 64 KiB."""

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


def data_converter(payload_keys_file: Path | None = None) -> DataConverter:
    """Of every client and worker. Raises FailedPrecondition when the file holds no keys."""
    return replace(
        DataConverter.default,
        payload_converter_class=BoundedPayloadConverter,
        payload_codec=PayloadEncryption(payload_keys_file),
        # What fails may say what it was about; without keys words stay where people look.
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes
        if payload_keys_file
        else DefaultFailureConverter,
    )

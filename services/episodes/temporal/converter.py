"""Rejects payloads that do not belong in a workflow's history.

An over-large argument would otherwise be retried by the server for ever without
an error anyone sees; an over-large result would be retried as if it could shrink.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter, DefaultPayloadConverter
from temporalio.exceptions import ApplicationError

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


DATA_CONVERTER = replace(DataConverter.default, payload_converter_class=BoundedPayloadConverter)

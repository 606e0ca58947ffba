"""Texts turned into vectors: how OpenAI's embeddings are asked for, and what is in a reply.

Source: OpenAI's API reference of embeddings, as vLLM and others serve it.
"""

import base64
import binascii
import json
import math
import struct
from collections.abc import Sequence
from typing import Any

from podium_kit.failures import FailureKind
from podium_kit.metering import Usage
from podium_kit.metering.usage_reports import estimated_usage, openai_usage
from tool_adapters.adapter import CallFailed, Output, reply_json
from tool_adapters.models import JsonObject, LlmModel

PATH = "/embeddings"
INPUTS_MAX = 2_048
DIMENSIONS_MAX = 65_536
# 2,048 vectors of 3,072 floats in base64, which is asked for.
REPLY_BYTES_MAX = 48 * 1024 * 1024
# What servers that know no base64 may write instead; a number takes ten times its bytes.
NUMBERS_MAX = 2_000_000
FLOAT_BYTES = 4
NOT_THE_API = (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError)


def embeddings_body(model: LlmModel, arguments: JsonObject) -> JsonObject:
    texts, dimensions = arguments.get("input"), arguments.get("dimensions")
    texts = [texts] if isinstance(texts, str) else texts
    if not _are_texts(texts):
        raise _invalid(f"input must be a text or a list of 1 to {INPUTS_MAX} texts, none empty")
    whole = isinstance(dimensions, int) and not isinstance(dimensions, bool)
    if dimensions is not None and not (whole and 1 <= dimensions <= DIMENSIONS_MAX):
        raise _invalid(f"dimensions must be a whole number from 1 to {DIMENSIONS_MAX}")
    body: JsonObject = {"model": model.model, "input": texts, "encoding_format": "base64"}
    return body if dimensions is None else body | {"dimensions": dimensions}


def read_embeddings(reply: bytes, count: int) -> tuple[Output, JsonObject]:
    """A vector for each text, in their order, and the report of usage. Raises CallFailed."""
    try:
        found: Any = reply_json(reply, NUMBERS_MAX)
        vectors: list[str | None] = [None] * count
        for item in found["data"]:
            vectors[_place(item["index"], count)] = _packed(item["embedding"])
        report = found.get("usage")
    except (RecursionError, *NOT_THE_API) as error:
        message = "the model server answered something else than vectors of its API"
        raise CallFailed(FailureKind.MALFORMED_OUTPUT, message) from error
    if None in vectors:
        message = f"the model server left out the vector of text {vectors.index(None)}"
        raise CallFailed(FailureKind.MALFORMED_OUTPUT, message)
    summary = f"{count} vectors" if count > 1 else "1 vector"
    # A report that is none is no reason to lose vectors that were paid for.
    return Output(summary, json.dumps({"embeddings": vectors})), (
        report if isinstance(report, dict) else {}
    )


def embeddings_usage(report: JsonObject, texts: Sequence[str], request_id: str) -> Usage:
    """The provider's report, or an estimate without one."""
    return openai_usage(report, request_id) or estimated_usage("".join(texts), "")


def _are_texts(texts: object) -> bool:
    if not isinstance(texts, list) or not 1 <= len(texts) <= INPUTS_MAX:
        return False
    return all(isinstance(text, str) and text for text in texts)


def _place(index: object, count: int) -> int:
    if not isinstance(index, int) or not 0 <= index < count:
        raise ValueError(f"there is no text {index}")
    return index


def _packed(vector: object) -> str:
    """Base64 of little-endian floats of 32 bits. Raises ValueError for what is no vector."""
    if isinstance(vector, str):
        try:
            raw = base64.b64decode(vector, validate=True)
        except binascii.Error as error:
            raise ValueError("no base64") from error
        if len(raw) % FLOAT_BYTES:
            raise ValueError("a float is cut off")
        numbers = struct.unpack(f"<{len(raw) // FLOAT_BYTES}f", raw)
    else:
        numbers = tuple(map(float, vector if isinstance(vector, list) else ()))
    if not numbers or not all(map(math.isfinite, numbers)):
        raise ValueError("no finite numbers")
    try:
        return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
    except (OverflowError, struct.error) as error:
        raise ValueError("no floats of 32 bits") from error


def _invalid(message: str) -> CallFailed:
    return CallFailed(FailureKind.INVALID_ARGUMENTS, message, unsent=True)

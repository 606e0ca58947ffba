import base64
import struct
from typing import Any

from gateway.chat.response import cost_json
from gateway.models import Vectors

FLOAT_BYTES = 4


def embeddings_response(
    vectors: Vectors, call_id: str, model: str, encoding_format: str
) -> dict[str, Any]:
    readable = _floats if encoding_format == "float" else str
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": readable(packed)}
            for index, packed in enumerate(vectors.packed)
        ],
        "model": model,
        "usage": {"prompt_tokens": vectors.tokens, "total_tokens": vectors.tokens},
        "podium": {
            "call_id": call_id,
            "cost": cost_json(vectors.cost),
            "policy": {"name": vectors.policy_name, "version": vectors.policy_version},
        },
    }


def _floats(packed: str) -> list[float]:
    raw = base64.b64decode(packed)
    return list(struct.unpack(f"<{len(raw) // FLOAT_BYTES}f", raw))

import json
from typing import Any

from podium_kit.failures import FailureKind
from podium_kit.limits.json_cost import MARKS_MAX, CostlyJson, require_bounded_json
from tool_adapters.adapter import CallFailed


def reply_json(body: str | bytes, marks_max: int = MARKS_MAX) -> Any:
    """Raises CallFailed for too many values; ValueError and RecursionError for what is no JSON."""
    raw = body.encode(errors="surrogatepass") if isinstance(body, str) else body
    try:
        require_bounded_json(raw, marks_max)
    except CostlyJson as error:
        message = f"the JSON of the answer {error}; ask for less"
        raise CallFailed(FailureKind.OUTPUT_TOO_LARGE, message) from error
    # By itself json also reads UTF-16, in which other bytes are commas.
    return json.loads(body if isinstance(body, str) else raw.decode("utf-8-sig"))

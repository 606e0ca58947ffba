"""Makes the chart's schema of the trainer's settings from the trainer's own.

    python scripts/trainer_schema.py charts/podium/schema/trainer.json

What the chart itself writes (the base model, how many processes, where the stream is, the page of
metrics) is left out.
"""

import json
import sys
from pathlib import Path
from typing import Any

from podium_training.grpo.config import RunConfig

Json = dict[str, Any]
OF_THE_CHART = ("model", "processes", "telemetry")
STREAM_OF_THE_USER = ("patience_s",)
LEFT_OUT = ("title", "default", "format")


def trainer_schema() -> Json:
    whole = RunConfig.model_json_schema()
    found: Json = _inlined(whole, whole["$defs"])
    properties = found["properties"]
    for name in OF_THE_CHART:
        del properties[name]
    stream = properties["stream"]
    stream["properties"] = {name: stream["properties"][name] for name in STREAM_OF_THE_USER}
    del stream["required"]
    # Where versions go is known where engines take them from a claim.
    publish = next(each for each in properties["publish"]["anyOf"] if "properties" in each)
    publish["required"].remove("store")
    found["required"] = [name for name in found["required"] if name in properties]
    found["required"].remove("stream")
    return found


def _inlined(node: Any, definitions: Json) -> Any:
    """Without references, titles and defaults, so that it can stand inside of another schema."""
    if isinstance(node, list):
        return [_inlined(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        found = _inlined(definitions[node["$ref"].rsplit("/", 1)[1]], definitions)
        return found | ({"description": node["description"]} if "description" in node else {})
    return {
        key: {name: _inlined(each, definitions) for name, each in value.items()}
        if key == "properties"
        else _inlined(value, definitions)
        for key, value in node.items()
        if key not in ("$defs", *LEFT_OUT)
    }


def main() -> int:
    Path(sys.argv[1]).write_text(json.dumps(trainer_schema(), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

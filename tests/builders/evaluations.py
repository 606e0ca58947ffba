"""Judged episodes as the gate reads them."""

from decimal import Decimal
from typing import Any

from podium_training.gate import Evaluated


def evaluated(task: int, version: str, score: float | None, **changes: Any) -> Evaluated:
    fields: dict[str, Any] = {
        "task_id": f"task-{task}",
        "seed": 0,
        "score": score,
        "cost": Decimal("0.01"),
        "latency_s": 1.0,
        "actions": 3,
        "malformed_actions": 0,
        "tool_calls": 2,
        "failed_tool_calls": 0,
        "model_versions": (version,),
    }
    return Evaluated(**(fields | changes))

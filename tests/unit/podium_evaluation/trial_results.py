from decimal import Decimal
from typing import Any

from podium_evaluation.results.trials import TrialResult


def trial(arm: str, item: str, score: float | None = 1.0, **fields: Any) -> TrialResult:
    """A judged trial that cost 0.01 and took a second, or one of another state."""
    values: dict[str, Any] = {
        "family": "sums",
        "question": f"what is {item}?",
        "repeat": 0,
        "episode_id": f"{arm}-{item}",
        "state": "judged" if score is not None else "unjudged",
        "stop_reason": "answered",
        "explanation": "",
        "cost": Decimal("0.01"),
        "orchestrator_cost": Decimal("0.001"),
        "judge_cost": None,
        "simulator_cost": None,
        "latency_s": 1.0,
        "turns": 1,
        "tool_calls": 0,
        "calls": {},
    }
    return TrialResult(arm=arm, item_id=item, score=score, **{**values, **fields})

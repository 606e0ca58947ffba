from decimal import Decimal
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Objective(StrEnum):
    SCORE = "score"
    COST = "cost"
    LATENCY = "latency"
    FORMAT = "format"
    TOOL_ERRORS = "tool_errors"


class GateRules(BaseModel):
    """Rules: no worse than the promoted policy, better in one objective, within hard limits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    delta: float = Field(0.02, ge=0, description="score a candidate may at most lose")
    objective: Objective = Field(Objective.SCORE, description="what it must be better at")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="of every bound, in the whole")
    looks: int = Field(1, ge=1, description="how often a growing evaluation is looked at, at most")
    pairs_min: int = Field(30, ge=1, description="tasks with pairs before a decision")
    unjudged_max: float = Field(0.05, ge=0, le=1, description="share nobody could judge")
    cost_max: Decimal | None = Field(None, ge=0, description="mean cost of a task")
    latency_p95_max_s: float | None = Field(None, gt=0, description="seconds")
    format_validity_min: float = Field(0.95, ge=0, le=1, description="share of actions")
    tool_error_rate_max: float = Field(0.2, ge=0, le=1, description="share of tool calls")

    @property
    def look_confidence(self) -> float:
        """Confidence of one look, so that all together err no oftener than allowed.

        Bonferroni: simple and on the safe side, at whatever moments the looks happen.
        """
        return 1 - (1 - self.confidence) / self.looks

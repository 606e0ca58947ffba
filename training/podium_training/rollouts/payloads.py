"""Payloads of rollout runs in Temporal.

Small: tasks stay in their file, results in the platform.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RolloutLimits:
    """Limits of every episode of a run."""

    model: str = ""
    """"" takes the promoted version, or the engine's default."""
    turn_limit: int = 6
    time_limit_s: float = 120.0
    temperature: float = 1.0
    """Temperature of sampling; 0 is greedy, for evaluation: such episodes are not trained on."""
    max_tokens: int = 512
    """Most tokens of one completion."""
    prompt_mode: int = 0
    """podium.orchestrator.v1.PromptMode."""


@dataclass(frozen=True)
class RolloutTotals:
    groups: int = 0
    episodes: int = 0
    solved: int = 0
    unjudged: int = 0

    def plus(self, other: "RolloutTotals") -> "RolloutTotals":
        return RolloutTotals(
            self.groups + other.groups,
            self.episodes + other.episodes,
            self.solved + other.solved,
            self.unjudged + other.unjudged,
        )


@dataclass(frozen=True)
class RolloutRun:
    """One run. What has a default below `limits` is filled in as the run continues."""

    task_file: str
    """JSONL of tasks, as the workers see it."""
    task_digest: str
    """SHA-256 of its bytes: a run that continues must find the tasks it began with."""
    group_size: int
    groups_at_once: int
    tools_max: int
    limits: RolloutLimits
    run_id: str = ""
    """UUIDv7 that every id of the run follows from; "" makes one, as a schedule does."""
    tool_names: list[str] = field(default_factory=list)
    """Tools of the platform when the run began."""
    tool_skus: dict[str, list[str]] = field(default_factory=dict)
    """SKUs that price their calls."""
    group_count: int = 0
    done: RolloutTotals = field(default_factory=RolloutTotals)
    price_spread: float = 1.0
    """Prices are told to groups up to so many times more expensive or cheaper."""
    tool_subsets: int = 0
    """So many choices of tools for all groups together; 0: every group has its own."""
    always: list[str] = field(default_factory=list)
    """Tools that every group is offered besides."""
    policies: list[str] = field(default_factory=list)
    """Every group has one of them; none: the tenant's."""
    withheld: float = 0.0
    """Share of the groups that are not offered the tools of their solution."""


@dataclass(frozen=True)
class PlannedRun:
    """The plan of a run, frozen before its first episode."""

    tool_names: list[str]
    group_count: int
    tool_skus: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupOfRun:
    """One group, by its place in the plan."""

    run: RolloutRun
    index: int


@dataclass(frozen=True)
class RolloutProgress:
    """A run as far as it has come."""

    run_id: str
    group_count: int
    done: RolloutTotals

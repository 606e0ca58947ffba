from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class InvalidEvaluation(ValueError):
    """An evaluation cannot be used; the message says why."""


class Evaluated(BaseModel):
    """One judged episode. Evaluations are JSON lines of these."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task_id: str = Field(min_length=1)
    seed: int
    score: float | None = Field(ge=0, le=1)
    """The verifier's; None when it could not be judged."""
    cost: Decimal | None = Field(ge=0)
    """None when a call had no price: unknown is not free."""
    orchestrator_cost: Decimal | None = Field(None, ge=0)
    """The part of the cost that is the orchestrator's own tokens; None when it is unknown."""
    latency_s: float = Field(ge=0)
    actions: int = Field(ge=0)
    malformed_actions: int = Field(ge=0)
    tool_calls: int = Field(ge=0)
    failed_tool_calls: int = Field(ge=0)
    calls: dict[str, int] = {}
    """Counts by tool, and by model of a tool that has several, as `ask_llm/expert`."""
    model_versions: tuple[str, ...] = Field(min_length=1)
    """Versions that answered its calls, as the engine reported."""


Pair = tuple[Evaluated, Evaluated]


def read_evaluation(path: Path) -> list[Evaluated]:
    """The episodes of a JSONL file. Raises InvalidEvaluation naming the line."""
    try:
        with path.open(encoding="utf-8") as file:
            lines = list(file)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidEvaluation(f"{path} cannot be read: {error}") from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(Evaluated.model_validate_json(line))
        except ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(map(str, fault["loc"]))
            raise InvalidEvaluation(f"{path}, line {number}: {where}: {fault['msg']}") from error
    return found


def pair(candidate: Sequence[Evaluated], promoted: Sequence[Evaluated]) -> list[Pair]:
    """Episodes of the same task and seed, in the candidate's order.

    Raises InvalidEvaluation unless both did exactly the same, each once: leaving out what one
    did not finish would favour it.
    """
    ours, theirs = _by_key(candidate), _by_key(promoted)
    if odd := sorted(ours.keys() ^ theirs.keys()):
        task, seed = odd[0]
        raise InvalidEvaluation(
            f"{len(odd)} episodes have no partner, such as task {task}, seed {seed};"
            " evaluate both policies on the same tasks and seeds"
        )
    return [(one, theirs[key]) for key, one in ours.items()]


def _by_key(episodes: Sequence[Evaluated]) -> dict[tuple[str, int], Evaluated]:
    found = {(each.task_id, each.seed): each for each in episodes}
    if len(found) != len(episodes):
        raise InvalidEvaluation("a task and seed was evaluated twice; keep one of them")
    return found

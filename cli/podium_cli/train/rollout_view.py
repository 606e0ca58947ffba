from collections.abc import Sequence
from statistics import fmean
from typing import Any

from podium_cli.formats import format_seconds
from podium_cli.listing import Listing, listing
from podium_training.rollouts.plan import Group
from podium_training.rollouts.rolling import Rolled

COLUMNS = ("task", "tools#", "solved#", "unjudged#", "time#", "question…")


def rollout_table(groups: Sequence[Group], rolled: Sequence[Rolled]) -> Listing:
    return listing(COLUMNS, [_row(group, _of(group, rolled)) for group in groups])


def rollout_values(
    run_id: str, groups: Sequence[Group], rolled: Sequence[Rolled]
) -> dict[str, Any]:
    """The same for JSON output; the score of an unjudged answer is null."""
    return {"run": run_id, "groups": [_values(group, _of(group, rolled)) for group in groups]}


def summary(rolled: Sequence[Rolled]) -> str:
    """Like "5 of 8 episodes solved, 1 unjudged"."""
    solved = sum(each.score == 1 for each in rolled)
    unjudged = sum(each.score is None for each in rolled)
    return f"{solved} of {len(rolled)} episodes solved, {unjudged} unjudged"


def _of(group: Group, rolled: Sequence[Rolled]) -> list[Rolled]:
    return [each for each in rolled if each.group.id == group.id]


def _row(group: Group, members: Sequence[Rolled]) -> tuple[str, ...]:
    solved = sum(each.score == 1 for each in members)
    return (
        group.task.id,
        str(len(group.tool_names)),
        f"{solved}/{len(members)}",
        str(sum(each.score is None for each in members)),
        format_seconds(fmean(each.latency_s for each in members)),
        group.task.question,
    )


def _values(group: Group, members: Sequence[Rolled]) -> dict[str, Any]:
    return {
        "group": group.id,
        "task": group.task.id,
        "tools": list(group.tool_names),
        "episodes": [
            {
                "id": each.rollout.episode_id,
                "stop_reason": each.stop_reason,
                "score": each.score,
                "reason": each.reason,
                "cost": str(each.cost.amount) if each.cost else None,
                "seconds": each.latency_s,
            }
            for each in members
        ],
    }

"""The rules of choosing that everybody has, over the experts of a study."""

from collections.abc import Sequence

from bench.orchestrators.comparison import cost
from bench.orchestrators.journal import Results
from podium_evaluation.results.baselines import Baseline, Choice, ItemOutcome, baselines
from podium_training.tasks.task import Task

CHOOSERS_HEADER = (
    "| Policy | Rule over the experts | Outcome | Cost, USD | Most chosen | Gap closed |\n"
    "|---|---|---|---|---|---|"
)


def choosers(results: Results, experts: Sequence[str], tasks: Sequence[Task]) -> list[Baseline]:
    """The experts' own calls and costs: a rule has no tokens and no tools of its own."""
    played = {arm: results[arm] for arm in experts if arm in results}
    known = {task.id: task for task in tasks}
    items = []
    for episodes in zip(*played.values(), strict=True):
        task = known[episodes[0].task_id]
        choices = {
            arm: Choice(one.score or 0.0, cost(one))
            for arm, one in zip(played, episodes, strict=True)
        }
        items.append(ItemOutcome(task.id, task.family, task.question, choices))
    return baselines(items)


def chooser_row(policy: str, row: Baseline) -> str:
    score = f"{row.score.mean:.2f} [{row.score.lower:.2f}, {row.score.upper:.2f}]"
    share = "" if row.top_share is None else f"{row.top_share:.2f}"
    gap = "" if row.gap_closed is None else f"{row.gap_closed:.2f}"
    return f"| {policy} | {row.name} | {score} | {row.cost:.6f} | {share} | {gap} |"

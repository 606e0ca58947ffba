"""The command that compares what answers a policy's users now with what did before."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from statistics import fmean
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from episodes.evaluations.sequential import ArmScores, SequentialResult, compare
from podium.registry.v1 import policy_pb2
from podium_cli.command import Session, command
from podium_cli.formats import format_seconds
from podium_cli.listing import Listing, listing
from podium_cli.train.learning_journal import last_promotion, learning_steps
from podium_cli.train.train import app
from podium_evaluation.statistics.measures import percentile
from podium_evaluation.suites.past_episodes import EpisodeFilter, users_episodes
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway
from podium_training.gate import Evaluated
from podium_training.gate.rules import mean_cost
from podium_training.rollouts.evaluating import evaluated

TOOLS_SHOWN = 8


@dataclass(frozen=True)
class Served:
    """Users' episodes that one model answered."""

    model: str
    episodes: Sequence[Evaluated]
    scores: ArmScores

    @property
    def values(self) -> dict[str, Any]:
        """An unknown figure is null."""
        latencies = [each.latency_s for each in self.episodes]
        cost = mean_cost(self.episodes)
        mean = self.scores.total / self.scores.count if self.scores.count else None
        return {
            "model": self.model,
            "episodes": len(self.episodes),
            "scored": self.scores.count,
            "mean_score": mean,
            "mean_cost": None if cost is None else f"{cost:f}",
            "mean_latency_s": fmean(latencies) if latencies else None,
            "latency_p95_s": percentile(latencies, 0.95) if latencies else None,
            "calls_per_episode": self._calls,
        }

    @property
    def _calls(self) -> dict[str, float]:
        calls = Counter[str]()
        for each in self.episodes:
            calls.update(each.calls)
        return {name: count / len(self.episodes) for name, count in calls.most_common()}


@command(app, "monitor")
async def monitor(
    session: Session,
    policy: Annotated[str, typer.Argument(help="Policy that a version was promoted for.")],
    *,
    count: Annotated[
        int, typer.Option(min=1, max=5000, help="Most episodes of either, the newest.")
    ] = 500,
) -> None:
    """Compare users' episodes since a policy's last promotion with those before it.

    Score, cost, latency and calls of each tool. Exit status 1 when the score is surely lower
    (95 %, also when it is looked at every day): `podium train rollback --policy POLICY`.
    """
    async with session.gateway() as gateway:
        step = last_promotion(await learning_steps(gateway, policy))
        if step is None:
            cause = f"nothing answers policy {policy} that was promoted for it"
            raise UsageError(cause, f"see `podium train cycles {policy}`")
        now, before = await _both(gateway, policy, step, count)
    found = compare(before.scores, now.scores)
    values = {
        "now": now.values,
        "before": before.values,
        "difference": found.difference,
        "lower": found.lower,
        "upper": found.upper,
    }
    session.output.result(values, Group(_table(now.values, before.values), Text(_words(found))))
    if found.upper < 0:
        raise typer.Exit(1)


async def _both(
    gateway: Gateway, policy: str, step: policy_pb2.LearningStep, count: int
) -> tuple[Served, Served]:
    """The version's episodes and the others' before it; its canary is in neither."""
    promoted = step.create_time.ToDatetime(UTC)
    since = EpisodeFilter(policy, since=promoted, count=count)
    until = EpisodeFilter(policy, until=promoted, count=count)
    before = step.facts["before"] or "the default model"
    return (
        await _served(gateway, since, step.model, step.model, by_it=True),
        await _served(gateway, until, before, step.model, by_it=False),
    )


async def _served(
    gateway: Gateway, wanted: EpisodeFilter, name: str, version: str, *, by_it: bool
) -> Served:
    found, scores = list[Evaluated](), list[float]()
    async for trajectory, score in users_episodes(gateway, wanted):
        each = evaluated(trajectory)
        if each is None or (version in each.model_versions) is not by_it:
            continue
        found.append(each)
        if score is not None:
            scores.append(score)
        if len(found) >= wanted.count:
            break
    return Served(name, found, ArmScores(len(scores), sum(scores)))


def _table(now: dict[str, Any], before: dict[str, Any]) -> Listing:
    names = ("model", "episodes", "scored", "mean_score", "mean_cost")
    rows: list[Sequence[str]] = [
        (name.replace("_", " "), _cell(before[name]), _cell(now[name])) for name in names
    ]
    for name in ("mean_latency_s", "latency_p95_s"):
        cells = (
            "?" if each[name] is None else format_seconds(each[name]) for each in (before, now)
        )
        rows.append((name.removesuffix("_s").replace("_", " "), *cells))
    calls = [each["calls_per_episode"] for each in (before, now)]
    for tool in list(dict.fromkeys(name for each in calls for name in each))[:TOOLS_SHOWN]:
        shares = [f"{each.get(tool, 0):.2f}" for each in calls]
        rows.append((f"calls of {tool}", shares[0], shares[1]))
    return listing(("", "before#", "now#"), rows)


def _cell(value: object) -> str:
    if value is None:
        return "?"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _words(found: SequentialResult) -> str:
    words = f"score {found.difference:+.3f}, from {found.lower:+.3f} to {found.upper:+.3f}"
    return f"{words} with 95 % certainty over all looks"

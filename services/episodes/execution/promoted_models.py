"""Metrics of the models that learning promoted: how the users of their policies fare.

Counted are episodes that name no model, of a policy with a promoted one; not replays, groups and
runs. There is a series for each promotion, however many episodes it answers.
"""

from collections.abc import Mapping

from episodes.evaluations.models import TrialOutcome
from episodes.models import NewEpisode
from podium.episodes.v1 import episode_pb2
from podium.registry.v1 import toolset_pb2
from podium_kit import telemetry

_meter = telemetry.get_meter(__name__)
_scores = _meter.create_histogram(
    "podium.learning.score",
    "{score}",
    "first score of an episode that a promoted model answered",
    explicit_bucket_boundaries_advisory=[0.25, 0.5, 0.75, 1.0],
)
_costs = _meter.create_histogram(
    "podium.learning.cost", "{money}", "known cost of an episode that a promoted model answered"
)
_latencies_s = _meter.create_histogram(
    "podium.learning.latency", "s", "time of an episode that a promoted model answered"
)


# An episode of these is no user's.
MADE_LABELS = ("evaluation", "run")


def is_users(spec: episode_pb2.EpisodeSpec) -> bool:
    """Returns whether an episode is as users get it: with the default model, and by itself."""
    made = any(name in spec.labels for name in MADE_LABELS)
    return not (made or spec.model or spec.replay_of or spec.group.size > 1)


def observe_end(new: NewEpisode, toolset: toolset_pb2.Toolset, outcome: TrialOutcome) -> None:
    if not (labels := _labels(new, toolset)):
        return
    _latencies_s.record(outcome.latency_s, labels)
    if outcome.cost is not None:
        currency = {"podium.cost.currency": outcome.cost.currency_code}
        _costs.record(float(outcome.cost.amount), {**labels, **currency})
    if outcome.score is not None:
        _scores.record(outcome.score, labels)


def observe_feedback(new: NewEpisode, score: float) -> None:
    """Counts the first score that feedback gives; a check's was counted at the episode's end."""
    if episode_pb2.EpisodeSpec.FromString(new.spec).HasField("check"):
        return
    if labels := _labels(new, toolset_pb2.Toolset.FromString(new.toolset)):
        _scores.record(score, labels)


def _labels(new: NewEpisode, toolset: toolset_pb2.Toolset) -> Mapping[str, str]:
    """Empty for an episode that is not counted; a candidate's names its model."""
    # Messages that follow each other are merged.
    if not (
        toolset.model and is_users(episode_pb2.EpisodeSpec.FromString(new.spec + new.assigned))
    ):
        return {}
    return {
        "podium.tenant": new.tenant,
        "podium.policy": toolset.policy_name,
        "gen_ai.request.model": toolset.model,
    }

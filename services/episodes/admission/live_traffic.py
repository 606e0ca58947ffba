"""Live traffic: which episodes a candidate gets, and the shadows that replay those that ended."""

import hashlib
import json
import logging
from dataclasses import dataclass

from episodes.admission.checks import ToolOffers, admit
from episodes.clients import OrchestratorModels
from episodes.errors import TRANSIENT
from episodes.evaluations.models import Item, LiveEvaluation, Shadow
from episodes.evaluations.sequential import ArmScores, SequentialResult, compare
from episodes.evaluations.store_live import LiveStore
from episodes.execution.promoted_models import is_users
from episodes.store import EpisodeStore
from podium.episodes.v1 import check_pb2, episode_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_kit.derived_ids import derived_uuid7
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import Identity, Scope, acting_as

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 1.0
UNKNOWN = ArmScores(0, 0.0)


@dataclass(frozen=True)
class Assignment:
    """An episode of a live evaluation: its candidate's model and policy, or the caller's own."""

    live: LiveEvaluation
    item: Item
    trials: dict[str, str]
    """Ids of episodes by arm."""
    spec: episode_pb2.EpisodeSpec
    """Model and policy in place of the caller's; empty for those of the caller."""


class LiveTraffic:
    """Assigns episodes at their start. Which ones follows from their ids."""

    def __init__(self, store: LiveStore) -> None:
        self._store = store

    async def assignment(
        self, tenant: str, episode_id: str, spec: episode_pb2.EpisodeSpec
    ) -> Assignment | None:
        if not is_users(spec):
            return None
        running = await self._store.known(tenant)
        found = (assigned(live, episode_id, spec) for live in running)
        return next(filter(None, found), None)

    async def record(self, assignment: Assignment) -> None:
        await self._store.assign(assignment.live, assignment.item, assignment.trials)


def assigned(
    live: LiveEvaluation, episode_id: str, spec: episode_pb2.EpisodeSpec
) -> Assignment | None:
    evaluation = pb.Evaluation.FromString(live.spec)
    traffic = evaluation.traffic
    if spec.policy != traffic.policy:
        return None
    own, candidate = evaluation.arms
    place = _place(live.id, episode_id)
    item = Item(episode_id, pb.EvaluationItem(id=episode_id).SerializeToString())
    unchanged = episode_pb2.EpisodeSpec()
    if traffic.use == pb.LIVE_USE_SHADOW:
        if place >= traffic.share or spec.attachments:
            return None
        trials = {own.name: episode_id, candidate.name: derived_uuid7(live.id, episode_id)}
        return Assignment(live, item, trials, unchanged)
    if place >= 2 * traffic.share:
        return None
    if place >= traffic.share:
        return Assignment(live, item, {own.name: episode_id}, unchanged)
    changed = episode_pb2.EpisodeSpec(model=candidate.model, policy=candidate.policy)
    return Assignment(live, item, {candidate.name: episode_id}, changed)


def _place(evaluation_id: str, episode_id: str) -> float:
    """A number from 0 to 1 that looks like chance and is the same for a repeated start."""
    digest = hashlib.sha256(f"{evaluation_id}/{episode_id}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


@dataclass(frozen=True)
class LiveEvaluations:
    """Starts the shadows that are due, and ends an A/B test as soon as it is decided."""

    live: LiveStore
    store: EpisodeStore
    offers: ToolOffers
    models: OrchestratorModels

    async def poll(self) -> None:
        for live in await self.live.running():
            evaluation = pb.Evaluation.FromString(live.spec)
            own, candidate = evaluation.arms
            if evaluation.traffic.use == pb.LIVE_USE_SHADOW:
                for shadow in await self.live.due(live, candidate.name):
                    await self._start(live, evaluation, shadow)
                if await self.live.any_not_run(live, candidate.name):
                    await self.live.end(live.tenant, live.id, "a budget of its shadows is spent")
                continue
            scores = await self.live.scores(live.tenant, live.id)
            ours, theirs = scores.get(own.name, UNKNOWN), scores.get(candidate.name, UNKNOWN)
            if (found := compare(ours, theirs)).decided:
                reason = words_of(found, ours.count + theirs.count)
                await self.live.end(live.tenant, live.id, reason)

    async def _start(self, live: LiveEvaluation, evaluation: pb.Evaluation, shadow: Shadow) -> None:
        """Raises the DomainError of a part of the platform that is away."""
        scopes = frozenset({Scope.EPISODES_RUN})
        identity = Identity(live.tenant, shadow.subject, scopes, shadow.groups)
        spec = shadow_spec(live, evaluation, shadow)
        with acting_as(identity):
            try:
                toolset = await self.offers.of(spec)
                await self.models.find(spec.model or toolset.model)
                new = admit(shadow.episode_id, spec, toolset, identity)
                await self.store.insert(new, queued=True)
            except TRANSIENT:
                raise
            except DomainError as error:
                # The candidate itself is at fault, or a tool of it: no shadow would do better.
                log.warning("a shadow of evaluation %s was rejected: %s", live.id, error.message)
                await self.live.end(
                    live.tenant, live.id, f"a shadow was rejected: {error.message}"[:1000]
                )


def shadow_spec(
    live: LiveEvaluation, evaluation: pb.Evaluation, shadow: Shadow
) -> episode_pb2.EpisodeSpec:
    """The user's order, for the candidate, as a replay that the evaluation's budget pays."""
    candidate, spec = evaluation.arms[1], episode_pb2.EpisodeSpec.FromString(shadow.spec)
    for field in ("group", "budget"):
        spec.ClearField(field)
    spec.model = candidate.model or spec.model
    spec.policy = candidate.policy or spec.policy
    spec.replay_of = shadow.replay_of
    spec.labels.clear()
    spec.labels.update({"evaluation": live.id, "agent": evaluation.budget_id})
    traffic = evaluation.traffic
    if not spec.HasField("check") and traffic.judges and shadow.answer:
        parameters = {
            "judges": list(traffic.judges),
            "reference": shadow.answer,
            "allow_own_family": traffic.allow_own_family,
        }
        spec.check.CopyFrom(check_pb2.Check(verifier="llm", parameters_json=json.dumps(parameters)))
    if spec.check.verifier == "state":
        spec.ClearField("check")
    return spec


def words_of(found: SequentialResult, scored: int) -> str:
    better = "better" if found.lower > 0 else "worse"
    return (
        f"the candidate is {better}: {found.difference:+.3f}, from {found.lower:+.3f} to"
        f" {found.upper:+.3f} with 95 % certainty, after {scored} scored episodes"
    )

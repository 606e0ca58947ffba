import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from episodes.errors import (
    EvaluationConflict,
    EvaluationNotFound,
    EvaluationReportNotFound,
    InvalidEvaluation,
    InvalidEvaluationReport,
    TrialNotEnded,
    TrialNotFound,
)
from episodes.evaluations.models import (
    TRIALS_MAX,
    ArmProgress,
    EnvironmentVerdict,
    EvaluationState,
    JudgeVerdict,
    NewEvaluation,
    StoredEvaluation,
    StoredTrial,
    VerdictPosition,
)
from episodes.evaluations.sequential import ArmScores
from episodes.evaluations.store import EvaluationStore
from episodes.evaluations.store_live import LiveStore
from episodes.evaluations.store_reports import RunReportStore
from episodes.evaluations.store_verdicts import VerdictStore
from episodes.keys import canonical_id
from podium_kit.rpc.identity import Scope, current_identity

# Raises an error where the orchestrator of an arm is not served, or has no price.
ModelCheck = Callable[[Mapping[str, str]], Awaitable[None]]


class Evaluations:
    """Runs of the caller's tenant: one's own, and every one for those who read trajectories."""

    def __init__(
        self,
        store: EvaluationStore,
        verdicts: VerdictStore,
        live: LiveStore,
        reports: RunReportStore,
        *,
        check_models: ModelCheck,
        runs_max: int,
    ) -> None:
        """Makes a service under which a tenant stores at most so many runs."""
        self._store = store
        self._verdicts = verdicts
        self._live = live
        self._reports = reports
        self._check_models = check_models
        self._runs_max = runs_max

    async def create(self, new: NewEvaluation) -> StoredEvaluation:
        _check(new)
        stored = await self._store.get(new.tenant, new.id)
        if stored is None:
            await self._check_models(new.models)
            stored = await self._store.add(new, self._runs_max)
        if (stored.spec, stored.suite_digest) != (new.spec, new.suite_digest):
            raise EvaluationConflict(new.id)
        return stored

    async def get(self, evaluation_id: str) -> StoredEvaluation:
        id = canonical_id(evaluation_id)
        caller = current_identity()
        stored = await self._store.get(caller.tenant, id) if id else None
        # One that the caller may not read is as absent as another tenant's.
        if stored is None or _sole_subject() not in (None, stored.subject):
            raise EvaluationNotFound(evaluation_id)
        return stored

    async def progress(
        self, stored: StoredEvaluation, arms: Sequence[str]
    ) -> Sequence[ArmProgress]:
        return await self._store.progress(current_identity().tenant, stored.id, arms)

    async def list(self, before: str | None, limit: int) -> Sequence[StoredEvaluation]:
        caller = current_identity()
        return await self._store.list(caller.tenant, _sole_subject(), before, limit)

    async def trials(
        self, evaluation_id: str, first: int, limit: int, *, with_items: bool
    ) -> Sequence[StoredTrial]:
        stored = await self.get(evaluation_id)
        tenant = current_identity().tenant
        return await self._store.trials(tenant, stored.id, first, limit, with_items=with_items)

    async def record_verdict(self, evaluation_id: str, verdict: EnvironmentVerdict) -> StoredTrial:
        stored = await self.get(evaluation_id)
        tenant = current_identity().tenant
        await self._store.record_verdict(tenant, stored.id, verdict)
        found = await self._store.trials(tenant, stored.id, verdict.place, 1, with_items=True)
        if not found or found[0].planned.place != verdict.place:
            raise TrialNotFound(stored.id, verdict.place)
        if found[0].planned.awaits_verdict:
            raise TrialNotEnded(stored.id, verdict.place)
        return found[0]

    async def start_live(self, new: NewEvaluation) -> StoredEvaluation:
        """Raises EvaluationConflict, AnotherIsLive, and what checking its model raises."""
        await self._check_models({arm: model for arm, model in new.models.items() if model})
        stored = await self._live.add(new)
        if stored.spec != new.spec:
            raise EvaluationConflict(new.id)
        return stored

    async def stop_live(self, evaluation_id: str, reason: str) -> StoredEvaluation:
        stored = await self.get(evaluation_id)
        if not stored.is_live:
            raise InvalidEvaluation(f"{evaluation_id} is a run of a suite; update it")
        if stored.state is not EvaluationState.ENDED:
            await self._live.end(current_identity().tenant, stored.id, reason or "stopped by hand")
        return await self.get(evaluation_id)

    async def live_scores(
        self, stored: StoredEvaluation, arms: Sequence[str]
    ) -> tuple[ArmScores, ArmScores]:
        """Scores of the tenant's own arm and of the candidate."""
        found = await self._live.scores(current_identity().tenant, stored.id)
        own, candidate = arms
        return found.get(own, ArmScores(0, 0.0)), found.get(candidate, ArmScores(0, 0.0))

    async def record_verdicts(self, evaluation_id: str, verdicts: Sequence[JudgeVerdict]) -> None:
        stored = await self.get(evaluation_id)
        tenant = current_identity().tenant
        if missing := await self._verdicts.not_ended(
            tenant, stored.id, [v.place for v in verdicts]
        ):
            raise InvalidEvaluation(
                f"trial {missing[0]} of the run has not ended; judge those that have"
            )
        await self._verdicts.add(tenant, stored.id, verdicts)

    async def verdicts(
        self, evaluation_id: str, after: VerdictPosition | None, limit: int
    ) -> Sequence[JudgeVerdict]:
        stored = await self.get(evaluation_id)
        return await self._verdicts.list(current_identity().tenant, stored.id, after, limit)

    async def record_report(self, evaluation_id: str, report_json: str) -> None:
        stored = await self.get(evaluation_id)
        try:
            report = json.loads(report_json)
        except (ValueError, RecursionError) as error:
            raise InvalidEvaluationReport(f"is no JSON: {error}") from error
        if not isinstance(report, dict):
            raise InvalidEvaluationReport("is no object")
        await self._reports.put(current_identity().tenant, stored.id, report_json)

    async def report(self, evaluation_id: str) -> tuple[str, datetime]:
        stored = await self.get(evaluation_id)
        found = await self._reports.get(current_identity().tenant, stored.id)
        if found is None:
            raise EvaluationReportNotFound(stored.id)
        return found

    async def update(
        self, evaluation_id: str, state: EvaluationState, reason: str
    ) -> StoredEvaluation:
        stored = await self.get(evaluation_id)
        if stored.is_live:
            raise InvalidEvaluation(f"{evaluation_id} evaluates live traffic; stop it instead")
        await self._store.update(current_identity().tenant, stored.id, state, reason)
        return await self.get(evaluation_id)


def _sole_subject() -> str | None:
    """Returns the subject whose runs alone the caller may read; None for all runs of the tenant."""
    caller = current_identity()
    return None if caller.may(Scope.TRAJECTORIES_READ) else caller.subject


def _check(new: NewEvaluation) -> None:
    count = len(new.items) * len(new.models) * new.repeats
    if count > TRIALS_MAX:
        raise InvalidEvaluation(
            f"{count} trials are more than {TRIALS_MAX}; take fewer items, arms or repeats"
        )

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from episodes.admission.access import check_labels, may_read, may_read_episode, require_readable
from episodes.admission.checks import (
    ToolOffers,
    admit,
    check_request,
    check_spec,
    takes_long_to_check,
)
from episodes.admission.live_traffic import Assignment, LiveTraffic
from episodes.approvals.convert import self_approval
from episodes.approvals.models import ApprovalPosition, WaitingCall
from episodes.approvals.store import ApprovalStore
from episodes.attachments.checks import (
    AS_ALL_OTHERS,
    OwnQuota,
    checked_attachments,
    checked_contents,
)
from episodes.attachments.store import Files
from episodes.clients import Ledger, OrchestratorClient, OrchestratorModels, RegistryClient
from episodes.episodes.search import (
    EpisodeCounts,
    EpisodeFilter,
    EpisodePage,
    PagePosition,
    SearchOrder,
)
from episodes.episodes.store_search import EpisodeSearch
from episodes.episodes.watch import EpisodeProgress, Watcher
from episodes.errors import (
    EpisodeConflict,
    EpisodeNotFinished,
    EpisodeNotFound,
    InvalidEpisode,
    NothingToAnswer,
    NothingToApprove,
    ResultsConflict,
    SelfApproval,
    StartTooLate,
)
from episodes.execution.decide import add_remaining_limits, next_action_request
from episodes.execution.local_tools import checked_results
from episodes.execution.outcomes import Approval
from episodes.execution.verify import tools_of_check
from episodes.keys import StepKind
from episodes.models import EpisodeState, NewEpisode, Progress, StoredEpisode
from episodes.publication.store_outbox import OutboxStore
from episodes.queue.leased_episodes import Handover
from episodes.spending.shared_budget import calls_orchestrators, episode_budget
from episodes.step_log.log import StepLog
from episodes.step_log.running_episode import RunningEpisode
from episodes.step_log.store import StepStore
from episodes.step_log.store_client_results import ClientResultStore
from episodes.store import EpisodeStore
from episodes.workflows.starter import WorkflowStarter
from podium.episodes.v1 import episode_pb2, episode_service_pb2
from podium_kit import telemetry
from podium_kit.limits.concurrency import FairThread
from podium_kit.rpc.bounds import OutOfBounds
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import Identity, current_identity

T = TypeVar("T")

# Time to store an episode and to answer before its caller's deadline.
REPLY_TIME_S = 0.5
# Those of all calls of a turn are in one payload of its workflow, which an over-large one ends.
REASON_CHARACTERS_MAX = 1_000


@dataclass(frozen=True)
class Episodes:
    store: EpisodeStore
    search: EpisodeSearch
    steps: StepStore
    results: ClientResultStore
    approvals: ApprovalStore
    outbox: OutboxStore
    starter: WorkflowStarter
    handover: Handover
    watcher: Watcher
    registry: RegistryClient
    ledger: Ledger
    orchestrator: OrchestratorClient
    models: OrchestratorModels
    offers: ToolOffers
    live: LiveTraffic
    checks: FairThread

    async def start(
        self,
        episode_id: str,
        spec: episode_pb2.EpisodeSpec,
        running_limit: int,
        remaining_s: float | None,
        attachment_data: Sequence[bytes] = (),
        *,
        own_quota: OwnQuota = AS_ALL_OTHERS,
    ) -> StoredEpisode:
        """Starts an episode, or returns the one that the same request started before.

        `running_limit` bounds the tenant's running episodes, 0 for no limit; the caller waits
        `remaining_s` for the answer, None without end.

        The episode is accepted once its row is stored together with its row of the queue, and its
        budget exists before: a start that fails leaves nothing that could run later.
        """
        now_s = asyncio.get_running_loop().time()
        answer_at_s = None if remaining_s is None else now_s + remaining_s - REPLY_TIME_S
        check_labels(spec.labels, current_identity())
        await self._checked(partial(check_request, episode_id, spec), takes_long_to_check(spec))
        attachments = checked_attachments(spec.attachments)
        contents = checked_contents(attachments, attachment_data)
        files = Files(tuple(attachments), contents, own_quota)
        with telemetry.episode_context(episode_id):
            try:
                assignment = await self.live.assignment(current_identity().tenant, episode_id, spec)
                new = await self._admitted(episode_id, spec, assignment)
                if spec.HasField("budget"):
                    # What is rejected has no budget either; without one, storing it says so.
                    if (stored := await self._started_before(episode_id, spec)) is not None:
                        return stored
                    await self.store.require_room(new, running_limit, files)
                    await self.ledger.create_budget(episode_budget(new, spec))
                if answer_at_s and asyncio.get_running_loop().time() > answer_at_s:
                    raise StartTooLate(episode_id)
                if assignment is not None:
                    # Before the episode, whose end fills in its trial.
                    await self.live.record(assignment)
                stored = await self.store.insert(new, running_limit, files, queued=True)
                require_readable(stored)
                return stored
            except DomainError:
                # What was admitted before stays admitted, whatever has changed since.
                if (stored := await self._started_before(episode_id, spec)) is not None:
                    return stored
                raise

    async def prompt_tokens(self, spec: episode_pb2.EpisodeSpec) -> int:
        identity = current_identity()
        await self._checked(partial(check_spec, spec), takes_long_to_check(spec))
        toolset = await self.offers.of(spec)
        spec.model = spec.model or toolset.model
        model = await self.models.find(spec.model)
        admitted = partial(admit, "", spec, toolset, identity)
        new = await self._checked(admitted, takes_long_to_check(spec, toolset))
        stored = StoredEpisode(new, datetime.now(UTC), EpisodeState.PENDING, Progress())
        episode, log = RunningEpisode(stored, spec, toolset), StepLog("")
        only_answers = new.turn_limit == 1
        request = next_action_request(episode, log, 1, model, must_answer=only_answers)
        add_remaining_limits(request, episode, log)
        return await self.orchestrator.count_tokens(request)

    async def get(self, episode_id: str) -> StoredEpisode:
        return await self.store.get(current_identity().tenant, episode_id)

    async def find(
        self, wanted: EpisodeFilter, order: SearchOrder, after: PagePosition | None, size: int
    ) -> EpisodePage:
        return await self.search.find(current_identity().tenant, wanted, order, after, size)

    async def count(self, wanted: EpisodeFilter, bucket: timedelta | None) -> EpisodeCounts:
        return await self.search.count(current_identity().tenant, wanted, bucket)

    async def watch(
        self, episode_id: str, after: int, *, answer_parts: bool, end_only: bool
    ) -> AsyncIterator[EpisodeProgress]:
        tenant = (reader := current_identity()).tenant
        following = (
            self.watcher.end(tenant, episode_id)
            if end_only
            else self.watcher.follow(tenant, episode_id, after, answer_parts=answer_parts)
        )
        async for progress in following:
            subject = progress.episode.new.subject
            readable = may_read(subject, reader)
            if progress.part is not None:
                if readable:
                    yield progress
                continue
            if not readable and may_read(subject, reader, awaits_approval=True):
                # An approver reads until the call is decided.
                readable = may_read_episode(await self.get(episode_id))
            yield progress if readable else replace(progress, content_withheld=True)

    async def cancel(self, episode_id: str) -> StoredEpisode:
        """Asks a running episode to end; one that has ended stays as it is."""
        stored = await self.get(episode_id)
        episode_id, ended = stored.new.episode_id, stored.state is EpisodeState.FINISHED
        # From the queue it goes to a workflow, and never back.
        if not ended and not await self.handover.queue.cancel(episode_id):
            await self.starter.cancel(episode_id)
        return stored

    async def approve(
        self, episode_id: str, turn: int, call_index: int, approved: bool, reason: str
    ) -> StoredEpisode:
        if len(reason) > REASON_CHARACTERS_MAX:
            problem = f"has {len(reason)} characters; give at most {REASON_CHARACTERS_MAX}"
            raise OutOfBounds("reason", problem)
        stored, caller = await self.get(episode_id), current_identity()
        episode_id = stored.new.episode_id
        starter = Identity(stored.new.tenant, stored.new.subject, frozenset(), stored.new.groups)
        both = caller.people & starter.people
        if approved and both and not self_approval(stored.new.toolset):
            raise SelfApproval(episode_id, both)
        approval = Approval(turn, call_index, approved, caller.subject, reason)
        asked = stored.ending is None and await self.steps.find(
            episode_id, turn, StepKind.APPROVAL, call_index
        )
        if asked:
            # Its worker does so, too, once the turn returns.
            await self.handover.hand_over(stored.new)
        if not asked or not await self.starter.decide(episode_id, approval):
            raise NothingToApprove(episode_id, turn, call_index)
        place = ApprovalPosition(episode_id, turn, call_index)
        await self.approvals.decided(stored.new.tenant, place, approved=approved)
        return stored

    async def waiting_calls(
        self, after: ApprovalPosition | None, size: int
    ) -> tuple[list[WaitingCall], bool]:
        return await self.approvals.waiting(current_identity().tenant, after, size)

    async def answer(self, request: episode_service_pb2.AnswerToolCallsRequest) -> StoredEpisode:
        """Stores the results of a turn's calls that the caller ran.

        Raises ScopeMissing, NothingToAnswer, InvalidResults, ResultsConflict.
        """
        stored, turn = await self.get(request.episode_id), request.turn
        require_readable(stored)
        step = await self.steps.find(stored.new.episode_id, turn, StepKind.CLIENT_CALLS)
        if step is None:
            raise NothingToAnswer(request.episode_id, turn)
        results = checked_results(request, step)
        stored_results = await self.results.put(stored.new.episode_id, turn, results)
        if stored_results is None:
            raise NothingToAnswer(request.episode_id, turn)
        if stored_results.results != results:
            raise ResultsConflict(request.episode_id, turn)
        await self.handover.hand_over(stored.new)
        await self.starter.caller_answered(stored.new.episode_id, turn)
        return stored

    async def trajectory(self, stored: StoredEpisode) -> bytes:
        """Returns the serialized record of an ended episode. Raises EpisodeNotFinished."""
        record = await self.outbox.trajectory(stored.new.tenant, stored.new.episode_id)
        if record is None:
            raise EpisodeNotFinished(stored.new.episode_id)
        return record

    async def _started_before(
        self, episode_id: str, spec: episode_pb2.EpisodeSpec
    ) -> StoredEpisode | None:
        try:
            stored = await self.get(episode_id)
        except EpisodeNotFound:
            return None
        # Whether the specs are the same is content, too.
        require_readable(stored)
        if stored.new.spec != spec.SerializeToString(deterministic=True):
            raise EpisodeConflict(episode_id)
        return stored

    async def _admitted(
        self, episode_id: str, spec: episode_pb2.EpisodeSpec, assignment: Assignment | None
    ) -> NewEpisode:
        if spec.replay_of:
            await self._require_record(spec)
        effective, assigned = episode_pb2.EpisodeSpec(), b""
        effective.CopyFrom(spec)
        if assignment is not None:
            effective.MergeFrom(assignment.spec)
            assigned = assignment.spec.SerializeToString(deterministic=True)
        toolset = await self.offers.of(effective)
        await self.models.find(effective.model or toolset.model)
        await self._find_judging_tools(effective)
        identity = current_identity()
        admitted = partial(admit, episode_id, spec, toolset, identity, assigned)
        return await self._checked(admitted, takes_long_to_check(spec, toolset))

    async def _checked(self, check: Callable[[], T], long: bool) -> T:
        """Returns what the check does; others are served while a long one runs."""
        return await self.checks.run(current_identity().tenant, check) if long else check()

    async def _require_record(self, spec: episode_pb2.EpisodeSpec) -> None:
        """Raises EpisodeNotFound, ScopeMissing, EpisodeNotFinished, InvalidEpisode."""
        replayed = await self.get(spec.replay_of)
        require_readable(replayed)
        if replayed.ending is None:
            raise EpisodeNotFinished(spec.replay_of)
        if spec.check.verifier == "state":
            raise InvalidEpisode(
                "check: state reads what effects left behind, and a replay has none; compare the"
                " answer, for example by the verifier llm"
            )

    async def _find_judging_tools(self, spec: episode_pb2.EpisodeSpec) -> None:
        if not (names := tools_of_check(spec)):
            return
        if calls_orchestrators(await self.registry.resolve(spec.policy, names)):
            raise InvalidEpisode(
                f"check: of {', '.join(names)} one is of kind podium, and checks start no"
                " episodes; name a tool of another kind"
            )

"""Descriptions written from past episodes, each reviewed by a person before it counts.

The writing is itself an episode: held, charged, limited by the policy and recorded like
any other, under the proposal's id. When it has ended, the proposal waits for review.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from podium_kit.rpc.errors import FailedPrecondition, NotFound
from podium_kit.rpc.identity import Scope, current_identity, require_scope
from tool_registry.descriptions.models import Proposal, ProposalState
from tool_registry.descriptions.store import ProposalStore
from tool_registry.facts.measurements import Clock
from tool_registry.history.past_episodes import PastEpisode, PastEpisodes, Selection
from tool_registry.models import PLATFORM, ToolSpec, ToolVersion
from tool_registry.tools.service import Registry

TASK_CHARACTERS = 600
ANSWER_CHARACTERS = 300
HEAD = """\
You write the description by which an orchestrator chooses among tools. Below are the present
description of the tool {name} and tasks in which it was used, with what came of them. Write one
paragraph of at most 120 words: what the tool does, for which tasks it works well, for which it
fails, and when to use something else. State only what the cases show or the present description
says. Prices and latencies are added by others: do not mention them. Answer with the paragraph
alone.

Present description:
{description}
"""
CASE = """
Case {number}: {outcome}
Task: {task}
Calls of the tool: {calls}, failed: {failed}
Answer: {answer}
"""
SAMPLE_DEFAULT = 10
SAMPLE_MAX = 50


def description_prompt(
    name: str, model_alias: str, description: str, episodes: Sequence[PastEpisode]
) -> str:
    """The paper's method (section 3.1 and appendix C): sample tasks, show what came of them, and
    have another model write a paragraph on strengths and weaknesses.
    """
    called = f"{name} (model {model_alias})" if model_alias else name
    cases = [
        _case(number, episode, name, model_alias) for number, episode in enumerate(episodes, 1)
    ]
    return HEAD.format(name=called, description=description) + "".join(cases)


def _case(number: int, episode: PastEpisode, name: str, model_alias: str) -> str:
    calls = [
        call
        for call in episode.calls
        if call.tool_name == name and model_alias in ("", call.model_alias)
    ]
    return CASE.format(
        number=number,
        outcome="succeeded" if episode.right else "failed",
        task=episode.task[:TASK_CHARACTERS],
        calls=len(calls),
        failed=sum(call.failed for call in calls),
        answer=episode.answer[:ANSWER_CHARACTERS] or "none",
    )


WINDOW = timedelta(days=30)
Describe = Callable[[bytes, str, str], ToolSpec]


class NothingToDescribe(FailedPrecondition):
    def __init__(self, tool: str) -> None:
        super().__init__(
            f"no verified episode of the last 30 days called {tool}; give episodes that do a check,"
            " or feedback with a score, under a policy with training_consent",
            tool=tool,
        )


class TooFewEpisodes(FailedPrecondition):
    def __init__(self, described: str, count: int, needed: int) -> None:
        super().__init__(
            f"{count} of {needed} verified episodes called {described} since its description was"
            " reviewed; propose again after more of them, or with a lower episodes_min",
            described=described,
        )


class ReviewOutstanding(FailedPrecondition):
    def __init__(self, described: str, proposal: Proposal) -> None:
        super().__init__(
            f"proposal {proposal.id} for {described} is {proposal.state}; approve or reject it"
            " first",
            proposal=proposal.id,
        )


class ProposalNotFound(NotFound):
    def __init__(self, proposal_id: str) -> None:
        super().__init__(f"there is no proposal {proposal_id}", proposal=proposal_id)


class ProposalNotPending(FailedPrecondition):
    def __init__(self, proposal: Proposal) -> None:
        super().__init__(
            f"proposal {proposal.id} is {proposal.state}; only a pending one is reviewed",
            proposal=proposal.id,
        )


class Writer(Protocol):
    async def start(self, episode_id: str, task: str, tool_name: str) -> None:
        """The same id again changes nothing."""

    async def written(self, episode_id: str, tool_name: str) -> str | None:
        """Returns the llm tool's text; None while it writes, empty when it wrote nothing."""


@dataclass(frozen=True)
class Wanted:
    id: str
    tool_name: str
    model_alias: str
    writer_tool: str
    sample_size: int
    episodes_min: int = 0
    """Verified episodes needed since the last review; 0: one, whenever the review was."""

    @property
    def described(self) -> str:
        return f"{self.tool_name}/{self.model_alias}" if self.model_alias else self.tool_name


@dataclass(frozen=True)
class Descriptions:
    registry: Registry
    episodes: PastEpisodes
    writer: Writer
    store: ProposalStore
    described: Describe
    clock: Clock

    async def propose(self, wanted: Wanted) -> Proposal:
        """Raises ToolNotFound, NothingToDescribe, PermissionDenied."""
        identity = current_identity()
        known = await self.store.find(identity.tenant, wanted.id)
        if known is not None:
            return await self._refreshed(known)
        tool = (await self.registry.catalogue()).tools.get(wanted.tool_name, 0)
        if tool.owner == PLATFORM:
            require_scope(Scope.PLATFORM_ADMIN)
        sample = await self._sample(wanted)
        present = _present_description(tool, wanted.model_alias)
        task = description_prompt(wanted.tool_name, wanted.model_alias, present, sample)
        await self.writer.start(wanted.id, task, wanted.writer_tool)
        stored = await self.store.insert(
            identity.tenant,
            Proposal(
                id=wanted.id,
                tool_name=wanted.tool_name,
                tool_version=tool.version,
                model_alias=wanted.model_alias,
                current_description=present,
                proposed_description="",
                writer_tool=wanted.writer_tool,
                episode_ids=tuple(episode.id for episode in sample),
                succeeded_count=sum(bool(episode.right) for episode in sample),
                state=ProposalState.WRITING,
                create_time=self.clock(),
                created_by=identity.subject,
                reviewed_by="",
            ),
        )
        if stored is None:
            raise ProposalNotFound(wanted.id)
        return stored

    async def _sample(self, wanted: Wanted) -> list[PastEpisode]:
        """Raises NothingToDescribe, TooFewEpisodes, ReviewOutstanding."""
        since = self.clock() - WINDOW
        if wanted.episodes_min:
            since = max(since, await self._reviewed_until(wanted))
        limit = min(max(wanted.sample_size or SAMPLE_DEFAULT, wanted.episodes_min), SAMPLE_MAX)
        # An answer that was not verified is neither a success nor a failure.
        found = await self.episodes.select(
            Selection(
                since,
                limit,
                tool_name=wanted.tool_name,
                model_alias=wanted.model_alias,
                verified=True,
                consenting=True,
            )
        )
        if len(found) < wanted.episodes_min:
            raise TooFewEpisodes(wanted.described, len(found), wanted.episodes_min)
        if not found:
            raise NothingToDescribe(wanted.described)
        return found

    async def _reviewed_until(self, wanted: Wanted) -> datetime:
        """Returns when the last reviewed proposal was made. Raises ReviewOutstanding."""
        for each in await self.find(wanted.tool_name):
            if each.model_alias != wanted.model_alias:
                continue
            if each.state in {ProposalState.WRITING, ProposalState.PENDING}:
                raise ReviewOutstanding(wanted.described, each)
            if each.state is not ProposalState.FAILED:
                return each.create_time
        return datetime.min.replace(tzinfo=UTC)

    async def find(self, tool_name: str) -> list[Proposal]:
        """Newest first; reads what was written meanwhile."""
        found = await self.store.list(current_identity().tenant, tool_name)
        return [await self._refreshed(proposal) for proposal in found]

    async def approve(self, proposal_id: str, fixed: str) -> tuple[Proposal, ToolVersion, bool]:
        """Registers the description as a new version, and returns whether it is new."""
        proposal = await self._pending(proposal_id)
        tools = (await self.registry.catalogue()).tools
        tool = tools.get(proposal.tool_name, proposal.tool_version)
        text = fixed or proposal.proposed_description
        spec = self.described(tool.spec.wire, proposal.model_alias, text)
        registered, created = await self.registry.register(spec, tool.owner == PLATFORM, False)
        return await self._reviewed(proposal, ProposalState.APPROVED), registered, created

    async def reject(self, proposal_id: str) -> Proposal:
        return await self._reviewed(await self._pending(proposal_id), ProposalState.REJECTED)

    async def _pending(self, proposal_id: str) -> Proposal:
        tenant = current_identity().tenant
        found = await self.store.find(tenant, proposal_id)
        if found is None:
            raise ProposalNotFound(proposal_id)
        proposal = await self._refreshed(found)
        if proposal.state is not ProposalState.PENDING:
            raise ProposalNotPending(proposal)
        return proposal

    async def _reviewed(self, proposal: Proposal, state: ProposalState) -> Proposal:
        identity = current_identity()
        return await self._store(replace(proposal, state=state, reviewed_by=identity.subject))

    async def _refreshed(self, proposal: Proposal) -> Proposal:
        if proposal.state is not ProposalState.WRITING:
            return proposal
        text = await self.writer.written(proposal.id, proposal.writer_tool)
        if text is None:
            return proposal
        state = ProposalState.PENDING if text else ProposalState.FAILED
        return await self._store(replace(proposal, proposed_description=text, state=state))

    async def _store(self, proposal: Proposal) -> Proposal:
        await self.store.update(current_identity().tenant, proposal)
        return proposal


def _present_description(tool: ToolVersion, model_alias: str) -> str:
    described: Sequence[str] = [
        choice.description for choice in tool.spec.models if choice.alias == model_alias
    ]
    return described[0] if model_alias and described else tool.spec.description

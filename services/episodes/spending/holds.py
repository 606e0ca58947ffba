"""Holds before calls and captures after them.

A budget that does not cover a whole answer may cover a shorter one. Calls of language models name
the shortest answer worth paying for, and are clamped to what the ledger grants; a rejection names
what would fit instead. Where only the holds of other calls leave no room, the hold is retried.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from episodes.clients import Ledger
from episodes.models import Step
from episodes.publication.trajectory import total_cost
from episodes.shielding import shielded
from episodes.spending.captures import (
    captured_alone,
    captured_cost,
    charges_of,
    release,
)
from episodes.spending.guardrail_holds import unknown_question
from episodes.spending.shared_budget import shared_budget_id
from episodes.spending.worst_case import output_tokens
from episodes.step_log.log import StepLog, StepLogs, unknown
from episodes.step_log.running_episode import RunningEpisode
from podium.common.v1 import failure_pb2, usage_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium.registry.v1 import policy_pb2, toolset_pb2
from podium_kit.guardrail_keys import call_of_guardrail
from podium_kit.money import Money
from podium_kit.rpc.errors import AlreadyExists, InvalidArgument
from podium_kit.rpc.identity import Identity
from podium_kit.wire import duration_to_proto, quantities_from_proto

# What a call that was never made costs. Its currency does not matter to a sum of zeros,
# but Money has one.
DEFAULT_CURRENCY = "USD"
HOLD_MARGIN_S = 600.0
NOT_BEGUN = "not sent: the call had not begun"
# The ledger's reason for a key that was answered with other content.
KEY_REUSED = "KEY_REUSED"
UNKNOWN_PRICE = {
    policy_pb2.UNKNOWN_PRICE_RULE_UNSPECIFIED: hold_pb2.UNKNOWN_PRICE_POLICY_REJECT,
    policy_pb2.UNKNOWN_PRICE_RULE_REJECT: hold_pb2.UNKNOWN_PRICE_POLICY_REJECT,
    policy_pb2.UNKNOWN_PRICE_RULE_ADMIT_AT_CEILING: hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT_AT_CEILING,
    policy_pb2.UNKNOWN_PRICE_RULE_ADMIT: hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT,
}

LABELS = ("team", "agent")
# Half a minute in all: a caller waits, and what is held may be held by a call that waits for this.
PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.5, 2.0, 3.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0)


@dataclass(frozen=True)
class GrantedHold:
    """Money held for a call, whichever of the fallback models answers it.

    `output_tokens` is 0 unless the budgets cover fewer than asked. `guardrail_keys` are those of
    the holds for guardrails that read the call.
    """

    output_tokens: int = 0
    fallbacks: tuple[str, ...] = ()
    guardrail_keys: tuple[str, ...] = ()


Reply = GrantedHold | hold_pb2.Rejection


@dataclass(frozen=True)
class Payer:
    """An episode or direct call, by whose budgets, labels and price rules its calls are held."""

    identity: Identity
    labels: Mapping[str, str]
    toolset: toolset_pb2.Toolset
    budget_ids: tuple[str, ...]
    time_limit_s: float
    episode_id: str = ""

    @classmethod
    def of(cls, episode: RunningEpisode) -> "Payer":
        """Returns the payer of an episode's calls, which share a budget with the children they
        start."""
        new, toolset = episode.stored.new, episode.toolset
        shared = shared_budget_id(episode.id, episode.spec, toolset)
        budgets = (*toolset.budget_ids, *([shared] if shared else []))
        return cls(episode.identity, new.labels, toolset, budgets, new.time_limit_s, episode.id)

    def reserve(self, request: pb.ReserveRequest, *, asks_again: bool) -> pb.Operation:
        """Completes the request of one call. A report names one team and agent of the caller's,
        which labels select; all of them are charged."""
        toolset = self.toolset
        completed = pb.ReserveRequest()
        completed.CopyFrom(request)
        completed.unknown_price = UNKNOWN_PRICE[toolset.unknown_price]
        completed.time_to_live.CopyFrom(duration_to_proto(self.time_limit_s + HOLD_MARGIN_S))
        completed.budget_ids.extend(self.budget_ids)
        completed.asks_again = asks_again
        if toolset.policy_name:
            completed.policy_version = f"{toolset.policy_name}/{toolset.policy_version}"
        if toolset.HasField("price_ceiling"):
            completed.ceiling.CopyFrom(toolset.price_ceiling)
        completed.subject.episode_id = self.episode_id
        completed.subject.user = self.identity.subject
        completed.subject.team, completed.subject.agent = map(self._reported, LABELS)
        completed.teams.extend(sorted(self.identity.named("team")))
        completed.agents.extend(sorted(self.identity.named("agent")))
        completed.keys.extend(sorted(self.identity.named("key")))
        return pb.Operation(reserve=completed)

    def _reported(self, label: str) -> str:
        return self.labels.get(label) or min(self.identity.named(label), default="")


class Charges:
    def __init__(self, ledger: Ledger, logs: StepLogs) -> None:
        self._ledger = ledger
        self._logs = logs

    async def settle_and_reserve(
        self,
        episode: RunningEpisode,
        log: StepLog,
        requests: list[pb.ReserveRequest],
        guardrails: Sequence[pb.ReserveRequest] = (),
    ) -> list[Reply]:
        """Captures every unsettled step, releases the holds of calls that never began, and holds
        money for the requests.

        The guardrails of the calls are held before them: a call may be clamped to all that the
        budgets cover. Returns one reply per request: a hold, or why there is none.
        """
        if not log.is_retry:
            # An earlier attempt may have sent what it held money for.
            log.unsent.update(each.key for each in (*guardrails, *requests))
        unsettled = log.unsettled()
        ended = [(step, each) for step in unsettled for each in charges_of(log, step)]
        captures = [(step, each) for step, each in ended if each.HasField("capture")]
        releases = [each for _, each in ended if each.HasField("release")]
        payer, first = Payer.of(episode), guardrails or requests
        # The end of the episode asks for its holds, and must not be answered before this.
        results, cancelled = await shielded(
            self._apply(
                [capture for _, capture in captures],
                [*releases, *(payer.reserve(each, asks_again=True) for each in first)],
            )
        )
        costs: dict[str, list[Money | None]] = {}
        for (step, _), result in zip(captures, results, strict=False):
            costs.setdefault(step.key, []).append(captured_cost(result.capture.entry))
        # No others: what another attempt has stored meanwhile was not asked about.
        for step in unsettled:
            self._logs.settle(log, step, sum_of(costs.get(step.key, [])))
        if cancelled:
            raise asyncio.CancelledError
        reserves = [result.reserve for result in results[len(captures) + len(releases) :]]
        reserves = await retry_while_budget_is_held(reserves, partial(self._reserved, payer, first))
        if guardrails:
            return await self._reserve_guarded(
                payer, requests, list(zip(guardrails, reserves, strict=True))
            )
        return [reply_of(*pair) for pair in zip(reserves, requests, strict=True)]

    async def _reserve_guarded(
        self,
        payer: "Payer",
        requests: Sequence[pb.ReserveRequest],
        guardrails: Sequence[tuple[pb.ReserveRequest, pb.ReserveResponse]],
    ) -> list[Reply]:
        """Holds money for the calls whose guardrails are paid for; releases the guardrails of the
        others."""
        replies: dict[str, Reply] = {}
        held: dict[str, list[str]] = {request.key: [] for request in requests}
        for asked, response in guardrails:
            call_key = call_of_guardrail(asked.key) or ""
            if response.HasField("rejection"):
                replies[call_key] = response.rejection
            else:
                held[call_key].append(asked.key)
        payable = [request for request in requests if request.key not in replies]
        ask = partial(self._reserved, payer, payable)
        reserves = await retry_while_budget_is_held(await ask(True), ask)
        for request, response in zip(payable, reserves, strict=True):
            reply = reply_of(response, request)
            if isinstance(reply, GrantedHold):
                reply = replace(reply, guardrail_keys=tuple(held.pop(request.key)))
            replies[request.key] = reply
        if unused := [key for keys in held.values() for key in keys]:
            await self._ledger.apply([release(key, NOT_BEGUN) for key in unused])
        return [replies[request.key] for request in requests]

    async def _reserved(
        self, payer: "Payer", requests: Sequence[pb.ReserveRequest], asks_again: bool
    ) -> list[pb.ReserveResponse]:
        operations = [payer.reserve(each, asks_again=asks_again) for each in requests]
        results, cancelled = await shielded(self._apply([], operations))
        if cancelled:
            raise asyncio.CancelledError
        return [result.reserve for result in results]

    async def _apply(
        self, captures: list[pb.Operation], others: list[pb.Operation]
    ) -> list[pb.OperationResult]:
        """Applies all in one transaction, or each alone where the ledger rejects one of them."""
        if not captures and not others:
            return []
        try:
            return await self._ledger.apply([*captures, *others])
        except InvalidArgument:
            if not captures:
                raise
        except AlreadyExists as error:
            if error.reason != KEY_REUSED:
                raise
            if not captures:
                return [await _applied_alone(self._ledger, each) for each in others]
        captured = [await captured_alone(self._ledger, each.capture) for each in captures]
        return [*captured, *await self._apply([], others)]

    async def release(self, episode: RunningEpisode, log: StepLog) -> list[str]:
        """Releases the holds of calls that were not made; returns the keys of those that may have
        been.

        Their holds stay open: capture them. Those of their guardrails are ended here.
        """
        held = await self._ledger.release_episode(episode.id)
        unsent = [key for key in held if key in log.unsent]
        if unsent:
            await self._ledger.apply([release(key, NOT_BEGUN) for key in unsent])
        logged = {step.key for step in log.steps}
        sent = [key for key in held if key not in log.unsent]
        for key in sent:
            # Those of a step in the log end with it.
            if (call_key := call_of_guardrail(key)) and call_key not in logged:
                await captured_alone(self._ledger, unknown_question(key))
        return [key for key in sent if call_of_guardrail(key) is None]

    async def release_unsent(self, *keys: str) -> None:
        await self._ledger.apply([release(key, NOT_BEGUN) for key in keys])

    async def settle_as_unknown(self, log: StepLog, step: Step, reason: str) -> None:
        """Captures a step whose hold an earlier attempt left, and which was settled as free."""
        usage = unknown(failure_pb2.Failure(message=reason))
        await captured_alone(self._ledger, pb.CaptureRequest(key=step.key, usage=usage))
        self._logs.settle(log, step, None)


async def retry_while_budget_is_held(
    replies: list[pb.ReserveResponse],
    asked: Callable[[bool], Awaitable[list[pb.ReserveResponse]]],
) -> list[pb.ReserveResponse]:
    """Repeats a request while only the holds of other calls leave no room for it.

    Those hold their worst case and give most of it back. `asked` takes whether it is repeated
    again. Once one call of a turn has a hold, the others do not wait: they could deadlock.
    """
    for pause in PAUSES_S:
        if not any(map(_is_held, replies)):
            return replies
        if any(reply.HasField("hold") for reply in replies):
            break
        # Those that were rejected together do not come back together.
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  no secret
        replies = await asked(True)
    return await asked(False)


def sum_of(costs: list[Money | None]) -> Money | None:
    """Sums what was captured for a step; None where a part of it is unknown."""
    if not costs:
        return Money.zero(DEFAULT_CURRENCY)
    return None if None in costs else total_cost(costs)


def _is_held(reply: pb.ReserveResponse) -> bool:
    return reply.rejection.reason == hold_pb2.REJECTION_REASON_BUDGET_HELD


async def _applied_alone(ledger: Ledger, operation: pb.Operation) -> pb.OperationResult:
    """Applies one operation; for a call that an earlier attempt asked for otherwise, returns its
    hold.

    The default orchestrator, its SKU or a setting may have changed between two attempts.
    """
    try:
        [result] = await ledger.apply([operation])
    except AlreadyExists as error:
        if error.reason != KEY_REUSED or not operation.HasField("reserve"):
            raise
        # Every hold is dispatched from its beginning, so this shows it and changes nothing.
        shown = pb.MarkDispatchedRequest(key=operation.reserve.key)
        [found] = await ledger.apply([pb.Operation(mark_dispatched=shown)])
        hold = found.mark_dispatched.hold
        if hold.state != hold_pb2.HOLD_STATE_OPEN:
            raise
        return pb.OperationResult(reserve=pb.ReserveResponse(hold=hold))
    return result


def reply_of(response: pb.ReserveResponse, request: pb.ReserveRequest) -> Reply:
    if response.HasField("rejection"):
        return response.rejection
    granted, asked = map(_output_tokens, (response.hold.worst_case, request.worst_case))
    return GrantedHold(
        output_tokens=granted if granted < asked else 0,
        fallbacks=tuple(fallback.model for fallback in response.hold.fallbacks),
    )


def _output_tokens(worst_case: Iterable[usage_pb2.Quantity]) -> int:
    return output_tokens(quantities_from_proto(worst_case))

"""Holds before calls and captures after them.

A budget that does not cover a whole answer may cover a shorter one. Calls of language models name
the shortest answer worth paying for, and are clamped to what the ledger grants; a rejection names
what would fit instead. Where only the holds of other calls leave no room, the hold is retried.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from episodes.clients import Ledger
from episodes.keys import StepKind
from episodes.models import Step
from episodes.shielding import shielded
from episodes.spending.shared_budget import shared_budget_id
from episodes.spending.worst_case import Purchase, output_tokens
from episodes.step_log.log import StepLog, StepLogs, unknown
from episodes.step_log.running_episode import RunningEpisode
from podium.common.v1 import failure_pb2, usage_pb2
from podium.episodes.v1 import trajectory_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium.registry.v1 import policy_pb2
from podium_kit.money import Money
from podium_kit.rpc.errors import AlreadyExists, InvalidArgument
from podium_kit.rpc.identity import Identity
from podium_kit.wire import (
    duration_to_proto,
    enum_word,
    optional_money_from_proto,
    quantities_from_proto,
    quantities_to_proto,
)

logger = logging.getLogger(__name__)

# What a call that was never made costs. Its currency does not matter to a sum of zeros,
# but Money has one.
DEFAULT_CURRENCY = "USD"
HOLD_MARGIN_S = 600.0
UNUSABLE_REASON_MAX = 400
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
# A shorter answer or tool call is useless.
OUTPUT_TOKENS_MIN = 64


@dataclass(frozen=True)
class Grant:
    """Money is held for a call, whichever of the fallback models answers it.

    `output_tokens` is 0 unless the budgets cover fewer than asked.
    """

    output_tokens: int = 0
    fallbacks: tuple[str, ...] = ()


Reply = Grant | hold_pb2.Rejection


class Charges:
    """Captures what is done and reserves what comes next, in one transaction."""

    def __init__(self, ledger: Ledger, logs: StepLogs) -> None:
        self._ledger = ledger
        self._logs = logs

    async def settle_and_reserve(
        self, episode: RunningEpisode, log: StepLog, purchases: list[Purchase]
    ) -> list[Reply]:
        """Captures every unsettled step, gives back what was held for calls that never began,
        and holds money for the purchases.

        One reply per purchase: what is granted, or why nothing is.
        """
        if not log.again:
            # An earlier attempt may have sent what it held money for.
            log.unsent.update(purchase.key for purchase in purchases)
        unsettled = log.unsettled()
        captures = [step for step in unsettled if log.charged_usage(step) is not None]
        releases = [
            _release(step.key, call)
            for step in unsettled
            if (call := _tool_call(log, step)) is not None and call.unsent
        ]
        # Whoever ends the episode asks what is held for it, and must not be answered before this.
        results, cancelled = await shielded(
            self._apply(
                [_capture(log, step) for step in captures],
                [*releases, *_reserves(episode, purchases, asks_again=True)],
            )
        )
        for step, result in zip(captures, results, strict=False):
            self._logs.settle(log, step, captured_cost(result.capture.entry))
        # No others: what another attempt has stored meanwhile was not asked about.
        for step in unsettled:
            if step not in captures:
                self._logs.settle(log, step, Money.zero(DEFAULT_CURRENCY))
        if cancelled:
            raise asyncio.CancelledError
        reserves = [result.reserve for result in results[len(captures) + len(releases) :]]
        reserves = await patiently(reserves, partial(self._reserved, episode, purchases))
        return [_reply(*pair) for pair in zip(reserves, purchases, strict=True)]

    async def _reserved(
        self, episode: RunningEpisode, purchases: list[Purchase], asks_again: bool
    ) -> list[pb.ReserveResponse]:
        operations = _reserves(episode, purchases, asks_again)
        results, cancelled = await shielded(self._apply([], operations))
        if cancelled:
            raise asyncio.CancelledError
        return [result.reserve for result in results]

    async def _apply(
        self, captures: list[pb.Operation], others: list[pb.Operation]
    ) -> list[pb.OperationResult]:
        """All in one transaction, unless the ledger rejects one of them: then each goes alone."""
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
        """Gives back what was held for calls that were not made; keys of those that may have been.

        Their holds stay open: capture them.
        """
        held = await self._ledger.release_episode(episode.id)
        unsent = [key for key in held if key in log.unsent]
        if unsent:
            await self._ledger.apply([_released(key, NOT_BEGUN) for key in unsent])
        return [key for key in held if key not in log.unsent]

    async def give_back(self, key: str) -> None:
        """Gives back what was held for a call that was rejected before it was made."""
        await self._ledger.apply([_released(key, NOT_BEGUN)])

    async def settle_as_unknown(self, log: StepLog, step: Step, reason: str) -> None:
        """Captures a step whose hold an earlier attempt left, and which was settled as free."""
        usage = unknown(failure_pb2.Failure(message=reason))
        await captured_alone(self._ledger, pb.CaptureRequest(key=step.key, usage=usage))
        self._logs.settle(log, step, None)


def captured_cost(entry: hold_pb2.Entry) -> Money | None:
    """Cost of a call; None while it is unknown, also where the ledger posts the worst case."""
    if any(posting.account == "provisional" for posting in entry.postings):
        return None
    return optional_money_from_proto(entry.amount)


async def captured_alone(ledger: Ledger, capture: pb.CaptureRequest) -> pb.OperationResult:
    """The capture as it is, or else without a price: no usage may keep an episode open."""
    operation = pb.Operation(capture=capture)
    try:
        [result] = await ledger.apply([operation])
    except InvalidArgument as error:
        logger.warning("%s is recorded without a price: %s", capture.key, error.message)
        reason = f"the ledger rejected the usage: {error.message}"[:UNUSABLE_REASON_MAX]
        source = capture.usage.source or usage_pb2.USAGE_SOURCE_PROVIDER
        operation.capture.usage.CopyFrom(usage_pb2.Usage(source=source, unusable_reason=reason))
        [result] = await ledger.apply([operation])
    return result


async def _applied_alone(ledger: Ledger, operation: pb.Operation) -> pb.OperationResult:
    """The result; for a call that an earlier attempt asked for otherwise, what that one holds.

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


def _tool_call(log: StepLog, step: Step) -> trajectory_pb2.ToolInvocation | None:
    """The tool call of a step, an orchestrator's or a verifier's; None for another step."""
    if step.kind is StepKind.VERIFIER:
        return log.verifier_calls[step.call_index]
    return log.tool_calls[step.turn][step.call_index] if step.kind is StepKind.TOOL else None


def _release(key: str, call: trajectory_pb2.ToolInvocation) -> pb.Operation:
    """With the kind of failure as the reason: its message may quote what a user wrote."""
    kind = enum_word(failure_pb2.FailureKind.Name(call.observation.failure.kind), "FAILURE_KIND_")
    return _released(key, f"not sent: {kind}")


def _released(key: str, reason: str) -> pb.Operation:
    return pb.Operation(release=pb.ReleaseRequest(key=key, reason=reason))


def _capture(log: StepLog, step: Step) -> pb.Operation:
    usage, answered_by = log.charged_usage(step), _answered_by(log, step)
    return pb.Operation(
        capture=pb.CaptureRequest(key=step.key, usage=usage, answered_by=answered_by)
    )


def _answered_by(log: StepLog, step: Step) -> hold_pb2.Fallback | None:
    """The model that answered in place of the one asked for; it has its own price."""
    if step.kind is not StepKind.TOOL:
        return None
    invocation: trajectory_pb2.ToolInvocation = log.tool_calls[step.turn][step.call_index]
    model = invocation.answered_by_model
    return hold_pb2.Fallback(model=model, sku=invocation.sku) if model else None


def _reserves(
    episode: RunningEpisode, purchases: list[Purchase], asks_again: bool
) -> list[pb.Operation]:
    return [_reserve(episode, purchase, asks_again) for purchase in purchases]


def _reserve(episode: RunningEpisode, purchase: Purchase, asks_again: bool) -> pb.Operation:
    new = episode.stored.new
    request = pb.ReserveRequest(
        key=purchase.key,
        subject=hold_pb2.Subject(
            episode_id=episode.id,
            turn=purchase.turn,
            tool=purchase.tool,
            model=purchase.model,
        ),
        sku=purchase.sku,
        worst_case=quantities_to_proto(purchase.worst_case),
        unknown_price=UNKNOWN_PRICE[episode.toolset.unknown_price],
        time_to_live=duration_to_proto(new.time_limit_s + HOLD_MARGIN_S),
        budget_ids=_budget_ids(episode),
        alternatives=purchase.alternatives,
        fallbacks=purchase.fallbacks,
        min_output_tokens=min(OUTPUT_TOKENS_MIN, purchase.output_tokens),
        # The worker makes the call as soon as this is answered: should it die first, the
        # hold must not be given back, for the call may have been made.
        dispatched=True,
        policy_version=_policy_version(episode),
        asks_again=asks_again,
    )
    Spender(new.labels, episode.identity).charge(request)
    if episode.toolset.HasField("price_ceiling"):
        request.ceiling.CopyFrom(episode.toolset.price_ceiling)
    return pb.Operation(reserve=request)


def _budget_ids(episode: RunningEpisode) -> list[str]:
    """Those of the policy, and the one that episodes share with the children they start."""
    shared = shared_budget_id(episode.id, episode.spec, episode.toolset)
    return [*episode.toolset.budget_ids, *([shared] if shared else [])]


def _policy_version(episode: RunningEpisode) -> str:
    """ "<policy name>/<version>", the policy that the ledger can explain the call by."""
    name = episode.toolset.policy_name
    return f"{name}/{episode.toolset.policy_version}" if name else ""


def _reply(response: pb.ReserveResponse, purchase: Purchase) -> Reply:
    if response.HasField("rejection"):
        return response.rejection
    granted = output_tokens(quantities_from_proto(response.hold.worst_case))
    return Grant(
        output_tokens=granted if granted < purchase.output_tokens else 0,
        fallbacks=tuple(fallback.model for fallback in response.hold.fallbacks),
    )


# Half a minute in all: a caller waits, and what is held may be held by a call that waits for this.
PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.5, 2.0, 3.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0)


async def patiently(
    replies: list[pb.ReserveResponse],
    asked: Callable[[bool], Awaitable[list[pb.ReserveResponse]]],
) -> list[pb.ReserveResponse]:
    """The replies, or what `asked` gets later; it takes whether it will ask again.

    Calls that want money together do not wait once one of them has it: it would be waiting, too.
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


def _is_held(reply: pb.ReserveResponse) -> bool:
    """Whether the call fits once others have given back what they hold."""
    return reply.rejection.reason == hold_pb2.REJECTION_REASON_BUDGET_HELD


@dataclass(frozen=True)
class Spender:
    """The one team and agent that a call is reported for, of those whose budgets are charged."""

    labels: Mapping[str, str]
    identity: Identity

    def charge(self, request: ledger_pb.ReserveRequest) -> None:
        """Completes a request to the ledger."""
        request.subject.user = self.identity.subject
        request.subject.team, request.subject.agent = map(self._reported, LABELS)
        request.teams.extend(sorted(self.identity.named("team")))
        request.agents.extend(sorted(self.identity.named("agent")))

    def _reported(self, label: str) -> str:
        """The name that the label selects, or the first: a report names one."""
        return self.labels.get(label) or min(self.identity.named(label), default="")

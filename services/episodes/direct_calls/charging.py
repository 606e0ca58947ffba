"""Money of a direct call: held for it and its guardrails before it is made, posted after it."""

from collections.abc import Sequence
from functools import partial

from episodes.clients import Ledger
from episodes.direct_calls.call import DirectCall
from episodes.spending.captures import captured_alone, captured_cost, release, unsent_release
from episodes.spending.guardrail_holds import CALL_STAGES, guardrail_charges, guardrail_holds
from episodes.spending.holds import NOT_BEGUN, Payer, retry_while_budget_is_held, sum_of
from episodes.spending.worst_case import (
    call_worst_case,
    hold_request,
    model_worst_case,
    sku_of,
    tokens_max,
)
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.common.v1 import failure_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium_kit.money import Money
from podium_kit.rpc.identity import Identity, Scope

NOTHING = Money.zero("USD")


async def held(ledger: Ledger, call: DirectCall, file_tokens: int) -> ledger_pb.ReserveResponse:
    """Holds money for the guardrails of a call, then for the call, which may be clamped to all that
    the budgets cover. Releases all where one is rejected."""
    request, keys = _hold_request(call, file_tokens), list[str]()
    for requests in (guardrail_holds(request, call.guardrails, CALL_STAGES), [request]):
        asked = partial(_reserved, ledger, _payer(call), requests)
        replies = await retry_while_budget_is_held(await asked(True), asked) if requests else []
        keys += [reply.hold.key for reply in replies if reply.HasField("hold")]
        for reply in replies:
            if reply.HasField("rejection"):
                if keys:
                    await ledger.apply([release(key, NOT_BEGUN) for key in keys])
                return reply
    return replies[0]


async def charged(
    ledger: Ledger, call: DirectCall, answer: adapters_pb.InvokeResponse
) -> Money | None:
    """Posts the costs; the hold of a call that never left the platform is released."""
    key, costs = call.stored.key, list[Money | None]()
    asked = guardrail_holds(ledger_pb.ReserveRequest(key=key), call.guardrails, CALL_STAGES)
    charges = guardrail_charges(
        [each.key for each in asked], answer.guardrails, cut_off=_is_cut_off(answer)
    )
    if answer.unsent:
        charges.append(unsent_release(key, answer.failure))
    else:
        capture = ledger_pb.CaptureRequest(key=key, usage=answer.usage)
        charges.append(ledger_pb.Operation(capture=capture))
    for charge in charges:
        if charge.HasField("release"):
            await ledger.apply([charge])
        else:
            result = await captured_alone(ledger, charge.capture)
            costs.append(captured_cost(result.capture.entry))
    return sum_of(costs)


def identity_of(call: DirectCall) -> Identity:
    scopes = frozenset({Scope.LEDGER_WRITE, Scope.EPISODES_RUN})
    return Identity(call.stored.tenant, call.stored.subject, scopes, call.stored.groups)


async def _reserved(
    ledger: Ledger, payer: Payer, requests: Sequence[ledger_pb.ReserveRequest], asks_again: bool
) -> list[ledger_pb.ReserveResponse]:
    results = await ledger.apply([payer.reserve(each, asks_again=asks_again) for each in requests])
    return [result.reserve for result in results]


def _is_cut_off(answer: adapters_pb.InvokeResponse) -> bool:
    cancelled = answer.failure.kind == failure_pb2.FAILURE_KIND_CANCELLED
    return cancelled or bool(answer.usage.unusable_reason)


def _hold_request(call: DirectCall, file_tokens: int) -> ledger_pb.ReserveRequest:
    worst_case = call_worst_case(call.timeout_s)
    if call.asks_model:
        read = tokens_max(call.spec.ByteSize() + call.tool.prompt_bytes) + file_tokens
        worst_case = model_worst_case(read, call.output_tokens, call.timeout_s)
        worst_case = worst_case[:1] if call.embeds else worst_case
    sku = sku_of(call.tool, call.alias)
    return hold_request(call.stored.key, call.tool.name, call.alias, sku, worst_case)


def _payer(call: DirectCall) -> Payer:
    own_budget = [call.stored.budget_id] if call.spec.HasField("budget") else []
    return Payer(
        identity_of(call),
        call.spec.labels,
        call.toolset,
        (*call.toolset.budget_ids, *own_budget),
        call.timeout_s,
    )

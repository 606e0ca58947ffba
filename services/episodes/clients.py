"""Clients of the other services, with their errors as domain errors."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice

import grpc
from cachetools import LRUCache, TTLCache

from episodes.errors import ModelNotFound
from episodes.models import PolicyDecision, PolicyQuestion
from episodes.webhooks.models import Attempt, DueDelivery, PassedLimit
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.adapters.v1.tool_adapter_service_pb2_grpc import ToolAdapterServiceStub
from podium.ledger.v1 import alert_pb2
from podium.ledger.v1 import budget_service_pb2 as budget_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium.ledger.v1.budget_service_pb2_grpc import BudgetServiceStub
from podium.ledger.v1.cost_ledger_service_pb2_grpc import CostLedgerServiceStub
from podium.ledger.v1.price_book_service_pb2_grpc import PriceBookServiceStub
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.orchestrator.v1.orchestrator_service_pb2_grpc import OrchestratorServiceStub
from podium.registry.v1 import policy_pb2 as registry_policy_pb2
from podium.registry.v1 import policy_service_pb2 as policy_pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb
from podium.registry.v1.policy_service_pb2_grpc import PolicyServiceStub
from podium.registry.v1.tool_registry_service_pb2_grpc import ToolRegistryServiceStub
from podium_kit.attachments import MediaKind
from podium_kit.models.rules import RULE_SKU, RULES, is_rule, names_rule
from podium_kit.postgres.group_commit import GroupCommit
from podium_kit.rpc.errors import Unavailable
from podium_kit.rpc.identity import Identity, current_identity
from podium_kit.rpc.status import answered, domain_error_from
from podium_kit.wire import (
    duration_from_proto,
    duration_to_proto,
    money_from_proto,
    timestamp_from_proto,
)
from podium_kit.wire.values import KIND_TO_WIRE

Operations = list[ledger_pb.Operation]
OperationResults = list[ledger_pb.OperationResult]

# The ledger takes 1000; shorter transactions let others in.
OPERATIONS_PER_REQUEST = 200
# Of the adapters, besides the servers that they ask.
ANSWERING_S = 30.0
IDENTITIES_MAX = 1000
ALERTS_PER_PAGE = 100
# The registry answers after 20 seconds, changed or not.
CHANGE_TIMEOUT_S = 30.0
# Others' files are read before.
MEASURING_S = 300.0
# The name under which the version that users get is listed.
PROMOTED = "promoted"


Guardrails = Iterable[registry_policy_pb2.Guardrail]


def guardrails_timeout_s(guardrails: Guardrails) -> float:
    """Returns the longest that the servers of guardrails may take for one text."""
    return sum(duration_from_proto(each.http.timeout) for each in guardrails)


@dataclass(frozen=True)
class FittingRequest:
    task: str
    tools_max: int
    known: Sequence[str] = ()
    attached: Iterable[MediaKind] = ()


@dataclass(frozen=True)
class RegistryClient:
    channel: grpc.aio.Channel

    async def resolve(
        self,
        policy: str,
        tool_names: Sequence[str] = (),
        fitting: FittingRequest | None = None,
        price_factors: Mapping[str, str] | None = None,
        client_tools: Sequence[tool_pb2.ClientTool] = (),
        *,
        for_direct_calls: bool = False,
    ) -> toolset_pb2.Toolset:
        request = registry_pb.ResolveToolsetRequest(
            policy=policy,
            tool_names=tool_names,
            price_factors=price_factors,
            client_tools=client_tools,
            for_direct_calls=for_direct_calls,
        )
        if fitting is not None:
            request.task, request.tools_max = fitting.task, fitting.tools_max
            request.known_tool_names.extend(fitting.known)
            request.attached.extend(KIND_TO_WIRE[kind] for kind in fitting.attached)
        reply = await answered(ToolRegistryServiceStub(self.channel).ResolveToolset(request))
        return reply.toolset

    async def await_change(self, version: int) -> int:
        request = registry_pb.AwaitChangeRequest(version=version)
        stub = ToolRegistryServiceStub(self.channel)
        return (await answered(stub.AwaitChange(request, timeout=CHANGE_TIMEOUT_S))).version


class RegistryPolicies:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = PolicyServiceStub(channel)

    async def check(self, policy: str, questions: Sequence[PolicyQuestion]) -> list[PolicyDecision]:
        planned = [
            policy_pb.PlannedCall(tool_name=name, tool_version=version, model_alias=alias)
            for name, version, alias in questions
        ]
        request = policy_pb.CheckCallsRequest(policy=policy, calls=planned)
        reply = await answered(self._stub.CheckCalls(request))
        return [
            PolicyDecision(
                each.allowed,
                each.reason,
                each.needs_approval,
                tuple(one.SerializeToString(deterministic=True) for one in each.guardrails),
                each.cache.SerializeToString() if each.HasField("cache") else None,
            )
            for each in reply.decisions
        ]


class OrchestratorClient:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = OrchestratorServiceStub(channel)

    async def models(self) -> list[orchestrator_pb.Model]:
        request = orchestrator_pb.ListModelsRequest(page_size=500)
        return list((await answered(self._stub.ListModels(request))).models)

    async def promoted(self) -> str:
        """Returns the version that users get; "" while none is served as such."""
        found = (each.version for each in await self.models() if each.name == PROMOTED)
        return next(found, "")

    async def count_tokens(self, request: orchestrator_pb.NextActionRequest) -> int:
        counted = orchestrator_pb.CountTokensRequest(action=request)
        return (await answered(self._stub.CountTokens(counted))).token_count

    async def next_action(
        self, request: orchestrator_pb.NextActionRequest, timeout_s: float
    ) -> orchestrator_pb.NextActionResponse:
        """Returns the model's next action. Cancelling it stops the engine's work."""
        return await answered(self._stub.NextAction(request, timeout=timeout_s))

    async def next_action_showing(
        self,
        request: orchestrator_pb.NextActionRequest,
        timeout_s: float,
        show: Callable[[str], None],
    ) -> orchestrator_pb.NextActionResponse:
        """Returns the model's next action, and shows its answer while the model writes it."""
        asked = orchestrator_pb.NextActionStreamingRequest(action=request)
        try:
            async for event in self._stub.NextActionStreaming(asked, timeout=timeout_s):
                if event.HasField("response"):
                    return event.response
                show(event.answer_part)
        except grpc.aio.AioRpcError as error:
            raise domain_error_from(error) from error
        raise Unavailable("the orchestrator ended a decision without its action")


class Adapters:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = ToolAdapterServiceStub(channel)

    async def invoke(
        self, request: adapters_pb.InvokeRequest, timeout_s: float
    ) -> adapters_pb.InvokeResponse:
        return await answered(self._stub.Invoke(request, timeout=timeout_s))

    async def check_answer(
        self, episode_id: str, key: str, guardrails: Guardrails, answer: str
    ) -> adapters_pb.CheckAnswerResponse:
        request = adapters_pb.CheckAnswerRequest(
            episode_id=episode_id, key=key, guardrails=guardrails, answer=answer
        )
        timeout_s = ANSWERING_S + guardrails_timeout_s(guardrails)
        return await answered(self._stub.CheckAnswer(request, timeout=timeout_s))

    async def invoke_streaming(
        self, request: adapters_pb.InvokeRequest, timeout_s: float, part_interval_s: float
    ) -> AsyncIterator[adapters_pb.InvokeStreamingResponse]:
        """Yields what happens to the call, its whole answer last. Cancelling it ends the call."""
        interval = duration_to_proto(part_interval_s)
        asked = adapters_pb.InvokeStreamingRequest(call=request, part_interval=interval)
        try:
            async for event in self._stub.InvokeStreaming(asked, timeout=timeout_s):
                yield event
        except grpc.aio.AioRpcError as error:
            raise domain_error_from(error) from error

    async def pdf_tokens(self, data: bytes) -> int:
        """Returns the tokens of a PDF file at most; 0 where they cannot be measured."""
        request = adapters_pb.MeasurePdfRequest(data=data)
        return (await answered(self._stub.MeasurePdf(request, timeout=MEASURING_S))).tokens

    async def close_episode(self, episode_id: str) -> None:
        request = adapters_pb.CloseEpisodeRequest(episode_id=episode_id)
        await answered(self._stub.CloseEpisode(request))

    async def deliver(self, delivery: DueDelivery) -> Attempt:
        """Has an event signed and sent once, and returns its receiver's answer."""
        request = adapters_pb.DeliverWebhookRequest(
            message_id=delivery.message_id,
            url=delivery.url,
            secret=tool_pb2.SecretRef(name=delivery.secret_name),
            body_json=delivery.body,
        )
        reply = await answered(self._stub.DeliverWebhook(request))
        if reply.HasField("failure"):
            return Attempt(0, reply.failure.message)
        accepted = 200 <= reply.status_code < 300
        error = "" if accepted else f"the receiver answered with status {reply.status_code}"
        return Attempt(reply.status_code, error)


class Ledger:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._ledger = CostLedgerServiceStub(channel)
        self._budgets = BudgetServiceStub(channel)
        self._prices = PriceBookServiceStub(channel)
        self._gathered: LRUCache[Identity, GroupCommit[Operations, OperationResults]] = LRUCache(
            IDENTITIES_MAX
        )

    async def apply(self, operations: Operations) -> OperationResults:
        """Returns one result per operation, all applied in one transaction.

        Operations that other episodes of the identity ask for meanwhile join the next request.
        """
        identity = current_identity()
        if identity not in self._gathered:
            self._gathered[identity] = GroupCommit(self._apply, len, OPERATIONS_PER_REQUEST)
        return await self._gathered[identity].submit(operations)

    async def _apply(self, batches: list[Operations]) -> list[OperationResults]:
        request = ledger_pb.ApplyRequest(operations=chain.from_iterable(batches))
        results = iter((await answered(self._ledger.Apply(request))).results)
        return [list(islice(results, len(batch))) for batch in batches]

    async def release_episode(self, episode_id: str) -> list[str]:
        """Releases an episode's open holds, and returns the keys of those whose calls may have
        been made."""
        request = ledger_pb.ReleaseEpisodeRequest(episode_id=episode_id, keep_dispatched=True)
        return list((await answered(self._ledger.ReleaseEpisode(request))).kept_keys)

    async def passed_limits(self, since: datetime) -> list[PassedLimit]:
        passed: list[PassedLimit] = []
        request = budget_pb.ListAlertsRequest(page_size=ALERTS_PER_PAGE)
        while True:
            reply = await answered(self._budgets.ListAlerts(request))
            page = [_passed_limit(alert) for alert in reply.alerts]
            fresh = [limit for limit in page if limit.create_time >= since]
            passed += fresh
            if len(fresh) < len(page) or not reply.next_page_token:
                return passed
            request.page_token = reply.next_page_token

    async def priced(self, skus: Iterable[str]) -> set[str]:
        """Returns those of the SKUs that have a price for the caller's tenant now."""
        request = prices_pb.GetEffectivePricesRequest(skus=skus)
        return set((await answered(self._prices.GetEffectivePrices(request))).prices)

    async def create_budget(self, budget: budget_pb.Budget) -> None:
        await answered(self._budgets.CreateBudget(budget_pb.CreateBudgetRequest(budget=budget)))


def _passed_limit(alert: alert_pb2.BudgetAlert) -> PassedLimit:
    return PassedLimit(
        id=alert.id,
        budget_id=alert.budget_id,
        window_start=timestamp_from_proto(alert.window_start),
        soft_limit=money_from_proto(alert.soft_limit),
        posted=money_from_proto(alert.posted),
        hard_limit=money_from_proto(alert.hard_limit),
        create_time=timestamp_from_proto(alert.create_time),
        share=alert.share,
    )


REFRESH_AFTER_S = 10.0
TENANTS_MAX = 10_000


class OrchestratorModels:
    """Finds a model of the caller's tenant by name; the empty name is the default model, and a rule
    is in no list."""

    def __init__(self, orchestrator: OrchestratorClient) -> None:
        self._orchestrator = orchestrator
        self._models: TTLCache[str, list[pb.Model]] = TTLCache(TENANTS_MAX, REFRESH_AFTER_S)

    async def find(self, name: str) -> pb.Model:
        """Raises ModelNotFound."""
        if names_rule(name):
            if not is_rule(name):
                raise ModelNotFound(name, RULES)
            return pb.Model(name=name, version=name, sku=RULE_SKU)
        tenant = current_identity().tenant
        models = self._models.get(tenant, [])
        if (model := _model_of(models, name)) is None:
            # Also for a name that is not remembered: it may have been published since.
            models = self._models[tenant] = await self._orchestrator.models()
            model = _model_of(models, name)
        if model is None:
            raise ModelNotFound(name or "(default)", [model.name for model in models])
        return model


def _model_of(models: Sequence[orchestrator_pb.Model], name: str) -> orchestrator_pb.Model | None:
    wanted = (each for each in models if each.name == name)
    default = (each for each in models if each.is_default)
    return next(wanted if name else default, None)

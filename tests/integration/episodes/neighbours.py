import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from decimal import Decimal
from typing import Any

import grpc
import jwt
from google.protobuf import duration_pb2

from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.adapters.v1 import tool_adapter_service_pb2_grpc as adapters_rpc
from podium.common.v1 import failure_pb2, money_pb2, usage_pb2
from podium.ledger.v1 import alert_pb2, hold_pb2
from podium.ledger.v1 import budget_service_pb2 as budget_pb
from podium.ledger.v1 import budget_service_pb2_grpc as budget_rpc
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import cost_ledger_service_pb2_grpc as ledger_rpc
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium.ledger.v1 import price_book_service_pb2_grpc as prices_rpc
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.orchestrator.v1 import orchestrator_service_pb2_grpc as orchestrator_rpc
from podium.registry.v1 import guardrail_pb2, policy_pb2, tool_pb2, toolset_pb2
from podium.registry.v1 import policy_service_pb2 as policies_pb
from podium.registry.v1 import policy_service_pb2_grpc as policies_rpc
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb
from podium.registry.v1 import tool_registry_service_pb2_grpc as registry_rpc
from podium_kit.metering import InvalidUsage
from podium_kit.rpc.errors import FailedPrecondition, Unavailable
from podium_kit.rpc.interceptors import bearer_token
from podium_kit.rpc.status import status_of
from podium_kit.wire import duration_to_proto, usage_from_proto


class ContextTooLong(FailedPrecondition):
    pass


Context = grpc.aio.ServicerContext[Any, Any]
Decide = Callable[[orchestrator_pb.NextActionRequest], orchestrator_pb.Action]


def call(tool: str, arguments: str = "{}", index: int = 0) -> orchestrator_pb.ToolCall:
    return orchestrator_pb.ToolCall(index=index, tool_name=tool, arguments_json=arguments)


def calls(*requested: orchestrator_pb.ToolCall) -> orchestrator_pb.Action:
    return orchestrator_pb.Action(tool_calls=orchestrator_pb.ToolCalls(calls=requested))


def answer(text: str) -> orchestrator_pb.Action:
    return orchestrator_pb.Action(thought="I know this", final_answer=text)


def in_turns(*actions: orchestrator_pb.Action) -> Decide:
    """One action per turn; the last is repeated."""
    return lambda request: actions[min(len(request.turns), len(actions) - 1)]


class ScriptedOrchestrator(orchestrator_rpc.OrchestratorServiceServicer):
    def __init__(self) -> None:
        self.decide: Decide = in_turns(answer("42"))
        self.delay_s = 0.0
        # Awaited before each decision.
        self.before: Callable[[orchestrator_pb.NextActionRequest], Awaitable[None]] | None = None
        self.logprobs = [-0.1, -0.2]
        # What every call reports, in place of the size of its task.
        self.usage: usage_pb2.Usage | None = None
        # What a streamed decision shows before it waits until it may answer.
        self.answer_parts: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        # "length" means that the engine cut the reply.
        self.finish_reason = "stop"
        self.error: tuple[grpc.StatusCode, str] | None = None
        self.promoted = ""
        self.left_out: list[str] = []
        # How the prompt is too long for the model; "" means that it is not.
        self.too_long = ""
        # The task it fails at; "" means at every one.
        self.error_task = ""
        self.asked: Counter[str] = Counter()
        self.was_asked = asyncio.Event()
        self.cancelled: list[str] = []
        self.requests: list[orchestrator_pb.NextActionRequest] = []

    async def NextAction(
        self, request: orchestrator_pb.NextActionRequest, context: Context
    ) -> orchestrator_pb.NextActionResponse:
        self.asked[request.key] += 1
        self.was_asked.set()
        self.requests.append(request)
        try:
            await asyncio.sleep(self.delay_s)
        except asyncio.CancelledError:
            self.cancelled.append(request.key)
            raise
        if self.before is not None:
            await self.before(request)
        if self.too_long:
            await context.abort(*status_of(ContextTooLong(self.too_long)))
        if self.error and self.error_task in ("", request.task):
            await context.abort(*self.error)
        return orchestrator_pb.NextActionResponse(
            action=self.decide(request),
            completion_text="...",
            prompt_token_ids=[1, 2, 3],
            completion_token_ids=[4, 5],
            completion_logprobs=self.logprobs,
            finish_reason=self.finish_reason,
            sampling=request.sampling,
            usage=self.usage or tokens(len(request.task) + 7 * len(request.turns), 11),
            model_version="scripted-1",
            sku="orchestrator/scripted",
            left_out=self.left_out,
        )

    async def NextActionStreaming(
        self, request: orchestrator_pb.NextActionStreamingRequest, context: Context
    ) -> AsyncIterator[orchestrator_pb.NextActionStreamingResponse]:
        for part in self.answer_parts:
            yield orchestrator_pb.NextActionStreamingResponse(answer_part=part)
        await self.may_answer.wait()
        response = await self.NextAction(request.action, context)
        yield orchestrator_pb.NextActionStreamingResponse(response=response)

    async def CountTokens(
        self, request: orchestrator_pb.CountTokensRequest, context: Context
    ) -> orchestrator_pb.CountTokensResponse:
        self.requests.append(request.action)
        return orchestrator_pb.CountTokensResponse(token_count=len(request.action.task))

    async def ListModels(
        self, request: orchestrator_pb.ListModelsRequest, context: Context
    ) -> orchestrator_pb.ListModelsResponse:
        model = orchestrator_pb.Model(
            name="scripted", version="1", sku="orchestrator/scripted", is_default=True
        )
        users = [orchestrator_pb.Model(name="promoted", version=self.promoted)]
        return orchestrator_pb.ListModelsResponse(models=[model, *(users if self.promoted else [])])


class ScriptedAdapters(adapters_rpc.ToolAdapterServiceServicer):
    def __init__(self) -> None:
        self.delay_s = 0.0
        # As many calls as it counts must be in flight at once before any is answered.
        self.barrier = asyncio.Barrier(1)
        self.content: Callable[[adapters_pb.InvokeRequest], str] = lambda request: (
            f"{request.tool_name} says {request.arguments_json}"
        )
        # Messages of failures, by tool; attempts at which a tool is away; tools that never answer.
        self.failures: dict[str, str] = {}
        self.away: Counter[str] = Counter()
        self.stalled: set[str] = set()
        self.modelled_s: dict[str, float] = {}
        self.finish_reason = ""
        # Of every PDF file; 0 is unknown.
        self.pdf_tokens = 0
        self.measured: list[bytes] = []
        self.invoked: Counter[str] = Counter()
        self.requests: list[adapters_pb.InvokeRequest] = []
        self.closed: list[str] = []
        self.in_flight = 0
        self.in_flight_max = 0
        self.delivered: list[adapters_pb.DeliverWebhookRequest] = []
        # Statuses that receivers answer with, by URL; any other answers with 200.
        self.statuses: dict[str, int] = {}
        self.is_sent = True
        self.parts: list[str] = []
        self.decisions: list[guardrail_pb2.GuardrailDecision] = []
        self.read_answer: Callable[[str], str | None] = lambda answer: answer
        self.read: list[adapters_pb.CheckAnswerRequest] = []

    async def CheckAnswer(
        self, request: adapters_pb.CheckAnswerRequest, context: Context
    ) -> adapters_pb.CheckAnswerResponse:
        """Answers what `read_answer` makes of it; None blocks it."""
        self.read.append(request)
        shown = self.read_answer(request.answer)
        response = adapters_pb.CheckAnswerResponse(answer=shown or "", decisions=self.decisions)
        if shown is None:
            response.failure.kind = failure_pb2.FAILURE_KIND_BLOCKED
        return response

    async def MeasurePdf(
        self, request: adapters_pb.MeasurePdfRequest, context: Context
    ) -> adapters_pb.MeasurePdfResponse:
        self.measured.append(request.data)
        return adapters_pb.MeasurePdfResponse(tokens=self.pdf_tokens)

    async def DeliverWebhook(
        self, request: adapters_pb.DeliverWebhookRequest, context: Context
    ) -> adapters_pb.DeliverWebhookResponse:
        self.delivered.append(request)
        status = self.statuses.get(request.url, 200)
        if status == 0:
            failure = failure_pb2.Failure(
                kind=failure_pb2.FAILURE_KIND_UNAVAILABLE, message="nobody is there"
            )
            return adapters_pb.DeliverWebhookResponse(failure=failure)
        return adapters_pb.DeliverWebhookResponse(status_code=status)

    async def Invoke(
        self, request: adapters_pb.InvokeRequest, context: Context
    ) -> adapters_pb.InvokeResponse:
        self.invoked[request.key] += 1
        self.requests.append(request)
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        # A test that has seen the call may end the stall for those to come.
        is_stalled = request.tool_name in self.stalled
        try:
            await asyncio.sleep(self.delay_s)
            await self.barrier.wait()
            if is_stalled:
                await asyncio.Event().wait()
        finally:
            self.in_flight -= 1
        if self.away[request.tool_name]:
            self.away[request.tool_name] -= 1
            await context.abort(*status_of(Unavailable("away", retry_after_s=0.01)))
        # The last fallback answers: every model before it is overloaded.
        model = request.fallback_models[-1] if request.fallback_models else ""
        if message := self.failures.get(request.tool_name):
            kind = failure_pb2.FAILURE_KIND_TOOL_ERROR
            failure = failure_pb2.Failure(kind=kind, message=message)
            return adapters_pb.InvokeResponse(failure=failure, usage=one_call(), attempts=1)
        return adapters_pb.InvokeResponse(
            output=adapters_pb.ToolOutput(content=self.content(request)),
            usage=one_call(),
            sku=f"m/{model}" if model else f"tool/{request.tool_name}",
            attempts=1,
            model_alias=model,
            latency=duration_to_proto(self.modelled_s.get(request.tool_name, self.delay_s)),
            latency_modelled=request.tool_name in self.modelled_s,
            finish_reason=self.finish_reason,
            guardrails=self.decisions,
        )

    async def InvokeStreaming(
        self, request: adapters_pb.InvokeStreamingRequest, context: Context
    ) -> AsyncIterator[adapters_pb.InvokeStreamingResponse]:
        if self.is_sent:
            read = usage_pb2.Quantity(dimension=usage_pb2.USAGE_DIMENSION_INPUT_FRESH, amount="7")
            usage = usage_pb2.Usage(source=usage_pb2.USAGE_SOURCE_ESTIMATED, quantities=[read])
            sent = adapters_pb.SentRequest(usage=usage)
            yield adapters_pb.InvokeStreamingResponse(sent=sent)
        for text in self.parts:
            part = adapters_pb.AnswerPart(text=text)
            yield adapters_pb.InvokeStreamingResponse(part=part)
        response = await self.Invoke(request.call, context)
        yield adapters_pb.InvokeStreamingResponse(response=response)

    async def CloseEpisode(
        self, request: adapters_pb.CloseEpisodeRequest, context: Context
    ) -> adapters_pb.CloseEpisodeResponse:
        self.closed.append(request.episode_id)
        return adapters_pb.CloseEpisodeResponse()


class FixedRegistry(registry_rpc.ToolRegistryServiceServicer):
    def __init__(self) -> None:
        self.toolset = make_toolset("calculator", "search")
        self.found = toolset_pb2.Toolset()
        self.asked: list[registry_pb.ResolveToolsetRequest] = []
        # Resolutions wait for it.
        self.barrier: asyncio.Barrier | None = None
        # The catalogue's version, and the processes that know of it.
        self.version, self.followers = 1, set[str]()

    async def AwaitChange(
        self, request: registry_pb.AwaitChangeRequest, context: Context
    ) -> registry_pb.AwaitChangeResponse:
        for _ in range(100):
            if request.version != self.version:
                break
            self.followers.add(context.peer())
            await asyncio.sleep(0.1)
        return registry_pb.AwaitChangeResponse(version=self.version)

    async def ResolveToolset(
        self, request: registry_pb.ResolveToolsetRequest, context: Context
    ) -> registry_pb.ResolveToolsetResponse:
        self.asked.append(request)
        if self.barrier is not None:
            await self.barrier.wait()
        if request.policy == "gone":
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no policy gone")
        reply = registry_pb.ResolveToolsetResponse()
        reply.toolset.CopyFrom(self.found if request.known_tool_names else self.toolset)
        reply.toolset.policy_name = request.policy or reply.toolset.policy_name
        return reply


def make_toolset(*names: str, needs_approval: bool = False) -> toolset_pb2.Toolset:
    return toolset_pb2.Toolset(
        digest="d1",
        tools=[
            toolset_pb2.ResolvedTool(
                name=name,
                version=1,
                kind=tool_pb2.TOOL_KIND_FUNCTION,
                description=f"does {name}",
                parameters_json_schema='{"type": "object"}',
                sku=f"tool/{name}",
                needs_approval=needs_approval,
            )
            for name in names
        ],
        policy_name="balanced",
        policy_version=3,
        preferences=policy_pb2.PreferenceVector(outcome=1, compute=0.5, latency=0.25),
        training_consent=True,
    )


def orchestrator_tool(
    name: str = "researcher", time_limit_s: int = 60, **podium: Any
) -> toolset_pb2.ResolvedTool:
    return toolset_pb2.ResolvedTool(
        name=name,
        version=1,
        kind=tool_pb2.TOOL_KIND_PODIUM,
        description=f"does {name}",
        parameters_json_schema=(
            '{"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]}'
        ),
        timeout=duration_pb2.Duration(seconds=time_limit_s),
        podium=tool_pb2.PodiumConnection(model="scripted", **podium),
    )


def tokens(input_tokens: int, output_tokens: int) -> usage_pb2.Usage:
    return usage_pb2.Usage(
        source=usage_pb2.USAGE_SOURCE_PROVIDER,
        quantities=[
            usage_pb2.Quantity(
                dimension=usage_pb2.USAGE_DIMENSION_INPUT_FRESH, amount=str(input_tokens)
            ),
            usage_pb2.Quantity(
                dimension=usage_pb2.USAGE_DIMENSION_OUTPUT_TEXT, amount=str(output_tokens)
            ),
        ],
    )


def one_call() -> usage_pb2.Usage:
    return usage_pb2.Usage(
        source=usage_pb2.USAGE_SOURCE_MEASURED,
        quantities=[usage_pb2.Quantity(dimension=usage_pb2.USAGE_DIMENSION_CALL, amount="1")],
    )


UNIT_PRICE = Decimal("0.000000000123")


class SimpleLedger(
    ledger_rpc.CostLedgerServiceServicer,
    budget_rpc.BudgetServiceServicer,
    prices_rpc.PriceBookServiceServicer,
):
    """Holds and captures by key, each unit at one price; one budget per episode."""

    def __init__(self) -> None:
        self.holds: dict[str, ledger_pb.ReserveRequest] = {}
        self.captured: dict[str, Decimal] = {}
        # Why a call has no price.
        self.unpriced: dict[str, str] = {}
        self.answered_by: dict[str, hold_pb2.Fallback] = {}
        self.released: set[str] = set()
        self.reject_after: int | None = None
        # The budget that rejects; `{episode}` is the id of the episode that asks.
        self.rejecting_budget = "b"
        # How many holds the budgets have room for at once.
        self.open_max: int | None = None
        self.open_seen = 0
        # How long after a hold it answers.
        self.delay_s = 0.0
        # The longest answer the budgets cover.
        self.output_tokens_max: int | None = None
        self.budgets: list[budget_pb.Budget] = []
        self.without_price: set[str] = set()
        self.alerts: list[alert_pb2.BudgetAlert] = []

    async def GetEffectivePrices(
        self, request: prices_pb.GetEffectivePricesRequest, context: Context
    ) -> prices_pb.GetEffectivePricesResponse:
        prices = {sku: prices_pb.Price() for sku in request.skus if sku not in self.without_price}
        return prices_pb.GetEffectivePricesResponse(prices=prices)

    async def ListAlerts(
        self, request: budget_pb.ListAlertsRequest, context: Context
    ) -> budget_pb.ListAlertsResponse:
        place = int(request.page_token or 0)
        more = place + 1 < len(self.alerts)
        return budget_pb.ListAlertsResponse(
            alerts=self.alerts[place : place + 1],
            next_page_token=f"{place + 1}" if more else "",
        )

    def open(self) -> set[str]:
        return self.holds.keys() - self.captured.keys() - self.released

    def total(self, episode_id: str) -> Decimal:
        keys = [key for key in self.captured if key.startswith(episode_id)]
        return sum((self.captured[key] for key in keys), Decimal(0))

    async def Apply(
        self, request: ledger_pb.ApplyRequest, context: Context
    ) -> ledger_pb.ApplyResponse:
        for operation in request.operations:
            if operation.HasField("capture"):
                await self._check_usage(operation.capture.usage, context)
            reserve = without_asking_again(operation.reserve)
            if self.holds.get(reserve.key, reserve) != reserve:
                # As the real one: a call is never made under such a key.
                await context.abort(grpc.StatusCode.ALREADY_EXISTS, f"KEY_REUSED: {reserve.key}")
        results = [self._apply(operation) for operation in request.operations]
        if any(operation.HasField("reserve") for operation in request.operations):
            await asyncio.sleep(self.delay_s)
        return ledger_pb.ApplyResponse(results=results)

    async def ReleaseEpisode(
        self, request: ledger_pb.ReleaseEpisodeRequest, context: Context
    ) -> ledger_pb.ReleaseEpisodeResponse:
        keys = {key for key in self.holds if key.startswith(request.episode_id)}
        keys -= set(self.captured) | self.released
        kept = {key for key in keys if request.keep_dispatched and self.holds[key].dispatched}
        self.released |= keys - kept
        return ledger_pb.ReleaseEpisodeResponse(kept_keys=sorted(kept))

    async def CreateBudget(
        self, request: budget_pb.CreateBudgetRequest, context: Context
    ) -> budget_pb.CreateBudgetResponse:
        self.budgets.append(request.budget)
        return budget_pb.CreateBudgetResponse(budget=request.budget)

    async def _check_usage(self, usage: usage_pb2.Usage, context: Context) -> None:
        """Rejects the whole transaction for a usage that the ledger cannot read."""
        try:
            usage_from_proto(usage)
        except InvalidUsage as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)

    def _apply(self, operation: ledger_pb.Operation) -> ledger_pb.OperationResult:
        if operation.HasField("reserve"):
            return ledger_pb.OperationResult(reserve=self._reserve(operation.reserve))
        if operation.HasField("release"):
            assert operation.release.key in self.holds, "a release without a hold"
            self.released.add(operation.release.key)
            return ledger_pb.OperationResult(release=ledger_pb.ReleaseResponse())
        return ledger_pb.OperationResult(capture=self._capture(operation.capture))

    def _reserve(self, request: ledger_pb.ReserveRequest) -> ledger_pb.ReserveResponse:
        known = self.holds.get(request.key)
        if self.reject_after is not None and len(self.holds) >= self.reject_after and not known:
            rejection = hold_pb2.Rejection(
                reason=hold_pb2.REJECTION_REASON_BUDGET_EXHAUSTED,
                message="budget b is used up",
                budget_id=self.rejecting_budget.format(episode=request.key.split("/")[0]),
            )
            return ledger_pb.ReserveResponse(rejection=rejection)
        if not known and self.open_max is not None and len(self.open()) >= self.open_max:
            rejection = hold_pb2.Rejection(
                reason=hold_pb2.REJECTION_REASON_BUDGET_HELD
                if request.asks_again
                else hold_pb2.REJECTION_REASON_BUDGET_EXHAUSTED,
                message="others hold what is left of budget b",
            )
            return ledger_pb.ReserveResponse(rejection=rejection)
        self.holds[request.key] = without_asking_again(request)
        self.open_seen = max(self.open_seen, len(self.open()))
        hold = hold_pb2.Hold(
            key=request.key, worst_case=request.worst_case, fallbacks=request.fallbacks
        )
        for quantity in hold.worst_case:
            if quantity.dimension == usage_pb2.USAGE_DIMENSION_OUTPUT_TEXT:
                most = self.output_tokens_max or int(quantity.amount)
                assert most >= request.min_output_tokens, "less than the call is worth"
                quantity.amount = str(min(most, int(quantity.amount)))
        return ledger_pb.ReserveResponse(hold=hold)

    def _capture(self, request: ledger_pb.CaptureRequest) -> ledger_pb.CaptureResponse:
        assert request.key in self.holds, "a capture without a hold"
        units = sum(Decimal(quantity.amount) for quantity in request.usage.quantities)
        amount = units * UNIT_PRICE
        assert self.captured.setdefault(request.key, amount) == amount, "two truths for a key"
        if request.HasField("answered_by"):
            self.answered_by[request.key] = request.answered_by
        if request.usage.unusable_reason:
            self.unpriced[request.key] = request.usage.unusable_reason
            return ledger_pb.CaptureResponse(entry=hold_pb2.Entry(key=request.key))
        money = money_pb2.Money(currency_code="USD", amount=f"{amount:f}")
        return ledger_pb.CaptureResponse(entry=hold_pb2.Entry(key=request.key, amount=money))


def without_asking_again(request: ledger_pb.ReserveRequest) -> ledger_pb.ReserveRequest:
    common = ledger_pb.ReserveRequest()
    common.CopyFrom(request)
    common.asks_again = False
    return common


class FixedPolicies(policies_rpc.PolicyServiceServicer):
    def __init__(self) -> None:
        self.rejected: dict[str, str] = {}
        self.rejected_models: set[str] = set()
        self.asked: list[policies_pb.CheckCallsRequest] = []
        # Groups whose every call is rejected.
        self.bound: set[str] = set()
        self.guardrails: list[policy_pb2.Guardrail] = []
        # What tokens said of those who asked; no one verifies them here.
        self.callers: list[frozenset[str]] = []
        # Decisions wait for it.
        self.barrier: asyncio.Barrier | None = None

    async def CheckCalls(
        self, request: policies_pb.CheckCallsRequest, context: Context
    ) -> policies_pb.CheckCallsResponse:
        self.asked.append(request)
        if self.barrier is not None:
            await self.barrier.wait()
        claims = jwt.decode(bearer_token(context), options={"verify_signature": False})
        self.callers.append(frozenset(claims.get("groups", ())))
        bound = self.bound & self.callers[-1]
        decisions = [
            policies_pb.CallDecision(
                allowed=not bound
                and call.tool_name not in self.rejected
                and call.model_alias not in self.rejected_models,
                reason=self.rejected.get(call.tool_name, ""),
                guardrails=self.guardrails,
            )
            for call in request.calls
        ]
        return policies_pb.CheckCallsResponse(decisions=decisions)

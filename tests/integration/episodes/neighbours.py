"""Neighbours of the episodes service that do what a test says, over real gRPC.

They count what they are asked, so a test can say how often an effect happened.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf import duration_pb2

from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.adapters.v1 import tool_adapter_service_pb2_grpc as adapters_rpc
from podium.common.v1 import failure_pb2, usage_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.orchestrator.v1 import orchestrator_service_pb2_grpc as orchestrator_rpc
from podium.registry.v1 import policy_pb2, tool_pb2, toolset_pb2
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb
from podium.registry.v1 import tool_registry_service_pb2_grpc as registry_rpc
from podium_kit.rpc.errors import FailedPrecondition
from podium_kit.rpc.status import status_of
from podium_kit.wire import duration_to_proto


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
        self.logprobs = [-0.1, -0.2]
        # What every call reports, in place of the size of its task.
        self.usage: usage_pb2.Usage | None = None
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
        try:
            await asyncio.sleep(self.delay_s)
            await self.barrier.wait()
        finally:
            self.in_flight -= 1
        # The last fallback answers: every model before it is overloaded.
        model = request.fallback_models[-1] if request.fallback_models else ""
        return adapters_pb.InvokeResponse(
            output=adapters_pb.ToolOutput(content=self.content(request)),
            usage=one_call(),
            sku=f"m/{model}" if model else f"tool/{request.tool_name}",
            attempts=1,
            model_alias=model,
            latency=duration_to_proto(self.modelled_s.get(request.tool_name, self.delay_s)),
            latency_modelled=request.tool_name in self.modelled_s,
            finish_reason=self.finish_reason,
        )

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

    async def ResolveToolset(
        self, request: registry_pb.ResolveToolsetRequest, context: Context
    ) -> registry_pb.ResolveToolsetResponse:
        self.asked.append(request)
        if request.policy == "gone":
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no policy gone")
        toolset = self.found if request.known_tool_names else self.toolset
        return registry_pb.ResolveToolsetResponse(toolset=toolset)


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

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from gateway.attachments.files import file_named
from gateway.chat.streaming import ShownAnswer
from gateway.clients_health import ServiceState, state_of
from gateway.config import GatewaySettings
from gateway.convert import (
    attachment_data,
    client_calls_from_proto,
    event_from_proto,
    file_quota,
    kept_request_from_proto,
    made_call_from_proto,
    model_from_proto,
    order_to_proto,
    outcome_from_proto,
    prior_messages_from_proto,
    require_content,
    results_to_proto,
)
from gateway.errors import ResponseStillRuns, UpstreamFault
from gateway.limits.service import current_limits
from gateway.models import (
    AnswerPart,
    KeptRequest,
    ListOrder,
    MadeCall,
    OrchestratorModel,
    Outcome,
    PriorMessages,
    ProgressNote,
    ToolModels,
    ToolResults,
)
from gateway.tally import Tally, added, without
from podium.adapters.v1 import (
    corpus_service_pb2,
    secret_service_pb2,
    tool_adapter_service_pb2,
)
from podium.episodes.v1 import (
    dead_letter_service_pb2,
    direct_call_service_pb2,
    episode_pb2,
    episode_service_pb2,
    episode_service_pb2_grpc,
    evaluation_service_pb2,
    webhook_service_pb2,
)
from podium.ledger.v1 import (
    audit_service_pb2,
    budget_service_pb2,
    cost_ledger_service_pb2,
    price_book_service_pb2,
)
from podium.orchestrator.v1 import (
    model_version_service_pb2,
    orchestrator_service_pb2,
    orchestrator_service_pb2_grpc,
)
from podium.registry.v1 import (
    description_service_pb2,
    policy_service_pb2,
    policy_service_pb2_grpc,
    tool_registry_service_pb2,
    tool_registry_service_pb2_grpc,
)
from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.errors import DomainError, FailedPrecondition, InternalError
from podium_kit.rpc.status import domain_error_from
from podium_kit.rpc.tokens import TokenSigner
from podium_kit.tool_kinds import kind_of

# The REST routes find their RPCs by name: importing a contract is what makes it known.
CONTRACTS = (
    direct_call_service_pb2,
    dead_letter_service_pb2,
    corpus_service_pb2,
    secret_service_pb2,
    tool_adapter_service_pb2,
    audit_service_pb2,
    budget_service_pb2,
    cost_ledger_service_pb2,
    price_book_service_pb2,
    policy_service_pb2,
    tool_registry_service_pb2,
    description_service_pb2,
    model_version_service_pb2,
    webhook_service_pb2,
    evaluation_service_pb2,
)
SERVICES = {
    "podium.episodes.v1": "episodes",
    "podium.registry.v1": "tool-registry",
    "podium.ledger.v1": "cost-ledger",
    "podium.adapters.v1": "tool-adapters",
    "podium.orchestrator.v1": "orchestrator-inference",
}
# Shorter than the servers' own limit for calls, so that a watch is renewed and not cut.
WATCH_RENEW_S = 300.0
# How long a stream that its client can resume may take.
STREAM_DEADLINE_S = 300.0
# How long a watch retries an unreachable service: longer than a restart takes.
WATCH_PATIENCE_S = 60.0
WATCH_PAUSE_S = 0.2
# How long what is stored of an episode that runs is waited for.
SNAPSHOT_S = 1.0
PAGE_SIZE = 500
BROKEN = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
}
# One that waits may wait for a client that says something else instead.
UNDER_WAY = (episode_pb2.EPISODE_STATE_PENDING, episode_pb2.EPISODE_STATE_RUNNING)
R = TypeVar("R")
UnaryCall = Callable[[Any], Awaitable[ProtoMessage]]
StreamCall = Callable[[Any], AsyncIterator[ProtoMessage]]


def upstream_error(error: grpc.aio.AioRpcError) -> DomainError:
    """The error to show the caller. A service's fault is not the caller's mistake."""
    known = domain_error_from(error)
    return UpstreamFault() if isinstance(known, InternalError) else known


async def answer(call: Awaitable[R]) -> R:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise upstream_error(error) from error


class Upstreams:
    """One channel per service, found by the package of its contract."""

    def __init__(self, channels: Mapping[str, grpc.aio.Channel]) -> None:
        self._channels = channels

    @classmethod
    def open(cls, settings: GatewaySettings, signer: TokenSigner) -> "Upstreams":
        """Channels that call with the identity of the current request's caller."""
        targets = {
            "podium.episodes.v1": settings.episodes_target,
            "podium.registry.v1": settings.tool_registry_target,
            "podium.ledger.v1": settings.cost_ledger_target,
            "podium.adapters.v1": settings.tool_adapters_target,
            "podium.orchestrator.v1": settings.orchestrator_inference_target,
        }
        return cls(
            {
                package: open_channel(
                    target, signer, tls=settings.tls, deadline_s=settings.answer_timeout_s
                )
                for package, target in targets.items()
            }
        )

    def health_checks(self) -> dict[str, Callable[[], Awaitable[ServiceState]]]:
        """Checks of the services, by the names that operators know them by."""
        return {
            SERVICES[package]: partial(state_of, channel)
            for package, channel in self._channels.items()
        }

    def __getitem__(self, package: str) -> grpc.aio.Channel:
        return self._channels[package]

    def unary(self, method: MethodDescriptor) -> UnaryCall:
        service = method.containing_service
        call = self._channels[service.file.package].unary_unary(
            f"/{service.full_name}/{method.name}",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )

        async def invoke(request: Any) -> ProtoMessage:
            reply: ProtoMessage = await answer(call(request))
            return reply

        return invoke

    def stream(self, method: MethodDescriptor) -> StreamCall:
        service = method.containing_service
        call = self._channels[service.file.package].unary_stream(
            f"/{service.full_name}/{method.name}",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )

        async def invoke(request: Any) -> AsyncIterator[ProtoMessage]:
            try:
                async for reply in call(request, timeout=STREAM_DEADLINE_S):
                    yield reply
            except grpc.aio.AioRpcError as error:
                raise upstream_error(error) from error

        return invoke

    async def check(self) -> None:
        await self._channels["podium.episodes.v1"].channel_ready()

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close(None)


class EpisodesClient:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = episode_service_pb2_grpc.EpisodeServiceStub(channel)

    async def start(self, episode_id: str, order: ListOrder) -> None:
        """Starts it, or finds it started: the id makes a retry safe."""
        request = episode_service_pb2.StartEpisodeRequest(
            episode_id=episode_id,
            spec=order_to_proto(order),
            running_limit=current_limits().running_episodes,
            file_quota=file_quota(current_limits()),
            attachment_data=attachment_data(order),
        )
        with file_named(order):
            await answer(self._stub.StartEpisode(request))

    async def count_tokens(self, order: ListOrder) -> int:
        request = episode_service_pb2.CountPromptTokensRequest(spec=order_to_proto(order))
        with file_named(order):
            return (await answer(self._stub.CountPromptTokens(request))).token_count

    async def check_exists(self, episode_id: str) -> None:
        request = episode_service_pb2.GetEpisodeRequest(episode_id=episode_id)
        await answer(self._stub.GetEpisode(request))

    async def watch(
        self, episode_id: str, after_sequence: int = 0, **wanted: bool
    ) -> AsyncIterator[episode_service_pb2.WatchEpisodeResponse]:
        """Every event after the sequence until the episode ends, each once, over any number of
        calls. `wanted` are further fields of the request, such as answer_parts. Raises after a
        minute without an answer."""
        seen_at = time.monotonic()
        whole = episode_service_pb2.GetEpisodeRequest(episode_id=episode_id)
        while True:
            asked_after = after_sequence
            try:
                request = episode_service_pb2.WatchEpisodeRequest(
                    episode_id=episode_id, after_sequence=after_sequence, **wanted
                )
                async for news in self._stub.WatchEpisode(request, timeout=WATCH_RENEW_S):
                    seen_at = time.monotonic()
                    after_sequence = news.event.sequence or after_sequence
                    yield news
                    if news.event.HasField("finished"):
                        return
                if after_sequence == asked_after and not wanted.get("end_only"):
                    # Nothing comes after the end, which anyone who resumes may have seen.
                    episode = (await self._stub.GetEpisode(whole)).episode
                    if episode.state == episode_pb2.EPISODE_STATE_FINISHED:
                        return
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                    seen_at = time.monotonic()
                patient = time.monotonic() - seen_at < WATCH_PATIENCE_S
                if error.code() not in BROKEN or not patient:
                    raise upstream_error(error) from error
            await asyncio.sleep(WATCH_PAUSE_S)

    async def answer(self, results: ToolResults) -> None:
        """Gives what the client's functions gave; the same again changes nothing."""
        await answer(self._stub.AnswerToolCalls(results_to_proto(results)))

    async def events(
        self,
        episode_id: str,
        answered_turn: int = 0,
        *,
        with_calls: bool = False,
        with_parts: bool = False,
        end_only: bool = False,
    ) -> AsyncIterator[ProgressNote | AnswerPart | Outcome]:
        """The watch in the gateway's own values, from the turn on that was answered.

        The outcome comes last: how the episode ended, or how it stands when it waits for calls of
        its client. Its tally is of these events alone; calls are kept for those who ask for them.
        """
        before: Tally = {}
        spent: Tally = {}
        made: list[MadeCall] = []
        shown = ShownAnswer()
        async for news in self.watch(episode_id, answer_parts=with_parts, end_only=end_only):
            event, part = news.event, news.answer_part
            if text := part.turn > answered_turn and shown.add(part.start, part.text):
                yield AnswerPart(text)
            if news.HasField("answer_part"):
                continue
            require_content(event)
            found = event_from_proto(event)
            if isinstance(found, Outcome):
                spent = without(found.tally, before)
                yield replace(found, tally=spent, made_calls=tuple(made))
            elif answered_turn and found.turn <= answered_turn:
                before = added(before, found.tally)
            elif calls := client_calls_from_proto(event):
                standing = outcome_from_proto(await self._episode(episode_id))
                # By now it may have ended; a turn of calls has no answer.
                yield replace(
                    standing, answer="", tally=spent, client_calls=calls, made_calls=tuple(made)
                )
                return
            else:
                if with_calls and event.HasField("tool_returned"):
                    made.append(made_call_from_proto(event))
                spent = added(spent, found.tally)
                yield found

    async def outcome_now(self, episode_id: str, answered_turn: int) -> Outcome | None:
        try:
            async with asyncio.timeout(SNAPSHOT_S):
                async for event in self.events(episode_id, answered_turn, with_calls=True):
                    if isinstance(event, Outcome):
                        return event
        except TimeoutError:
            return None
        return None

    async def prior_messages(self, episode_id: str, param: str) -> PriorMessages:
        episode = await self._episode(episode_id)
        if episode.state in UNDER_WAY:
            raise ResponseStillRuns(episode_id, param)
        return prior_messages_from_proto(episode, param)

    async def kept(self, episode_id: str, label: str) -> KeptRequest:
        spec = (await self._episode(episode_id)).spec
        return kept_request_from_proto(spec, label)

    async def _episode(self, episode_id: str) -> episode_pb2.Episode:
        request = episode_service_pb2.GetEpisodeRequest(episode_id=episode_id)
        episode = (await answer(self._stub.GetEpisode(request))).episode
        require_content(episode)
        return episode

    async def cancel(self, episode_id: str, reason: str) -> None:
        """Cancels it; one that has ended stays as it is."""
        request = episode_service_pb2.CancelEpisodeRequest(episode_id=episode_id, reason=reason)
        await answer(self._stub.CancelEpisode(request))


class CatalogueClient:
    def __init__(self, models: grpc.aio.Channel, policies: grpc.aio.Channel) -> None:
        self._models = orchestrator_service_pb2_grpc.OrchestratorServiceStub(models)
        self._policies = policy_service_pb2_grpc.PolicyServiceStub(policies)
        self._tools = tool_registry_service_pb2_grpc.ToolRegistryServiceStub(policies)

    async def models(self) -> list[OrchestratorModel]:
        found: list[OrchestratorModel] = []
        request = orchestrator_service_pb2.ListModelsRequest(page_size=PAGE_SIZE)
        while True:
            page = await answer(self._models.ListModels(request))
            found += [model_from_proto(model) for model in page.models]
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def tools(self) -> list[ToolModels]:
        """Language models that the active policy lets be called without a person's approval."""
        request = tool_registry_service_pb2.ResolveToolsetRequest(for_direct_calls=True)
        try:
            toolset = (await answer(self._tools.ResolveToolset(request))).toolset
        except FailedPrecondition:
            # A tenant that may use no preset and has activated no policy has no tools yet.
            return []
        return [
            ToolModels(tool.name, tuple(tool.model_aliases))
            for tool in toolset.tools
            if kind_of(tool.kind).has_models and not tool.needs_approval
        ]

    async def policy_names(self) -> list[str]:
        """Every policy the tenant can name, presets first."""
        names: list[str] = []
        request = policy_service_pb2.ListPoliciesRequest(page_size=PAGE_SIZE)
        while True:
            page = await answer(self._policies.ListPolicies(request))
            names += [policy.spec.name for policy in page.policies]
            if not page.next_page_token:
                return names
            request.page_token = page.next_page_token

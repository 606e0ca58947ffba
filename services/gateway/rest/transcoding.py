import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from google.protobuf.message import Message
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as HttpRoute

from gateway.clients import EpisodesClient, UnaryCall
from gateway.clients_events import TenantEventsClient, TenantEventText
from gateway.convert import event_json, event_kind, file_quota
from gateway.episode_ids import EpisodeIds
from gateway.errors import MalformedRequest
from gateway.http.error_responses import error_body
from gateway.http.sse import data, kept_alive, sse_response
from gateway.limits.service import current_limits
from gateway.rest.audited_calls import AuditedCalls
from gateway.rest.messages import (
    merge_body,
    merge_fields,
    merge_query,
    method_of,
    new_request,
    to_json,
)
from gateway.rest.routes import Route
from podium_kit import telemetry
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.texts import require_no_nul
from podium_kit.wire import json_values

Endpoint = Callable[[Request], Awaitable[Response]]
WITH_BODY = {"POST", "PUT", "PATCH"}
JSON_LINES = "application/x-ndjson"
# Of a watch, beside the sequence after which it begins.
WATCH_FLAGS = ("answer_parts", "end_only")
# As many digits as all numbers of 32 bits have, which events are counted with.
SEQUENCE = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Transcoder:
    calls: AuditedCalls
    episodes: EpisodesClient
    tenant_events: TenantEventsClient
    episode_ids: EpisodeIds
    keepalive_s: float
    draining: asyncio.Event

    def http_route(self, route: Route) -> HttpRoute:
        streams = {"WatchEpisode": self._events, "WatchTenantEvents": self._tenant_events}
        endpoint = streams.get(route.rpc) or self._unary(route)
        if route.json_lines:
            endpoint = self._lines(route)
        # An id may hold a slash: an episode's budget is episode/<episode id>.
        path = route.path.replace("{id}", "{id:path}")
        return HttpRoute(path, endpoint, methods=[route.method], name=route.rpc)

    def _unary(self, route: Route) -> Endpoint:
        method = method_of(route)
        call = self.calls.of(route)
        limited = {"file_quota", "running_limit"}.intersection(method.input_type.fields_by_name)

        async def endpoint(request: Request) -> Response:
            message = await _read(request, new_request(method), route)
            # The tenant's limits, and never what a body says.
            if "file_quota" in limited:
                quota = file_quota(current_limits())
                message.file_quota.CopyFrom(quota)  # type: ignore[attr-defined]
            if "running_limit" in limited:
                message.running_limit = current_limits().running_episodes  # type: ignore[attr-defined]
            if route.new_episode_id:
                return await self._start(route.new_episode_id, call, message, request)
            return _json(to_json(await call(message)))

        return endpoint

    def _lines(self, route: Route) -> Endpoint:
        method = method_of(route)
        call = self.calls.upstreams.stream(method)

        async def endpoint(request: Request) -> Response:
            replies = call(await _read(request, new_request(method), route))
            # Awaited first, so that a rejection has its status and is no broken stream.
            first = await anext(replies)
            return StreamingResponse(_json_lines(first, replies), media_type=JSON_LINES)

        return endpoint

    async def _start(
        self, field: str, call: UnaryCall, message: Message, request: Request
    ) -> Response:
        """Names the episode unless the body does, and starts it as the root of its trace."""
        given, body = getattr(message, field), await request.body()
        async with self.episode_ids.starting(request.headers, body, given) as episode:
            merge_fields(message, {field: episode.value})
            trace = telemetry.episode_context(episode.value)
            with trace, telemetry.span("gateway.start_episode"):
                reply = await call(message)
        return _json(to_json(reply), {"x-podium-episode": episode.value})

    async def _events(self, request: Request) -> StreamingResponse:
        """The watch as server-sent events; Last-Event-ID resumes it without a gap."""
        episode_id = request.path_params["episode_id"]
        resumed = request.headers.get("last-event-id")
        given = resumed or request.query_params.get("after_sequence")
        after_sequence = _sequence(given or "0", "Last-Event-ID" if resumed else "after_sequence")
        # Asked first, so that an unknown episode is a 404 and not a broken stream.
        await self.episodes.check_exists(episode_id)
        wanted = {name: _flag(request, name) for name in WATCH_FLAGS}
        events = self._watch(episode_id, after_sequence, **wanted)
        return sse_response(kept_alive(events, self.keepalive_s, self.draining))

    async def _tenant_events(self, request: Request) -> StreamingResponse:
        """The tenant's events as server-sent events; Last-Event-ID resumes them."""
        resumed = request.headers.get("last-event-id")
        events = self.tenant_events.watch(resumed or request.query_params.get("after", ""))
        # Awaited first, so that a rejection has its status and is no broken stream.
        first = await anext(events)
        return sse_response(kept_alive(_sent(first, events), self.keepalive_s, self.draining))

    async def _watch(
        self, episode_id: str, after_sequence: int, **wanted: bool
    ) -> AsyncIterator[bytes]:
        try:
            async for news in self.episodes.watch(episode_id, after_sequence, **wanted):
                if news.HasField("answer_part"):
                    # Without an id: it is not what a watch resumes from.
                    yield b"event: answer_part\n" + data(json_values(news.answer_part))
                    continue
                event = news.event
                head = f"id: {event.sequence}\nevent: {event_kind(event)}\n"
                yield f"{head}data: {event_json(event)}\n\n".encode()
        except DomainError as error:
            yield b"event: error\n" + data(error_body(error))


async def _read(request: Request, message: Message, route: Route) -> Message:
    if route.method in WITH_BODY:
        merge_body(message, await request.body())
    else:
        merge_query(message, request.query_params.multi_items())
    # Last, so that a body cannot point the call at something else than the path does.
    merge_fields(message, request.path_params)
    # Here as well as in the services: the audit log is written before they are called.
    require_no_nul(message)
    return message


async def _sent(
    first: TenantEventText, rest: AsyncIterator[TenantEventText]
) -> AsyncIterator[bytes]:
    yield _tenant_event(first)
    try:
        async for event in rest:
            yield _tenant_event(event)
    except DomainError as error:
        yield b"event: error\n" + data(error_body(error))


def _tenant_event(event: TenantEventText) -> bytes:
    return f"id: {event.position}\nevent: {event.kind}\ndata: {event.json}\n\n".encode()


async def _json_lines(first: Message, rest: AsyncIterator[Message]) -> AsyncIterator[bytes]:
    """A line per message; an error that cuts the stream is its last line."""
    yield to_json(first) + b"\n"
    try:
        async for message in rest:
            yield to_json(message) + b"\n"
    except DomainError as error:
        yield json.dumps(error_body(error)).encode() + b"\n"


def _sequence(given: str, param: str) -> int:
    if not SEQUENCE.fullmatch(given):
        raise MalformedRequest(
            f"{given[:40]!r} is not the id of an event; send the last id you saw",
            param=param,
        )
    return int(given)


def _flag(request: Request, name: str) -> bool:
    given = request.query_params.get(name, "false")
    if given not in ("true", "false"):
        raise MalformedRequest(f"{given[:40]!r} is neither true nor false", param=name)
    return given == "true"


def _json(body: bytes, headers: dict[str, str] | None = None) -> Response:
    return Response(body, headers=headers, media_type="application/json")

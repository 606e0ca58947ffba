import hashlib
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, TypeVar

from google.protobuf.message import Message

from episodes.episodes.convert import STATE_FROM_WIRE, episode_to_proto
from episodes.episodes.convert_withheld import EPISODE_METADATA
from episodes.episodes.search import (
    EpisodeCounts,
    EpisodeFilter,
    FacetCount,
    FoundEpisode,
    PagePosition,
    SearchOrder,
)
from episodes.models import StopReason
from episodes.publication.trajectory import STOP_REASON_TO_WIRE
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.rpc.errors import InvalidArgument
from podium_kit.rpc.identity import Scope, current_identity
from podium_kit.rpc.pages import InvalidPageToken, decode_page_token, encode_page_token
from podium_kit.wire import (
    duration_from_proto,
    money_to_proto,
    timestamp_from_proto,
    timestamp_to_proto,
)

RUNNING = episode_pb2.STOP_REASON_UNSPECIFIED
STOP_REASON_FROM_WIRE = {number: reason for reason, number in STOP_REASON_TO_WIRE.items()}
FAILURE_KINDS = {number: number for number in failure_pb2.FailureKind.values()}
ORDERS = {
    pb.EPISODE_ORDER_UNSPECIFIED: SearchOrder.NEWEST,
    pb.EPISODE_ORDER_COST: SearchOrder.COST,
    pb.EPISODE_ORDER_DURATION: SearchOrder.DURATION,
}
# No subject has an empty name.
NO_SUBJECT = ""
SUMMARY = EPISODE_METADATA - {"failure", "usage"} | {"content_withheld"}
SUMMARY_SPEC = frozenset({"task", "model", "policy", "labels", "parent", "group"})
T = TypeVar("T")
# A century.
BUCKET_S_MAX = 3_155_760_000


def filter_from_proto(request: pb.EpisodeFilter) -> EpisodeFilter:
    """Raises InvalidArgument for a state, reason or kind that does not exist, or a bad id."""
    reader = current_identity()
    subjects = list(request.subjects)
    # Words of the task are content.
    if request.own or (request.words and not reader.may(Scope.TRAJECTORIES_READ)):
        subjects = [reader.subject] if not subjects or reader.subject in subjects else [NO_SUBJECT]
    return EpisodeFilter(
        states=_known("states", request.states, STATE_FROM_WIRE),
        labels=dict(request.labels),
        words=request.words,
        stop_reasons=_known("stop_reasons", request.stop_reasons, STOP_REASON_FROM_WIRE),
        policies=tuple(request.policies),
        models=tuple(request.models),
        tool_names=tuple(request.tool_names),
        subjects=tuple(subjects),
        teams=tuple(request.teams),
        failure_kinds=_known("failure_kinds", request.failure_kinds, FAILURE_KINDS),
        group_id=request.group_id,
        task_id=request.task_id,
        parent_id=_uuid("parent_episode_id", request.parent_episode_id),
        start_time=_time(request, "start_time"),
        end_time=_time(request, "end_time"),
        min_cost=Decimal(request.min_cost) if request.min_cost else None,
        max_cost=Decimal(request.max_cost) if request.max_cost else None,
        min_duration_ms=_milliseconds(request, "min_duration"),
        max_duration_ms=_milliseconds(request, "max_duration"),
        min_score=request.min_score if request.HasField("min_score") else None,
        max_score=request.max_score if request.HasField("max_score") else None,
        unpriced=request.unpriced,
        training_consent=request.training_consent,
    )


def order_from_proto(order: pb.EpisodeOrder.ValueType) -> SearchOrder:
    if order not in ORDERS:
        raise InvalidArgument(f"order_by is {order}, which is no order")
    return ORDERS[order]


def position_from_proto(request: pb.ListEpisodesRequest) -> PagePosition | None:
    """Raises InvalidPageToken for one of another list."""
    if not request.page_token:
        return None
    token = decode_page_token(request.page_token)
    if token.get("list") != _list_digest(request) or not token.keys() >= {"value", "id"}:
        raise InvalidPageToken
    try:
        return PagePosition(token["value"], str(uuid.UUID(token["id"])))
    except ValueError as error:
        raise InvalidPageToken from error


def position_token(request: pb.ListEpisodesRequest, position: PagePosition | None) -> str:
    if position is None:
        return ""
    return encode_page_token({**vars(position), "list": _list_digest(request)})


def _list_digest(request: pb.ListEpisodesRequest) -> str:
    filtered = request.filter.SerializeToString(deterministic=True)
    return hashlib.sha256(filtered + bytes([request.order_by])).hexdigest()[:16]


def found_to_proto(found: FoundEpisode, view: pb.EpisodeView.ValueType) -> episode_pb2.Episode:
    episode = episode_to_proto(found.stored)
    episode.called_tools.extend(sorted(found.facts.tools))
    kinds = sorted(found.facts.failure_kinds)
    episode.failure_kinds.extend(failure_pb2.FailureKind.ValueType(kind) for kind in kinds)
    if found.facts.score is not None:
        episode.score = found.facts.score
    if view == pb.EPISODE_VIEW_SUMMARY:
        _keep(episode, SUMMARY)
        if episode.spec.task:
            episode.spec.task = found.excerpt.task
        _keep(episode.spec, SUMMARY_SPEC)
    return episode


def _keep(message: Message, names: frozenset[str]) -> None:
    for field, _ in message.ListFields():
        if field.name not in names:
            message.ClearField(field.name)


def counts_to_proto(counts: EpisodeCounts) -> pb.SummarizeEpisodesResponse:
    beginning = counts.series_start_time
    return pb.SummarizeEpisodesResponse(
        count=counts.count,
        facets=[
            pb.EpisodeFacet(field=each.field, value=_facet_value(each), count=each.count)
            for each in counts.facets
        ],
        series=[
            pb.EpisodeBucket(
                start_time=timestamp_to_proto(each.start_time),
                stop_reason=STOP_REASON_TO_WIRE[each.stop_reason] if each.stop_reason else RUNNING,
                count=each.count,
                cost=None if each.cost is None else money_to_proto(each.cost),
            )
            for each in counts.series
        ],
        series_start_time=None if beginning is None else timestamp_to_proto(beginning),
    )


def _facet_value(facet: FacetCount) -> str:
    """Returns the value as JSON of a filter writes it."""
    if facet.field == "stop_reasons":
        return episode_pb2.StopReason.Name(STOP_REASON_TO_WIRE[StopReason(facet.value)])
    if facet.field == "failure_kinds":
        return failure_pb2.FailureKind.Name(failure_pb2.FailureKind.ValueType(int(facet.value)))
    return facet.value


def bucket_from_proto(request: pb.SummarizeEpisodesRequest) -> timedelta | None:
    """Raises InvalidArgument for less than a second."""
    if not request.HasField("bucket"):
        return None
    seconds = duration_from_proto(request.bucket)
    if not 1 <= seconds <= BUCKET_S_MAX:
        raise InvalidArgument(f"bucket is {seconds:g} s; give 1 s to {BUCKET_S_MAX} s")
    return timedelta(seconds=seconds)


def _known(name: str, numbers: Iterable[Any], known: Mapping[Any, T]) -> tuple[T, ...]:
    if unknown := [number for number in numbers if number not in known]:
        raise InvalidArgument(f"filter.{name} holds {unknown[0]}, which does not exist")
    return tuple(known[number] for number in numbers)


def _uuid(name: str, given: str) -> str:
    try:
        return str(uuid.UUID(given)) if given else ""
    except ValueError as error:
        raise InvalidArgument(f"filter.{name} is no id of an episode") from error


def _time(request: pb.EpisodeFilter, name: Literal["start_time", "end_time"]) -> datetime | None:
    return timestamp_from_proto(getattr(request, name)) if request.HasField(name) else None


def _milliseconds(
    request: pb.EpisodeFilter, name: Literal["min_duration", "max_duration"]
) -> int | None:
    if not request.HasField(name):
        return None
    return round(1000 * duration_from_proto(getattr(request, name)))

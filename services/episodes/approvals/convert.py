import uuid

from episodes.approvals.models import ApprovalPosition, WaitingCall
from episodes.models import SEQUENCE_MAX
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.registry.v1 import toolset_pb2
from podium_kit.rpc.identity import Identity
from podium_kit.rpc.pages import (
    InvalidPageToken,
    decode_page_token,
    encode_page_token,
    token_number,
)
from podium_kit.wire import duration_from_proto, timestamp_to_proto


def waiting_to_proto(waiting: WaitingCall, reader: Identity) -> pb.WaitingApproval:
    request = episode_pb2.ApprovalRequested.FromString(waiting.request)
    starter = Identity(reader.tenant, waiting.started_by, frozenset(), waiting.groups)
    others = starter.people.isdisjoint(reader.people)
    return pb.WaitingApproval(
        episode_id=waiting.place.episode_id,
        started_by=waiting.started_by,
        turn=waiting.place.turn,
        call=request.call,
        create_time=timestamp_to_proto(waiting.create_time),
        expire_time=request.expire_time,
        approvable=others or self_approval(waiting.toolset),
        task=waiting.task,
        policy_name=waiting.policy_name,
        reason=request.reason,
        price=request.price if request.HasField("price") else None,
        side_effect=request.side_effect,
    )


def place_from_token(token: str) -> ApprovalPosition | None:
    if not (values := decode_page_token(token)):
        return None
    try:
        episode_id = str(uuid.UUID(values.get("episode", "")))
    except ValueError as error:
        raise InvalidPageToken from error
    turn, call_index = token_number(values, "turn", 0), token_number(values, "call", 0)
    if max(turn, call_index) > SEQUENCE_MAX:
        raise InvalidPageToken
    return ApprovalPosition(episode_id, turn, call_index)


def token_of(place: ApprovalPosition) -> str:
    return encode_page_token(
        {"episode": place.episode_id, "turn": str(place.turn), "call": str(place.call_index)}
    )


APPROVAL_TIMEOUT_S = 3600.0


def approval_timeout_s(toolset: bytes) -> float:
    """Returns the seconds that a call of the toolset's episode waits before it is denied."""
    timeout = toolset_pb2.Toolset.FromString(toolset).approval_timeout
    return duration_from_proto(timeout) or APPROVAL_TIMEOUT_S


def self_approval(toolset: bytes) -> bool:
    return toolset_pb2.Toolset.FromString(toolset).self_approval

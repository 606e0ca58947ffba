"""Calls that wait, on the wire."""

import uuid

from episodes.approvals.models import ApprovalPosition, WaitingCall
from episodes.steps.watch import SEQUENCE_MAX
from episodes.workflows.convert import self_approval
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.rpc.pages import (
    InvalidPageToken,
    decode_page_token,
    encode_page_token,
    token_number,
)
from podium_kit.wire import timestamp_to_proto


def waiting_to_proto(waiting: WaitingCall, reader: str) -> pb.WaitingApproval:
    """As one subject sees it."""
    request = episode_pb2.ApprovalRequested.FromString(waiting.request)
    others = waiting.started_by != reader
    return pb.WaitingApproval(
        episode_id=waiting.place.episode_id,
        started_by=waiting.started_by,
        turn=waiting.place.turn,
        call=request.call,
        create_time=timestamp_to_proto(waiting.create_time),
        expire_time=request.expire_time,
        approvable=others or self_approval(waiting.toolset),
    )


def place_from_token(token: str) -> ApprovalPosition | None:
    """After which call a page begins; None for the first. Raises InvalidPageToken."""
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
    """Where the next page begins."""
    return encode_page_token(
        {"episode": place.episode_id, "turn": str(place.turn), "call": str(place.call_index)}
    )

"""Records of the trajectory stream, validated before they are published.

A consumer drops repetitions by record id and checks the digest; both travel in the headers.
"""

import hashlib
import math

from episodes.keys import record_id
from episodes.models import OutboxRecord
from podium.episodes.v1 import feedback_pb2
from podium.episodes.v1 import trajectory_pb2 as pb
from podium_kit.rpc.errors import FailedPrecondition

SCHEMA = "podium.episodes.v1.TrajectoryRecord"
# Brokers reject records above about 1 MB; larger trajectories travel by reference.
RECORD_BYTES_MAX = 900_000


class InvalidTrajectory(FailedPrecondition):
    """A trajectory a trainer could not use."""


def trajectory_record(trajectory: pb.Trajectory) -> OutboxRecord:
    return _record(
        "trajectory",
        trajectory.episode_id,
        trajectory.tenant,
        trajectory.group_id,
        pb.TrajectoryRecord(trajectory=trajectory),
    )


def closing_record(member: OutboxRecord, members: list[tuple[str, str]]) -> OutboxRecord:
    """Builds the record that closes a member's group; members are (episode id, digest)."""
    closed = pb.GroupClosed(
        group_id=member.group_id,
        episode_ids=[episode_id for episode_id, _ in members],
        record_digests=[digest for _, digest in members],
        tenant=member.tenant,
    )
    return _record(
        "group_closed",
        f"{member.tenant}/{member.group_id}",
        member.tenant,
        member.group_id,
        pb.TrajectoryRecord(group_closed=closed),
    )


def feedback_record(
    episode_id: str, group_id: str, tenant: str, feedback: feedback_pb2.Feedback
) -> OutboxRecord:
    given = pb.FeedbackGiven(
        episode_id=episode_id, group_id=group_id, tenant=tenant, feedback=feedback
    )
    return _record(
        "feedback",
        f"{episode_id}/{feedback.id}",
        tenant,
        group_id,
        pb.TrajectoryRecord(feedback_given=given),
    )


def stream_body(record: OutboxRecord) -> bytes:
    """Returns the record, or a reference to one that is too large for the topic."""
    if len(record.body) <= RECORD_BYTES_MAX:
        return record.body
    trajectory = pb.TrajectoryRecord.FromString(record.body).trajectory
    reference = pb.TrajectoryReference(
        episode_id=trajectory.episode_id,
        group_id=record.group_id,
        tenant=record.tenant,
        digest=record.digest,
        size_bytes=len(record.body),
    )
    return pb.TrajectoryRecord(reference=reference).SerializeToString()


def validate(body: bytes) -> None:
    for turn in pb.TrajectoryRecord.FromString(body).trajectory.turns:
        response = turn.model_call.response
        logprobs, ids = response.completion_logprobs, response.completion_token_ids
        if logprobs and ids and len(logprobs) != len(ids):
            raise InvalidTrajectory(
                f"turn {turn.number} has {len(ids)} tokens, {len(logprobs)} logprobs"
            )
        if not all(math.isfinite(value) and value <= 0 for value in logprobs):
            raise InvalidTrajectory(f"turn {turn.number} has a logprob that is not one")
        if any(token < 0 for token in [*ids, *response.prompt_token_ids]):
            raise InvalidTrajectory(f"turn {turn.number} has a negative token id")


def _record(
    kind: str, subject_id: str, tenant: str, group_id: str, message: pb.TrajectoryRecord
) -> OutboxRecord:
    body = message.SerializeToString(deterministic=True)
    identity = record_id(kind, subject_id)
    headers = {
        "record-id": identity,
        "digest": hashlib.sha256(body).hexdigest(),
        "schema": SCHEMA,
    }
    return OutboxRecord(identity, kind, tenant, group_id, body, headers)

"""Between the contract's messages and feedback."""

from episodes.feedback.models import Feedback
from podium.episodes.v1 import episode_service_pb2, feedback_pb2
from podium_kit.wire import timestamp_to_proto


def feedback_from_proto(request: episode_service_pb2.GiveFeedbackRequest, subject: str) -> Feedback:
    score = request.score if request.HasField("score") else None
    return Feedback(request.id, score, request.label, request.comment, subject).identified()


def feedback_to_proto(feedback: Feedback) -> feedback_pb2.Feedback:
    message = feedback_pb2.Feedback(
        id=feedback.id,
        score=feedback.score,
        label=feedback.label,
        comment=feedback.comment,
        created_by=feedback.created_by,
    )
    if feedback.create_time is not None:
        message.create_time.CopyFrom(timestamp_to_proto(feedback.create_time))
    return message

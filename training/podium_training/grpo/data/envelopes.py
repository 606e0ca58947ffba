import hashlib

from google.protobuf.message import DecodeError

from podium.episodes.v1 import trajectory_pb2 as pb
from podium_training.grpo.data.episodes import Reason, Rejected
from podium_training.grpo.data.stream import LogRecord

# The message a producer wrote, package and major version in its name.
SCHEMA = pb.TrajectoryRecord.DESCRIPTOR.full_name


def open_record(record: LogRecord) -> pb.TrajectoryRecord:
    """The message of a record: of the one schema, whole, and as it was sent. Raises Rejected."""
    schema = record.headers.get("schema", "")
    if schema != SCHEMA:
        raise Rejected(Reason.OTHER_SCHEMA, f"{schema or 'none'}, and this trainer reads {SCHEMA}")
    try:
        message = pb.TrajectoryRecord.FromString(record.value)
    except DecodeError as error:
        raise Rejected(Reason.MALFORMED, "the record is cut off or no message") from error
    if _digest(record, message) != record.headers.get("digest"):
        raise Rejected(Reason.WRONG_DIGEST, "the record is not what its producer sent")
    if message.WhichOneof("record") is None:
        raise Rejected(Reason.MALFORMED, "the record is empty")
    found = message.trajectory
    if message.HasField("trajectory") and not (found.episode_id and found.group_id):
        raise Rejected(Reason.MALFORMED, "it does not say which episode of which group it is")
    if message.HasField("feedback_given") and not message.feedback_given.episode_id:
        raise Rejected(Reason.MALFORMED, "it does not say which episode it is about")
    return message


def _digest(record: LogRecord, message: pb.TrajectoryRecord) -> str:
    """A reference stands for a record that is elsewhere, and bears the digest of that one."""
    if message.HasField("reference"):
        return message.reference.digest
    return hashlib.sha256(record.value).hexdigest()

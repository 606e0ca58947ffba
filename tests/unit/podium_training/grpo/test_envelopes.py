"""What a record says about itself, and how one that lies is rejected."""

import hashlib

import pytest

from podium.episodes.v1 import trajectory_pb2 as pb
from podium_training.grpo.data.envelopes import SCHEMA, open_record
from podium_training.grpo.data.episodes import Reason, Rejected
from podium_training.grpo.data.stream import LogRecord
from unit.podium_training.grpo.trajectories import make_trajectory


def make_record(value: bytes, digest: str = "", schema: str = SCHEMA) -> LogRecord:
    headers = {"digest": digest or hashlib.sha256(value).hexdigest(), "schema": schema}
    return LogRecord(0, 7, value, b"g1", headers)


VALUE = pb.TrajectoryRecord(trajectory=make_trajectory()).SerializeToString()
NAMELESS = pb.TrajectoryRecord(trajectory=make_trajectory("")).SerializeToString()


def test_a_record_as_it_was_sent_is_opened() -> None:
    assert open_record(make_record(VALUE)).trajectory == make_trajectory()


def test_a_reference_has_the_digest_of_what_it_stands_for() -> None:
    reference = pb.TrajectoryReference(episode_id="e1", digest="abc")
    value = pb.TrajectoryRecord(reference=reference).SerializeToString()
    assert open_record(make_record(value, "abc")).reference == reference
    with pytest.raises(Rejected, match="wrong digest"):
        open_record(make_record(value, "def"))


@pytest.mark.parametrize(
    ("reason", "record"),
    [
        (Reason.OTHER_SCHEMA, make_record(VALUE, schema="podium.episodes.v2.TrajectoryRecord")),
        (Reason.OTHER_SCHEMA, LogRecord(0, 7, VALUE)),
        (Reason.WRONG_DIGEST, make_record(VALUE, "0" * 64)),
        (Reason.WRONG_DIGEST, make_record(VALUE[:0], hashlib.sha256(VALUE).hexdigest())),
        (Reason.MALFORMED, make_record(VALUE[: len(VALUE) // 2])),
        (Reason.MALFORMED, make_record(b"")),
        (Reason.MALFORMED, make_record(NAMELESS)),
    ],
)
def test_a_record_that_is_not_what_it_should_be_is_rejected(
    reason: Reason, record: LogRecord
) -> None:
    with pytest.raises(Rejected) as rejected:
        open_record(record)
    assert rejected.value.reason is reason

"""What is learnt of an episode."""

from podium.episodes.v1 import trajectory_pb2 as pb
from podium_training.sft.demonstrations import rows_of
from unit.podium_training.first_turns.played import own


def test_a_call_that_failed_is_not_learnt_and_what_follows_it_is() -> None:
    episode = own("o1", "t1", ("add",))
    learnt = list(rows_of([episode]))
    assert len(learnt) == len(episode.turns) > 1
    failed = pb.ToolInvocation()
    failed.observation.failure.message = "unknown word"
    episode.turns[0].tool_invocations.append(failed)
    assert list(rows_of([episode])) == learnt[1:]


def test_a_reply_that_could_not_be_read_is_not_learnt() -> None:
    episode = own("o1", "t1", ("add",))
    learnt = list(rows_of([episode]))
    episode.turns[0].model_call.response.action.malformed.message = "the reply was cut off"
    assert list(rows_of([episode])) == learnt[1:]

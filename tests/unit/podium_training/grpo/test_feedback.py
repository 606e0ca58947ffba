from podium.episodes.v1 import feedback_pb2
from podium.episodes.v1 import trajectory_pb2 as pb
from podium_training.grpo.data.convert import episode_from_proto
from podium_training.grpo.data.episodes import GroupKey, Limits
from podium_training.grpo.data.feedback import AwaitedFeedback
from unit.podium_training.grpo.builders import VOCABULARY
from unit.podium_training.grpo.trajectories import make_trajectory


def given(episode_id: str, score: float | None, **said: str) -> pb.FeedbackGiven:
    feedback = feedback_pb2.Feedback(id="f1", score=score, **said)  # type: ignore[arg-type]
    return pb.FeedbackGiven(episode_id=episode_id, group_id="g1", feedback=feedback)


def solved(trajectory: pb.Trajectory) -> bool:
    return episode_from_proto(trajectory, Limits(VOCABULARY)).features.solved


def test_the_first_score_is_the_outcome_whatever_a_check_said() -> None:
    awaited = AwaitedFeedback()
    awaited.keep(make_trajectory("liked", solved=False))
    awaited.keep(make_trajectory("disliked", solved=True))
    liked, disliked = awaited.scored(given("liked", 1)), awaited.scored(given("disliked", 0.5))
    assert liked
    assert disliked
    assert (solved(liked), solved(disliked)) == (True, False)
    assert awaited.scored(given("liked", 0)) is None


def test_words_alone_are_no_outcome() -> None:
    awaited = AwaitedFeedback()
    awaited.keep(make_trajectory("e1", outcomes=[]))
    assert awaited.scored(given("e1", None, comment="thanks")) is None
    assert awaited.scored(given("another", 1)) is None
    assert awaited.scored(given("e1", 1)) is not None


def test_a_group_ends_when_no_member_of_it_waits() -> None:
    awaited = AwaitedFeedback()
    awaited.keep(make_trajectory("e1", tenant="acme", group_id="g1"))
    waits, others = GroupKey("acme", "g1"), [GroupKey("acme", "g2"), GroupKey("globex", "g1")]
    assert not awaited.close(waits)
    assert all(map(awaited.close, others))
    assert awaited.closed == {waits}
    awaited.scored(given("e1", 1))
    assert awaited.close(waits)
    assert not awaited.closed


def test_more_than_may_wait_give_up_the_oldest() -> None:
    awaited = AwaitedFeedback(maximum=2)
    late = [awaited.keep(make_trajectory(f"e{number}")) for number in range(3)]
    assert [each and each.episode_id for each in late] == [None, None, "e0"]
    assert list(awaited.waiting) == ["e1", "e2"]

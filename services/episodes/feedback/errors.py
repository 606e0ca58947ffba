"""What can be wrong with feedback."""

from podium_kit.rpc.errors import AlreadyExists, InvalidArgument, ResourceExhausted


class InvalidFeedback(InvalidArgument):
    """A field of it cannot be taken."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field} {rule}", param=field)


class FeedbackConflict(AlreadyExists):
    """The id is taken by feedback that says something else."""

    def __init__(self, episode_id: str, feedback_id: str) -> None:
        super().__init__(
            f"feedback {feedback_id} of episode {episode_id} says something else; use a new id",
            episode_id=episode_id,
        )


class TooMuchFeedback(ResourceExhausted):
    """The episode has as much as it may have."""

    def __init__(self, episode_id: str, maximum: int) -> None:
        super().__init__(
            f"episode {episode_id} has {maximum} feedbacks and takes no more",
            episode_id=episode_id,
        )

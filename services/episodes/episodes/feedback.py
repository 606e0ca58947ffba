from collections.abc import Sequence
from functools import partial

from episodes.episodes.convert import feedback_to_proto
from episodes.episodes.store_feedback import FeedbackStore
from episodes.errors import EpisodeNotFinished, FeedbackConflict, InvalidFeedback, TooMuchFeedback
from episodes.execution.promoted_models import observe_feedback
from episodes.models import Feedback, OutboxRecord, StoredEpisode
from episodes.publication.records import feedback_record

FEEDBACK_MAX = 50


class FeedbackGiving:
    def __init__(self, store: FeedbackStore) -> None:
        self._store = store

    async def give(self, episode: StoredEpisode, feedback: Feedback) -> Feedback:
        _check(feedback)
        episode_id = episode.new.episode_id
        if episode.ending is None:
            raise EpisodeNotFinished(episode_id)
        stored = await self._store.give(
            episode_id, feedback, partial(_record, episode), FEEDBACK_MAX
        )
        if stored is None:
            raise TooMuchFeedback(episode_id, FEEDBACK_MAX)
        if not stored.is_same_as(feedback):
            raise FeedbackConflict(episode_id, feedback.id)
        await self._observe(episode, stored)
        return stored

    async def _observe(self, episode: StoredEpisode, stored: Feedback) -> None:
        if stored.score is None:
            return
        scored = [each.id for each in await self.of(episode) if each.score is not None]
        if scored[:1] == [stored.id]:
            observe_feedback(episode.new, stored.score)

    async def of(self, episode: StoredEpisode) -> Sequence[Feedback]:
        """Returns the feedback on an episode, oldest first."""
        return await self._store.of(episode.new.episode_id)


def _record(episode: StoredEpisode, feedback: Feedback) -> OutboxRecord:
    new = episode.new
    message = feedback_to_proto(feedback)
    return feedback_record(new.episode_id, new.membership.group_id, new.tenant, message)


def _check(feedback: Feedback) -> None:
    if feedback.score is None and not feedback.label and not feedback.comment:
        raise InvalidFeedback("score", "is missing; give a score, a label or a comment")

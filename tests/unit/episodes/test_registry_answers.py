from episodes.execution.registry_answers import (
    TIME_TO_LIVE_S,
    CatalogueFollower,
    RegistryAnswers,
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class VersionsOf:
    """A catalogue with the versions, one for each wait."""

    def __init__(self, *versions: int) -> None:
        self._versions = iter(versions)

    async def await_change(self, version: int) -> int:
        return next(self._versions)


def test_an_answer_is_kept_for_half_a_second() -> None:
    clock = Clock()
    answers = RegistryAnswers[str, str](10, clock)
    answers.keep("which tool?", "the first", answers.changes)
    clock.now = TIME_TO_LIVE_S - 0.01
    assert answers.get("which tool?") == "the first"
    clock.now = TIME_TO_LIVE_S
    assert answers.get("which tool?") is None


async def test_a_change_drops_what_is_kept_and_what_was_asked_before_it() -> None:
    answers, others = (RegistryAnswers[str, str](10, Clock()) for _ in range(2))
    follower = CatalogueFollower(VersionsOf(7, 7, 8), [answers, others])
    await follower.follow()
    before = answers.changes
    for kept in (answers, others):
        kept.keep("which tool?", "the first", kept.changes)
    # A wait that ended without a change.
    await follower.follow()
    assert answers.get("which tool?") == others.get("which tool?") == "the first"
    await follower.follow()
    answers.keep("which tool?", "the first", before)
    assert answers.get("which tool?") is others.get("which tool?") is None

import pytest

from episodes.execution.registry_answers import (
    TIME_TO_LIVE_BRIEFLY_S,
    TIME_TO_LIVE_S,
    CatalogueFollower,
    RegistryAnswers,
)
from podium_kit.rpc.errors import Unavailable


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class VersionsOf:
    """A catalogue with the versions, one for each wait; None where the registry is away."""

    def __init__(self, *versions: int | None) -> None:
        self._versions = iter(versions)

    async def await_change(self, version: int) -> int:
        found = next(self._versions)
        if found is None:
            raise Unavailable("the registry is away")
        return found


KEPT = [
    (True, False, TIME_TO_LIVE_S),
    (True, True, TIME_TO_LIVE_BRIEFLY_S),
    (False, False, TIME_TO_LIVE_BRIEFLY_S),
]


@pytest.mark.parametrize(("are_announced", "is_brief", "kept_s"), KEPT)
def test_an_answer_is_kept_for_seconds(are_announced: bool, is_brief: bool, kept_s: float) -> None:
    clock = Clock()
    answers = RegistryAnswers[str, str](10, clock)
    answers.drop(are_announced=are_announced)
    answers.keep("which tool?", "the first", answers.changes, is_brief=is_brief)
    clock.now = kept_s - 0.01
    assert "which tool?" in answers
    assert answers.get("which tool?") == "the first"
    clock.now = kept_s
    assert "which tool?" not in answers
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


async def test_answers_are_kept_briefly_while_no_change_is_announced() -> None:
    clock = Clock()
    answers = RegistryAnswers[str, str](10, clock)
    follower = CatalogueFollower(VersionsOf(7, None, 7), [answers])
    await follower.follow()
    before = answers.changes
    answers.keep("which tool?", "the first", before)
    with pytest.raises(Unavailable):
        await follower.follow()
    assert answers.get("which tool?") is None
    answers.keep("which tool?", "the first", before)
    assert answers.get("which tool?") is None
    answers.keep("which tool?", "the first", answers.changes)
    clock.now = TIME_TO_LIVE_BRIEFLY_S
    assert answers.get("which tool?") is None
    # Followed again, from the version that the registry has by then.
    await follower.follow()
    answers.keep("which tool?", "the first", answers.changes)
    clock.now += TIME_TO_LIVE_BRIEFLY_S
    assert answers.get("which tool?") == "the first"

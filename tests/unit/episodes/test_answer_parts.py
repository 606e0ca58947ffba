from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from episodes.step_log.answer_parts import AnswerAttempt, WatchedAnswers, WrittenPart, WrittenParts

ID = "0190f0c4-0000-7000-8000-000000000001"


class Sent:
    def __init__(self) -> None:
        self.notifications: list[str] = []

    async def send(self, notifications: Sequence[str]) -> None:
        self.notifications += notifications


def shown(watched: WatchedAnswers) -> list[tuple[int, int, str]]:
    with watched.of(ID) as parts:
        return [(part.turn, part.start, part.text) for part in parts.taken()]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
async def test_texts_arrive_whole_in_notifications_that_postgresql_takes(texts: list[str]) -> None:
    sent, watched = Sent(), WatchedAnswers()
    parts = WrittenParts(sent)
    answer = AnswerAttempt(parts, ID, 3)
    for text in [*texts, "\U0001f600\0" * 2000]:
        answer.show(text)
    await parts.flush_next()
    assert all(watched.take(each) for each in sent.notifications)
    assert max(map(len, sent.notifications)) < 8000
    assert not any("," in each for each in sent.notifications)
    assert shown(watched) == [(3, 0, "".join(texts) + "\U0001f600\0" * 2000)]


async def test_parts_that_wait_go_out_together_and_a_new_attempt_replaces_them() -> None:
    sent, watched = Sent(), WatchedAnswers()
    parts = WrittenParts(sent)
    first, second = AnswerAttempt(parts, ID, 1), AnswerAttempt(parts, ID, 1)
    assert not first.has_begun
    for text in ("a", "b"):
        first.show(text)
    second.show("c")
    await parts.flush_next()
    assert first.has_begun
    assert len(sent.notifications) == 1
    assert watched.take(sent.notifications[0])
    assert shown(watched) == [(1, 0, "c")]


def take(watched: WatchedAnswers, turn: int, start: int, text: str) -> None:
    for each in WrittenPart(ID, turn, start, text).notifications():
        assert watched.take(each)


def test_nothing_is_shown_after_a_part_that_was_lost_until_an_attempt_begins() -> None:
    watched = WatchedAnswers()
    take(watched, 1, 0, "ab")
    with watched.of(ID) as parts:
        take(watched, 1, 3, "d")
        take(watched, 2, 2, "c")
        assert [part.text for part in parts.taken()] == ["ab"]
        take(watched, 2, 0, "x")
        assert [part.text for part in parts.taken()] == ["x"]


def test_ids_of_episodes_are_no_parts() -> None:
    assert not WatchedAnswers().take(ID)

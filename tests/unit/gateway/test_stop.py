"""An answer ends before the first of the request's stop texts."""

import pytest

from gateway.chat.outcomes import finish_reason
from gateway.chat.stop import stopped
from gateway.models import StopReason
from unit.gateway.test_outcomes import make_outcome


@pytest.mark.parametrize(
    ("stops", "answer", "found"),
    [
        ([], "one, two; three", ""),
        (["four"], "one, two; three", ""),
        ([";"], "one, two", ";"),
        ([";", ","], "one", ","),
        (["tw", "two"], "one, ", "two"),
        (["one"], "", "one"),
    ],
)
def test_the_earliest_stop_cuts(stops: list[str], answer: str, found: str) -> None:
    cut = stopped(make_outcome(StopReason.TURN_LIMIT, answer="one, two; three"), stops)
    assert (cut.answer, cut.stop_sequence) == (answer, found)
    assert finish_reason(cut) == ("stop" if found else "length")

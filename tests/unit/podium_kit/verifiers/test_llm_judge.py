"""The judge's last line is the verdict; without one there is none."""

import pytest

from podium_kit.verifiers import Unjudged, load_verifier

JUDGE = load_verifier("llm", {"tool": "judge", "model": "judge-1", "reference": "Paris"})


def test_judge_sees_question_reference_and_answer() -> None:
    [call] = JUDGE.calls("What is the capital of France?", "It is Paris.")
    assert (call.tool, call.arguments) == ("judge", {"model": "judge-1"})
    assert "capital of France" in call.task
    assert "Paris" in call.task
    assert "It is Paris." in call.task


@pytest.mark.parametrize(
    ("said", "score"),
    [
        ("It agrees.\ncorrect", 1.0),
        ("Lyon is not Paris.\n\n**Incorrect.**\n", 0.0),
        ("Verdict: correct", 1.0),
    ],
)
def test_last_line_is_the_verdict(said: str, score: float) -> None:
    assert JUDGE.judge("Paris", [said]).score == score


@pytest.mark.parametrize("said", ["", "cannot be judged", "correct\nor maybe not", "1"])
def test_anything_else_is_no_verdict(said: str) -> None:
    with pytest.raises(Unjudged):
        JUDGE.judge("Paris", [said])


@pytest.mark.parametrize("answer", ["", "  \n", "word " * 501])
def test_empty_and_over_long_answers_are_wrong_without_asking(answer: str) -> None:
    assert not JUDGE.calls("?", answer)
    assert JUDGE.judge(answer).score == 0

"""A check in Python is given the answer as text, and only a score in [0, 1] is a verdict."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium_kit.verifiers import Unjudged, Verdict, load_verifier


def program(code: str, answer: str) -> str:
    [call] = load_verifier("python", {"code": code}).calls("a question", answer)
    assert (call.tool, call.in_episode) == ("code_interpreter", False)
    return str(call.arguments["code"])


def run(code: str, answer: str) -> Verdict:
    done = subprocess.run(
        [sys.executable, "-c", program(code, answer)], capture_output=True, text=True, check=True
    )
    return load_verifier("python", {"code": code}).judge(answer, [done.stdout])


@pytest.mark.parametrize(
    ("code", "answer", "score"),
    [
        ("def check(answer): return answer == 'it\\'s {42}'", "it's {42}", 1.0),
        ("def check(answer): return False", "", 0.0),
        ("def check(answer): return 0.25", "", 0.25),
        ("def check(answer):\n    print('working')\n    return (1, 'two lines')", "a\nb", 1.0),
    ],
)
def test_score_is_what_the_function_returns(code: str, answer: str, score: float) -> None:
    assert run(code, answer).score == score


@settings(max_examples=50)
@given(st.text())
def test_answer_arrives_as_it_was_written(answer: str) -> None:
    code = "def check(answer):\n    global seen\n    seen = answer\n    return True"
    namespace: dict[str, object] = {}
    source = program(code, answer)
    exec(source, namespace)
    assert namespace["seen"] == answer


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "podium-verdict:",
        'podium-verdict:[2, ""]',
        'podium-verdict:[NaN, ""]',
        'podium-verdict:["x", ""]',
        'podium-verdict:[null, ""]',
        "podium-verdict:1",
        f"podium-verdict:{'[' * 100_000}",
    ],
)
def test_anything_else_is_no_verdict(printed: str) -> None:
    with pytest.raises(Unjudged):
        load_verifier("python", {"code": "pass"}).judge("x", [printed])

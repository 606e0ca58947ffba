import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.orchestrator import make_completion
from orchestrator_inference.action.answer_text import AnswerText
from orchestrator_inference.action.parser import parse_action
from orchestrator_inference.models import TurnRules
from podium_kit.text import whole_characters

# Halves of characters, too, as servers send them that cut a text between two.
TEXTS = st.text(st.characters(exclude_categories=()) | st.sampled_from('"\\{}[]:,\n\ud83d\ude00'))
ACTION = st.fixed_dictionaries({"answer": TEXTS}, optional={"thought": TEXTS})


def shown(pieces: list[str]) -> str:
    found: list[str] = []
    answer = AnswerText(found.append)
    for piece in pieces:
        answer.add(piece)
    answer.end()
    return "".join(found)


def parsed(reply: str) -> str | None:
    completion = make_completion(whole_characters(reply))
    return parse_action(completion, ["calculator"], 1, TurnRules()).final_answer


@given(ACTION, st.booleans(), st.sampled_from([None, 1]), st.data())
def test_any_cut_of_any_action_shows_the_answer_that_is_parsed(
    action: dict[str, str], ascii_only: bool, indent: int | None, data: st.DataObject
) -> None:
    reply = json.dumps(dict(sorted(action.items())[::-1]), ensure_ascii=ascii_only, indent=indent)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(reply)), max_size=8)))
    pieces = [reply[a:b] for a, b in zip([0, *cuts], [*cuts, len(reply)], strict=True)]
    assert shown(pieces) == parsed(reply)
    assert shown(list(reply)) == parsed(reply)


def test_each_piece_shows_what_it_adds() -> None:
    found: list[str] = []
    answer = AnswerText(found.append)
    for piece in ('{"thou', 'ght": "an', 'swer", "ans', 'wer": "tw', "o\\", "n\\u26", '05"', "}"):
        answer.add(piece)
    assert found == ["tw", "o", "\n", "\u2605"]


@pytest.mark.parametrize(
    "reply",
    [
        '{"tool": "calculator", "arguments": {"answer": "42"}}',
        '{"calls": [{"tool": "calculator", "arguments": {"answer": "42"}}]}',
        '{"thought": "\\"answer\\": \\"42\\"", "tool": "answer", "arguments": {}}',
        '{"answer": 42}',
        '{"answer": {"answer": "42"}}',
        '{"thought": "answer"} {"answer": "42"}',
        "no action",
    ],
)
def test_nothing_else_is_shown(reply: str) -> None:
    assert shown(list(reply)) == ""

from collections import Counter

import pytest

from podium_training.imitation.preference_pairs import RANGES, TOOL, draw_pairs, instructions
from podium_training.tasks.task import Split

TOOLS = ["ask_expert/librarian", "calculator"]
COUNT = 600


@pytest.mark.parametrize("split", list(Split))
def test_weights_are_weights_and_every_kind_comes_as_often(split: Split) -> None:
    pairs = draw_pairs(COUNT, split, 7, TOOLS)
    assert Counter(pair.kind for pair in pairs) == dict.fromkeys(RANGES, COUNT // len(RANGES))
    for pair in pairs:
        weights = (pair.outcome, pair.compute, pair.latency, *pair.tools.values())
        assert all(0 <= weight <= 1 for weight in weights)
        assert pair.outcome > 0
        assert bool(pair.tools) == (pair.kind == TOOL)
    assert pairs == draw_pairs(COUNT, split, 7, TOOLS)
    assert pairs != draw_pairs(COUNT, split, 8, TOOLS)


def test_no_weight_and_no_instruction_is_in_both_splits() -> None:
    weights_of: dict[Split, set[float]] = {}
    instructions_of: dict[Split, set[str]] = {}
    for split in Split:
        pairs = draw_pairs(COUNT, split, 1, TOOLS)
        weights_of[split] = {
            w for p in pairs for w in (p.outcome, p.compute, p.latency, *p.tools.values())
        }
        instructions_of[split] = {pair.instruction for pair in pairs if pair.instruction}
    assert all(weights_of.values())
    assert all(instructions_of.values())
    assert not weights_of[Split.TRAIN] & weights_of[Split.HELD_OUT]
    assert not instructions_of[Split.TRAIN] & instructions_of[Split.HELD_OUT]


def test_the_instruction_says_what_the_weights_say() -> None:
    for pair in draw_pairs(COUNT, Split.TRAIN, 3, TOOLS):
        if pair.kind == "cost":
            assert pair.compute > pair.latency
        if pair.kind == "latency":
            assert pair.latency > pair.compute
        if pair.kind == TOOL and pair.instruction:
            [tool] = pair.tools
            assert tool.rpartition("/")[2] in pair.instruction


def test_without_tools_no_policy_prefers_one() -> None:
    assert not any(pair.tools for pair in draw_pairs(60, Split.TRAIN, 0))


def test_phrasings_differ_and_only_those_of_tools_have_a_slot() -> None:
    said = [text for splits in instructions().values() for each in splits.values() for text in each]
    assert len({text.casefold() for text in said}) == len(said)
    for kind, splits in instructions().items():
        texts = [text for each in splits.values() for text in each]
        assert all(("{tool}" in text) == (kind == TOOL) for text in texts)

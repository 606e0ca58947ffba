import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from podium_training.sft.demonstrations import Row
from podium_training.sft.names import renamed
from podium_training.tasks.splits import members
from podium_training.tasks.task import Split

WORDS = ["Orchid", "Marble", "Falcon", "Timber", "Copper", "Velvet", "Harbour", "Lantern", "Meadow"]
TRAIN = members(WORDS, Split.TRAIN)


@dataclass
class Greedy:
    """A tokenizer: the longest piece that fits is the next token."""

    pieces: list[str] = field(
        default_factory=lambda: [*string.printable, *(f" {word}" for word in WORDS)]
    )

    def __len__(self) -> int:
        return len(self.pieces)

    def encode(self, text: str, **_: Any) -> list[int]:
        ids = []
        while text:
            piece = max(filter(text.startswith, self.pieces), key=len)
            ids.append(self.pieces.index(piece))
            text = text[len(piece) :]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.pieces[each] for each in ids)

    def batch_decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return [self.decode(row) for row in rows]


TOKENIZER: Any = Greedy()


def row(asked: str, call: str, **of_row: Any) -> Row:
    prompt = f"Tools: facts, Example: Japan\nProblem: {asked}\nWeights: 1\n"
    return Row(tuple(TOKENIZER.encode(prompt)), tuple(TOKENIZER.encode(call)), **of_row)


def other_names(*rows: Row, count: int = 40) -> list[tuple[str, str]]:
    made = renamed(rows, count, TOKENIZER, Random(1))
    return [(TOKENIZER.decode(each.prompt), TOKENIZER.decode(each.completion)) for each in made]


CALL = '{"tool":"facts","arguments":{"country":"Peru"}}'


def test_question_and_argument_have_the_same_other_name() -> None:
    assert 0 < len(TRAIN) < len(WORDS)
    found = other_names(row("What is the capital of Peru?", CALL))
    assert len(found) == 40
    for prompt, learnt in found:
        word = learnt.removesuffix('"}}')
        assert f"capital of {word}?" in prompt
        assert prompt.endswith('\n{"tool":"facts","arguments":{"country":"')
        assert "Peru" not in prompt
    # Names of held-out tasks stay theirs.
    assert {learnt.removesuffix('"}}') for _, learnt in found} == set(TRAIN)


def test_calls_without_a_name_of_the_question_are_left_out() -> None:
    example = row("Which one is east of here?", CALL.replace("Peru", "Japan"))
    number = row("Say 7", '{"tool":"facts","arguments":{"country":"7"}}')
    measured = row("What is the capital of Peru?", CALL, held_back=True)
    assert not other_names(example, number, measured)

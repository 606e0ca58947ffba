"""Supervised fine-tuning: rows, batches, names that are replaced."""

import string
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from podium.episodes.v1 import trajectory_pb2 as pb
from podium_kit.client.errors import UsageError
from podium_kit.policy_versions import VersionStore
from podium_training.grpo.config import InvalidConfig, read_section
from podium_training.grpo.model.forward import Distribution, token_logprobs
from podium_training.grpo.model.trie import pack
from podium_training.imitation.config import FirstTurnsConfig, SftConfig
from podium_training.imitation.first_turns import FirstTurns
from podium_training.imitation.rows import Row, renamed, rows_of
from podium_training.imitation.sft import main
from podium_training.imitation.training import batches, collated, measure, shuffled_batches
from podium_training.tasks.splits import members
from podium_training.tasks.task import Split, Task
from unit.podium_kit.policy_versions.test_store import NAME, fill, make_manifest
from unit.podium_training.grpo.builders import make_model, make_row
from unit.podium_training.imitation.builders import POOL, TASKS, own

IDS = st.lists(st.integers(3, 60), min_size=1, max_size=40).map(tuple)
ROWS = st.lists(st.builds(Row, IDS, IDS), min_size=1, max_size=12)


@given(ROWS, st.integers(16, 400))
def test_no_batch_is_larger_than_allowed_but_one_of_a_single_row(
    rows: list[Row], tokens_max: int
) -> None:
    found = list(batches(rows, tokens_max))
    assert [row for batch in found for row in batch] == rows
    for batch in found:
        assert len(batch) == 1 or collated(batch).tokens.numel() <= tokens_max


@given(ROWS, st.integers(16, 400), st.integers())
def test_an_epoch_has_every_row_once(rows: list[Row], tokens_max: int, seed: int) -> None:
    drawn: list[Row] = []
    for batch in islice(shuffled_batches(rows, tokens_max, Random(seed)), 2 * len(rows)):
        if len(drawn) >= len(rows):
            break
        drawn.extend(batch)
    assert Counter(drawn) == Counter(rows)


def test_padding_changes_nothing() -> None:
    rows = [Row((3, 4, 5), (6, 7)), Row((8,), (9, 10, 11)), Row(tuple(range(3, 30)), (31,))]
    expected = -torch.cat([logprobs(row) for row in rows]).mean().item()
    assert abs(measure(make_model(), rows, 1000).loss - expected) < 1e-5


def logprobs(row: Row) -> torch.Tensor:
    packed = pack([make_row(list(row.prompt), list(row.completion))])
    return token_logprobs(make_model(), packed, Distribution(torch.ones(len(row.completion)), None))


PROJECT = Path(__file__).parents[4]


def test_the_bundled_policy_s_file_is_read() -> None:
    config = read_section(PROJECT / "bundled" / "policy" / "sft.yaml", SftConfig)
    assert config.first_turns is not None


def test_the_name_of_a_version_that_was_pruned_is_rejected_before_anything_is_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = VersionStore(tmp_path / "store")
    store.write(make_manifest(), fill)
    store.remove(NAME)
    monkeypatch.setattr(sys, "argv", ["sft", str(write_config(tmp_path, "demo"))])
    assert main() == 2
    assert capsys.readouterr().err == (
        f"publish.number: {NAME} is or was in the store; give it another\n"
    )


def test_a_name_that_no_version_can_bear_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"publish\.run"):
        read_section(write_config(tmp_path, "Facts_GRPO"), SftConfig)


def write_config(folder: Path, run: str) -> Path:
    config = {
        "model": "policy",
        "stream": {"bootstrap": "unused:1"},
        "lora": {},
        "publish": {"store": str(folder / "store"), "run": run, "number": 1},
    }
    path = folder / "sft.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_call_that_failed_is_not_learnt_and_what_follows_it_is() -> None:
    episode = own("o1", "t1", ("add",))
    learnt = list(rows_of([episode]))
    assert len(learnt) == len(episode.turns) > 1
    failed = pb.ToolInvocation()
    failed.observation.failure.message = "unknown word"
    episode.turns[0].tool_invocations.append(failed)
    assert list(rows_of([episode])) == learnt[1:]


def test_a_reply_that_could_not_be_read_is_not_learnt() -> None:
    episode = own("o1", "t1", ("add",))
    learnt = list(rows_of([episode]))
    episode.turns[0].model_call.response.action.malformed.message = "the reply was cut off"
    assert list(rows_of([episode])) == learnt[1:]


def read(folder: Path, task: Task, *specialists: str) -> None:
    tasks, experts = folder / "tasks.jsonl", folder / "experts.yaml"
    tasks.write_text(f"{task.to_json()}\n")
    experts.write_text(yaml.safe_dump(POOL.model_dump(by_alias=True, mode="json")))
    wanted = FirstTurnsConfig(tasks=tasks, experts=experts, specialists=specialists)
    FirstTurns.read(wanted)


def test_nothing_is_learnt_from_held_out_tasks(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="sums-0 is held out"):
        read(tmp_path, replace(TASKS[0], split=Split.HELD_OUT))


def test_a_specialist_is_one_of_the_experts(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"first_turns.specialists: .* has no model nurse"):
        read(tmp_path, TASKS[0], "nurse")


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

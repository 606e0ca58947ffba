import hashlib
import json

import pytest
import torch

from podium_training.grpo.model import grammar
from podium_training.grpo.model.forward import Distribution, token_logprobs
from podium_training.grpo.model.grammar import (
    Constraint,
    ConstraintError,
    GrammarReplay,
    forced,
    unpacked,
)
from podium_training.grpo.model.trie import pack
from unit.podium_training.grpo.builders import make_model, make_row, make_tokenizer

SCHEMA = json.dumps({"enum": ["add", "ask"]})
TOKENIZER = make_tokenizer()
VOCABULARY = len(TOKENIZER) + 2
END = 1


def digest_of(schema: str, any_whitespace: bool) -> str:
    return hashlib.sha256(f"any_whitespace={any_whitespace}\n{schema}".encode()).hexdigest()


def ids_of(text: str) -> list[int]:
    return [*(TOKENIZER.convert_tokens_to_ids(letter) for letter in text), END]


@pytest.fixture(scope="module")
def replay() -> GrammarReplay:
    return GrammarReplay(TOKENIZER, VOCABULARY)


def test_only_what_the_grammar_allows_is_legal(replay: GrammarReplay) -> None:
    ids = ids_of('"add"')
    legal = unpacked(replay.legal(Constraint(SCHEMA, any_whitespace=False), ids), VOCABULARY)
    choices = [
        {TOKENIZER.convert_ids_to_tokens(int(token)) for token in row.nonzero()} for row in legal
    ]
    assert choices[:4] == [{'"'}, {"a"}, {"d", "s"}, {"d"}]


def test_a_token_without_an_alternative_is_forced(replay: GrammarReplay) -> None:
    masks = replay.legal(Constraint(SCHEMA, any_whitespace=False), ids_of('"ask"'))
    assert forced(masks, VOCABULARY).tolist() == [True, True, False, True, True, True]


def test_without_white_space_an_object_is_compact_as_vllm_samples_it(replay: GrammarReplay) -> None:
    schema = json.dumps(
        {
            "type": "object",
            "properties": {"a": {"const": 1}, "b": {"const": 2}},
            "required": ["a", "b"],
            "additionalProperties": False,
        }
    )
    constraint = Constraint(schema, any_whitespace=False)
    assert len(replay.legal(constraint, ids_of('{"a":1,"b":2}'))) == 14
    with pytest.raises(ConstraintError, match="token 5"):
        replay.legal(constraint, ids_of('{"a": 1,"b":2}'))


def test_a_completion_its_grammar_forbids_is_rejected(replay: GrammarReplay) -> None:
    with pytest.raises(ConstraintError, match="token 1"):
        replay.legal(Constraint(SCHEMA, any_whitespace=False), ids_of('"zzz"'))


def test_grammars_are_kept_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every group may have tools of its own, so a run meets thousands."""
    monkeypatch.setattr(grammar, "CACHE_BYTES_MAX", 100_000)
    replay = GrammarReplay(TOKENIZER, VOCABULARY)
    for number in range(100):
        schema = json.dumps({"enum": ["add", "ask", f"a{number:050}"]})
        replay.check(Constraint(schema, any_whitespace=False), ids_of('"add"'))
    assert 0 < replay._compiler.get_cache_size_bytes() <= 100_000


@pytest.mark.parametrize("any_whitespace", [False, True])
def test_the_digest_depends_on_how_white_space_was_treated(any_whitespace: bool) -> None:
    recorded = Constraint.recorded(SCHEMA, digest_of(SCHEMA, any_whitespace))
    assert recorded.any_whitespace is any_whitespace


def test_a_digest_of_another_schema_is_rejected() -> None:
    with pytest.raises(ConstraintError, match="digest"):
        Constraint.recorded(SCHEMA, digest_of("{}", any_whitespace=False))


def test_probabilities_under_the_grammar_add_up_over_its_choices(replay: GrammarReplay) -> None:
    """Sampled under the grammar, "add" and "ask" are all there is."""
    model = make_model(vocabulary=VOCABULARY)
    total = 0.0
    for word in ("add", "ask"):
        ids = ids_of(f'"{word}"')
        packed = pack([make_row([5, 6], ids)])
        legal = replay.legal(Constraint(SCHEMA, any_whitespace=False), ids)
        with torch.no_grad():
            found = token_logprobs(model, packed, Distribution(torch.ones(len(ids)), legal))
        total += found.sum().exp().item()
    assert total == pytest.approx(1.0, abs=1e-5)

"""Every way to begin a completion until its choice is decided, in tokens, under a grammar.

A name can be split into tokens in many ways, and a policy under a grammar samples ways that
no tokenizer makes. Cut where the choice is decided they are few enough to be listed, so the
distribution over choices can be computed instead of sampled token by token.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import xgrammar
from transformers import PreTrainedTokenizerBase

from grpo.grammar import GrammarReplay, unpacked
from tool_choice.questions import Question

Decided = Callable[[str], str | None]


@dataclass(frozen=True)
class Opening:
    """Tokens, and the choice they decide."""

    ids: tuple[int, ...]
    choice: str


class Openings:
    """The openings of questions; those of one grammar and its choices are listed once."""

    def __init__(
        self, grammar: GrammarReplay, tokenizer: PreTrainedTokenizerBase, vocabulary: int
    ) -> None:
        self._grammar = grammar
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._listed: dict[tuple[str, ...], tuple[Opening, ...]] = {}

    def of(self, question: Question) -> tuple[Opening, ...]:
        """All of them; those that decide the same choice come one after another."""
        key = (question.constraint.digest, *question.outcomes)
        if key not in self._listed:
            matcher = self._grammar.matcher(question.constraint)
            found = self._below(matcher, question.chosen, ())
            self._listed[key] = tuple(sorted(found, key=lambda opening: opening.choice))
        return self._listed[key]

    def _below(
        self, matcher: xgrammar.GrammarMatcher, decided: Decided, ids: tuple[int, ...]
    ) -> Iterator[Opening]:
        choice = decided(self._tokenizer.decode(ids))
        if choice is not None:
            yield Opening(ids, choice)
            return
        for token in self._legal(matcher):
            matcher.accept_token(token)
            yield from self._below(matcher, decided, (*ids, token))
            matcher.rollback(1)

    def _legal(self, matcher: xgrammar.GrammarMatcher) -> list[int]:
        mask = xgrammar.allocate_token_bitmask(1, self._vocabulary)
        matcher.fill_next_token_bitmask(mask)
        legal: list[int] = unpacked(mask, self._vocabulary)[0].nonzero().flatten().tolist()
        return legal

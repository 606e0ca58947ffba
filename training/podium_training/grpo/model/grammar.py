"""Replays the grammar a completion was sampled under, so that ratios compare like with like.

A server under structured outputs reports log-probabilities after masking what the grammar
forbids. Recomputed over the whole vocabulary they would differ by nats per token, and
every importance ratio would be meaningless.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import xgrammar
from jaxtyping import Bool, Int32
from torch import Tensor
from transformers import PreTrainedTokenizerBase

# White-space settings of vLLM; the digest covers the one in use.
WHITESPACE = (False, True)
# vLLM's `disable_any_whitespace`; xgrammar alone would ask for a blank after each.
COMPACT = (",", ":")
BITS = 32
# Of compiled grammars, of 9 MB each for eight tools and 49,152 tokens; xgrammar alone keeps all.
CACHE_BYTES_MAX = 1 << 30
# A bit for each token of the vocabulary, in words of 32.
LegalBits = Int32[Tensor, "tokens words"]


class ConstraintError(ValueError):
    """A completion and its grammar do not fit; the message says why."""


@dataclass(frozen=True)
class Constraint:
    json_schema: str
    any_whitespace: bool

    @classmethod
    def recorded(cls, json_schema: str, digest: str) -> "Constraint":
        for any_whitespace in WHITESPACE:
            constraint = cls(json_schema, any_whitespace)
            if constraint.digest == digest:
                return constraint
        raise ConstraintError(f"the digest {digest[:12]} is not that of the recorded schema")

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the schema and the engine's white-space setting."""
        hashed = f"any_whitespace={self.any_whitespace}\n{self.json_schema}"
        return hashlib.sha256(hashed.encode()).hexdigest()


class GrammarReplay:
    """Legal next tokens along recorded completions, for one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, vocabulary: int) -> None:
        """`vocabulary` is the width of the model's output, which may exceed the tokenizer's."""
        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocabulary)
        self._vocabulary = vocabulary
        self._compiler = xgrammar.GrammarCompiler(info, cache_limit_bytes=CACHE_BYTES_MAX)

    def legal(self, constraint: Constraint, completion_ids: Sequence[int]) -> LegalBits:
        """A bit for every token the grammar allowed.

        Raises ConstraintError when the grammar forbids a token of the completion.
        """
        matcher = self.matcher(constraint)
        masks: LegalBits = xgrammar.allocate_token_bitmask(len(completion_ids), self._vocabulary)
        for index, token in enumerate(completion_ids):
            matcher.fill_next_token_bitmask(masks, index)
            _accept(matcher, index, token)
        return masks

    def check(self, constraint: Constraint, completion_ids: Sequence[int]) -> None:
        matcher = self.matcher(constraint)
        for index, token in enumerate(completion_ids):
            _accept(matcher, index, token)

    def matcher(self, constraint: Constraint) -> xgrammar.GrammarMatcher:
        return xgrammar.GrammarMatcher(self._compile(constraint))

    def _compile(self, constraint: Constraint) -> xgrammar.CompiledGrammar:
        try:
            json.loads(constraint.json_schema)
            return self._compiler.compile_json_schema(
                constraint.json_schema,
                any_whitespace=constraint.any_whitespace,
                separators=None if constraint.any_whitespace else COMPACT,
            )
        except (ValueError, RuntimeError) as error:
            raise ConstraintError(f"the recorded schema does not compile: {error}") from error


def _accept(matcher: xgrammar.GrammarMatcher, index: int, token: int) -> None:
    if not matcher.accept_token(token):
        raise ConstraintError(f"token {index} (id {token}) is not legal in its grammar")


def unpacked(masks: LegalBits, vocabulary: int) -> Bool[Tensor, "tokens vocabulary"]:
    bits = torch.arange(BITS, dtype=torch.int32, device=masks.device)
    spread = (masks.unsqueeze(-1) >> bits) & 1
    return spread.flatten(start_dim=1)[:, :vocabulary].bool()


def forced(masks: LegalBits, vocabulary: int) -> Bool[Tensor, " tokens"]:
    """Returns whether exactly one token was legal, so nothing was chosen."""
    return unpacked(masks, vocabulary).sum(dim=1) == 1

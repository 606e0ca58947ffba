"""The canary's log-probabilities under the trainer's policy, for the serving side."""

import math
from collections.abc import Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from podium_kit.policy_versions import Canary, CanaryPrompt
from podium_training.grpo.ending import Fault
from podium_training.grpo.model.forward import Distribution, token_logprobs
from podium_training.grpo.model.samples import Row
from podium_training.grpo.model.trie import pack

# Fixed: versions can be distinguished only by the same questions. What a policy is trained on,
# choosing a tool and answering, moves most, so there each question ends.
TOOL, ANSWER, THOUGHT = '{"tool": "', '{"answer": "', '{"thought": "'
QUESTIONS = (
    ("What is 17 percent of 2340?", TOOL),
    ("How many days are between 27 February and 2 March 2024?", TOOL),
    ("Convert 26.2 miles to kilometres.", TOOL),
    ("Which product sold most in May?", TOOL),
    ("What does the word 'ledger' mean?", TOOL),
    ("Find the opening hours of the museum.", TOOL),
    ("What is the mean of 4, 8 and 15?", TOOL),
    ("Print the first ten primes.", TOOL),
    ("How long is a flight from Oslo to Rome?", TOOL),
    ("Is 7 larger than 5?", ANSWER),
    ("Name the capital of France.", ANSWER),
    ("The calculator said 397.8.", ANSWER),
    ("Is a strong model needed for 2 + 2?", ANSWER),
    ("The tool timed out. What now?", THOUGHT),
    ("The search found nothing.", THOUGHT),
    ("Thank you, that is all.", '{"'),
)
# The possible continuations of each; of a word, its first token is asked. Many next tokens cost an
# engine no more than one, and a longer prompt costs more.
NEXT = ("calculator", "search", "sql_query", "dictionary", "python", "yes", "try", "397")
# Nats between one machine's arithmetic and another's.
SAME = 1e-3


class NotFinite(Fault):
    """The policy says nothing: its weights went beyond what numbers hold."""


def record_canary(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Canary:
    """Log-probabilities of the next tokens, in float32, over the whole vocabulary.

    Raises NotFinite.
    """
    next_ids = tuple(dict.fromkeys(_ids(tokenizer, word)[0] for word in NEXT))
    prompts = [
        (*tokenizer(question)["input_ids"], *_ids(tokenizer, start))
        for question, start in QUESTIONS
    ]
    rows = [Row(prompt, (token,), (0.0,)) for prompt in prompts for token in next_ids]
    found = _logprobs(model, rows)
    if not all(map(math.isfinite, found)):
        raise NotFinite(
            "the policy's log-probabilities are not finite, so its weights are of no use: train"
            " from an earlier version or checkpoint, with a lower learning_rate"
        )
    logprobs = iter(found)
    return Canary(
        prompts=tuple(
            CanaryPrompt(
                prompt_ids=prompt,
                next_ids=next_ids,
                # Rounding may leave a certain token a hair above 0.
                logprobs=tuple(min(0.0, next(logprobs)) for _ in next_ids),
            )
            for prompt in prompts
        )
    )


@torch.no_grad()
def alike(one: Canary, other: Canary) -> bool:
    return all(
        here.next_ids == there.next_ids
        and all(
            math.isclose(p, q, abs_tol=SAME)
            for p, q in zip(here.logprobs, there.logprobs, strict=True)
        )
        for here, there in zip(one.prompts, other.prompts, strict=True)
    )


def _logprobs(model: PreTrainedModel, rows: Sequence[Row]) -> list[float]:
    packed = pack(rows)
    whole = Distribution(torch.ones(len(packed.targets)), None)
    found = token_logprobs(model, packed.to(model.device), whole.to(model.device))
    values: list[float] = found.tolist()
    return values


def _ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    found: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return found

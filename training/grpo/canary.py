"""What the trainer's policy says to the canary's questions, for the serving side to compare."""

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grpo.forward import Distribution, token_logprobs
from grpo.samples import Row
from grpo.trie import pack
from policy_versions import Canary, CanaryPrompt

# Fixed: versions can be told apart only by the same questions. What a policy is trained on,
# choosing a tool and answering, moves most, so there each text ends.
QUESTIONS = (
    ("What is 17 percent of 2340?", '{"tool": "calculator'),
    ("How many days are between 2024-02-27 and 2024-03-02?", '{"tool": "days_between'),
    ("Convert 26.2 miles to kilometres.", '{"tool": "convert'),
    ("Which product sold most in May?", '{"tool": "sql_query'),
    ("What does the word 'ledger' mean?", '{"tool": "dictionary'),
    ("Find the opening hours of the museum.", '{"tool": "search'),
    ("What is the mean of 4, 8 and 15?", '{"tool": "statistics'),
    ("Write a program that prints the first ten primes.", '{"tool": "python'),
    ("Is 7 larger than 5?", '{"answer": "yes'),
    ("Name the capital of France.", '{"answer": "Paris'),
    ("The calculator said 397.8. What is the answer?", '{"answer": "397.8'),
    ("The tool timed out. What now?", '{"thought": "try another tool'),
    ("The search found nothing.", '{"thought": "ask in other words'),
    ("A stronger model costs more. Is it needed for 2 + 2?", '{"answer": "no'),
    ("How long is a flight from Oslo to Rome?", '{"tool": "distance'),
    ("Thank you, that is all.", '{"answer": "You are welcome'),
)
# Of each text, its last tokens are asked: an engine answers for one place at a time.
ASKED_TOKENS = 4


def record_canary(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Canary:
    """Log-probabilities of the fixed continuations, in float32, over the whole vocabulary."""
    rows = [_row(tokenizer, *question) for question in QUESTIONS]
    logprobs = iter(_logprobs(model, rows))
    return Canary(
        prompts=tuple(
            CanaryPrompt(
                prompt_ids=row.prompt_ids,
                continuation_ids=row.completion_ids,
                # Rounding may leave a certain token a hair above 0.
                logprobs=tuple(min(0.0, next(logprobs)) for _ in row.completion_ids),
            )
            for row in rows
        )
    )


@torch.no_grad()
def _logprobs(model: PreTrainedModel, rows: Sequence[Row]) -> list[float]:
    packed = pack(rows)
    found = token_logprobs(model, packed, Distribution(torch.ones(len(packed.targets)), None))
    values: list[float] = found.tolist()
    return values


def _row(tokenizer: PreTrainedTokenizerBase, question: str, text: str) -> Row:
    ids = [*tokenizer(question)["input_ids"], *_ids(tokenizer, text)]
    asked = min(ASKED_TOKENS, len(_ids(tokenizer, text)))
    return Row(tuple(ids[:-asked]), tuple(ids[-asked:]), (0.0,) * asked)


def _ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    found: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return found

"""Calls whose argument is a name of the question, with other words in its place.

Training and held-out tasks share no names, and those that training has are few: a policy learns
them by heart, and is of two minds where a new one is one token in the question and several in the
argument. What is to be learnt is to copy, whatever is asked about.
"""

import re
from collections.abc import Iterable, Iterator
from random import Random

from transformers import PreTrainedTokenizerBase

from podium_training.sft.demonstrations import Row
from podium_training.tasks.splits import members
from podium_training.tasks.task import Split

# Where the task begins in a prompt (orchestrator_inference/prompt).
TASK = "Problem: "
# A call whose last argument is a name.
CALL = re.compile(r'(.*:")([A-Z][A-Za-z]+)("\}\}.*)', re.DOTALL)
WORD = re.compile(" [A-Z][a-z]{4,}")


def renamed(
    rows: Iterable[Row], count: int, tokenizer: PreTrainedTokenizerBase, random: Random
) -> Iterator[Row]:
    """Yields `count` rows that call with a name, each learnt from the name on.

    Fewer where no row does, or no token is a word.
    """
    found = [named for row in rows if not row.held_back for named in _named(row, tokenizer)]
    words = members(_words(tokenizer), Split.TRAIN)
    for _ in range(count if found and words else 0):
        prompt, begins, name, ends = random.choice(found)
        word = random.choice(words)
        head, task, asked = prompt.rpartition(TASK)
        said = tokenizer.encode(f"{begins}{word}{ends}", add_special_tokens=False)
        known = tokenizer.encode(begins, add_special_tokens=False)
        # Elsewhere a token holds the end of the one and the beginning of the other.
        if said[: len(known)] == known:
            text = f"{head}{task}{asked.replace(name, word)}"
            ids = tokenizer.encode(text, add_special_tokens=False)
            yield Row((*ids, *known), tuple(said[len(known) :]))


def _named(row: Row, tokenizer: PreTrainedTokenizerBase) -> Iterator[tuple[str, str, str, str]]:
    """The prompt, and the call before its name, the name, and what follows it."""
    prompt, call = tokenizer.decode(row.prompt), CALL.fullmatch(tokenizer.decode(row.completion))
    head, _, asked = prompt.rpartition(TASK)
    if call and call[2] in asked and call[2] not in head:
        yield prompt, call[1], call[2], call[3]


def _words(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Capitalised words that are one token behind a blank."""
    texts = tokenizer.batch_decode([[each] for each in range(len(tokenizer))])
    return sorted({text.strip() for text in texts if WORD.fullmatch(text)})

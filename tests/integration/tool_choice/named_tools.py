"""Tasks of four families as questions: which of four tools solves this?"""

import json
from collections.abc import Iterator, Sequence
from itertools import count

from transformers import PreTrainedTokenizerBase

from grpo.grammar import Constraint
from grpo.rewards import Features, Preferences
from tasksets.task import Split, Task
from tasksets.taskset import generate
from tool_choice.questions import Question

DESCRIPTIONS = {
    "arithmetic": "Calculates with numbers.",
    "unit_converter": (
        "Converts an amount of length, weight, time, area, volume or energy to another unit."
    ),
    "dictionary": "Gives the meaning, synonyms and antonyms of a word.",
    "calendar": "Counts the days between dates, adds days to a date and tells its weekday.",
}
NAMES = tuple(DESCRIPTIONS)
FAMILIES = ("arithmetic", "units", "dictionary", "dates")
RIGHT = dict(zip(FAMILIES, NAMES, strict=True))
INSTRUCTIONS = "\n".join(
    [
        "Name the tool that answers the question.",
        *(f"- {name}: {description}" for name, description in DESCRIPTIONS.items()),
    ]
)
CONSTRAINT = Constraint(json.dumps({"enum": NAMES}), any_whitespace=False)
RIGHT_ALONE = Preferences((0.0,) * len(NAMES), 1.0, 0.0, 0.0)


def training_questions(tokenizer: PreTrainedTokenizerBase, seed: int) -> Iterator[Question]:
    """Endless, the families in turn."""
    for part in count():
        tasks = generate(64, Split.TRAIN, seed=1000 * seed + part, families=FAMILIES)
        yield from (as_question(task, tokenizer) for task in tasks)


def held_out_questions(tokenizer: PreTrainedTokenizerBase, number: int) -> Sequence[Question]:
    """Other wordings, words, dates, numbers and pairs of units than any that is trained on."""
    tasks = generate(number, Split.HELD_OUT, families=FAMILIES)
    return [as_question(task, tokenizer) for task in tasks]


def as_question(task: Task, tokenizer: PreTrainedTokenizerBase) -> Question:
    messages = [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": task.question},
    ]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    return Question(
        id=task.id,
        prompt_ids=tuple(ids),
        constraint=CONSTRAINT,
        outcomes={json.dumps(name): outcome(task, name) for name in NAMES},
        tools=NAMES,
        preferences=RIGHT_ALONE,
    )


def outcome(task: Task, name: str) -> Features:
    calls = tuple(int(each == name) for each in NAMES)
    return Features(calls, solved=RIGHT[task.family] == name, cost=0.0, latency_s=0.0)

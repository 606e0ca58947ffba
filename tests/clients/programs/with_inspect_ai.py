"""A task of inspect_ai over the sums."""

from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.scorer import match
from inspect_ai.solver import generate


@task
def sums() -> Task:
    fields = FieldSpec(input="question", target="answer")
    dataset = json_dataset(str(Path(__file__).with_name("sums.jsonl")), fields)
    return Task(dataset=dataset, solver=generate(), scorer=match(numeric=True))

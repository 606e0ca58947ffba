"""The pipeline from a subject to a folder with a domain and tasks: all steps, then the filters.

domain.json    tables, rows and tools, served by `python -m podium_training.synthesis.server`
tasks.jsonl    tasks for `podium train rollout --task-file`
replies.jsonl  the models' replies; a run that is started again continues from it
"""

import asyncio
import hashlib
from dataclasses import dataclass
from pathlib import Path

from podium_training.synthesis.domain import STATE_TOOL, Domain
from podium_training.synthesis.draft import Draft
from podium_training.synthesis.filters import Rejection, Rejections, rejection
from podium_training.synthesis.model import NoGoodReply
from podium_training.synthesis.steps import Steps
from podium_training.tasks.splits import split_of
from podium_training.tasks.task import Call, Task

DOMAIN_FILE, TASKS_FILE, JOURNAL_FILE = "domain.json", "tasks.jsonl", "replies.jsonl"


@dataclass(frozen=True)
class Plan:
    intents: int
    entry_rounds: int
    evolutions: int
    attempts: int
    """Attempts of the filter pass@k."""


@dataclass(frozen=True)
class Made:
    domain: Domain
    tasks: list[Task]
    rejections: Rejections


async def synthesize(steps: Steps, plan: Plan) -> Made:
    """A domain and its tasks. Raises NoGoodReply when there is no domain, ModelUnusable."""
    tables = await steps.schema()
    entries = await steps.entries(tables, plan.entry_rounds)
    tools = await steps.tools(tables)
    domain = Domain(subject=steps.subject, tables=tables, entries=entries, tools=tools)
    intents = await steps.intents(domain, plan.intents)
    drafts = await asyncio.gather(
        *(_draft(steps, plan, domain, number, text) for number, text in enumerate(intents))
    )
    tasks: dict[str, Task] = {}
    for draft in filter(None, drafts):
        task = task_of(domain, draft)
        steps.rejections[Rejection.REPEATED] += task.id in tasks
        tasks.setdefault(task.id, task)
    return Made(domain, list(tasks.values()), steps.rejections)


def write(folder: Path, made: Made) -> None:
    _replace(folder / DOMAIN_FILE, made.domain.model_dump_json(indent=1) + "\n")
    _replace(folder / TASKS_FILE, "".join(f"{task.to_json()}\n" for task in made.tasks))


def task_of(domain: Domain, draft: Draft) -> Task:
    """The task, judged by the state that the golden calls lead to and by what the answer must
    contain.
    """
    golden = [Call(f"{domain.name}_{call.tool}", call.arguments) for call in draft.calls]
    digest = hashlib.sha256(draft.instruction.encode()).hexdigest()
    return Task(
        id=f"{domain.name}-{digest[:12]}",
        family=f"synthetic/{domain.name}",
        split=split_of(draft.instruction),
        question=draft.instruction,
        verifier="state",
        parameters={
            "look": {"tool": f"{domain.name}_{STATE_TOOL}", "arguments": {}},
            "golden_calls": [{"tool": call.tool, "arguments": call.arguments} for call in golden],
            "say": draft.say,
        },
        solution=tuple(golden),
    )


async def _draft(
    steps: Steps, plan: Plan, domain: Domain, number: int, intent: str
) -> Draft | None:
    name = f"task/{number}"
    try:
        draft = await steps.draft(domain, name, intent)
    except NoGoodReply:
        steps.rejections[Rejection.DRAFT_UNUSABLE] += 1
        return None
    for evolution in range(plan.evolutions):
        draft = await steps.evolved(domain, f"{name}/evolve/{evolution}", draft)
    reason = await rejection(steps.model, name, domain, draft, plan.attempts)
    if reason:
        steps.rejections[reason] += 1
    return None if reason else draft


def _replace(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)

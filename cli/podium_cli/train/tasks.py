import asyncio
import os
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.console import Group
from rich.markup import escape
from rich.text import Text

from podium_cli.command import Session, command
from podium_cli.formats import counted
from podium_cli.inputs import Judges
from podium_cli.listing import listing
from podium_cli.output import writing
from podium_cli.train.choosing import (
    Count,
    Family,
    Seed,
    Source,
    SplitName,
    SplitOption,
    load_tasks,
)
from podium_cli.train.train import app
from podium_kit.client.errors import UsageError, UserError
from podium_kit.money import Money
from podium_training.synthesis.journal import Journal
from podium_training.synthesis.model import ChatModel, ModelUnusable, NoGoodReply, Prices
from podium_training.synthesis.pipeline import JOURNAL_FILE, Made, Plan, synthesize, write
from podium_training.synthesis.steps import Steps


@command(app, "tasks")
async def tasks(
    session: Session,
    *,
    source: Annotated[Source, typer.Option("--from", help="Whose tasks.")] = Source.FAMILIES,
    count: Count = 70,
    split: SplitOption = SplitName.TRAIN,
    seed: Seed = 0,
    family: Family = None,
    file: Annotated[Path | None, typer.Option(help="JSON lines, for --from paper.")] = None,
    judge: Judges = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSONL file to write.")
    ] = None,
) -> None:
    """Make tasks whose answers can be checked; show them, or write them to a file.

    [bold]families[/] are Podium's own, from a seed. [bold]reasoning-gym[/] and [bold]bfcl[/]
    are packages to install first; bfcl is for evaluation only. [bold]paper[/] reads
    ToolOrchestra's data format.
    """
    made = load_tasks(source, count, split, seed, family, file=file, judges=judge or ())
    if output is not None:
        with writing(output):
            output.write_text("".join(f"{task.to_json()}\n" for task in made), encoding="utf-8")
        session.output.note(escape(f"{counted(len(made), 'task')} in {output}"))
        return
    rows = [(task.id, ", ".join(task.tools), task.question) for task in made]
    values = {"tasks": [{"id": task.id, "question": task.question} for task in made]}
    session.output.result(values, listing(("task", "tools", "question…"), rows))


KEY_VARIABLE = "PODIUM_SYNTHESIS_API_KEY"


@command(app, "synthesize")
async def synthesize_domain(
    session: Session,
    *,
    domain: Annotated[str, typer.Option(help='Like "a city library".')],
    model_url: Annotated[str, typer.Option(help="OpenAI-compatible, up to and including /v1.")],
    model: Annotated[str, typer.Option(help="Model that makes and solves.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder; an unfinished one is resumed.")
    ],
    checker: Annotated[str, typer.Option(help="Model that checks; the same by default.")] = "",
    count: Annotated[int, typer.Option(min=1, help="Tasks to try for; filters keep fewer.")] = 20,
    rounds: Annotated[int, typer.Option(min=1, help="Times three rows per table.")] = 3,
    evolve: Annotated[int, typer.Option(min=0, help="Times a task is made harder.")] = 1,
    attempts: Annotated[int, typer.Option(min=0, help="One must solve a task; 0: none.")] = 8,
    at_once: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 4,
    input_price: Annotated[str, typer.Option(help="USD per million prompt tokens.")] = "",
    output_price: Annotated[str, typer.Option(help="USD per million completion tokens.")] = "",
    seed: Seed = 0,
) -> None:
    """Make tables, rows, tools and tasks of a domain, in the paper's steps and filters.

    A key for the model is read from PODIUM_SYNTHESIS_API_KEY.
    """
    prices = _prices(input_price, output_price)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{output} cannot be made: {error.strerror}", "name a folder") from error
    journal, gate = Journal(output / JOURNAL_FILE), asyncio.Semaphore(at_once)
    before = len(journal)
    async with httpx.AsyncClient(headers=_headers(), trust_env=False) as client:
        maker, reviewer = (
            ChatModel(model_url.rstrip("/"), name, client, journal, seed, gate, prices)
            for name in (model, checker or model)
        )
        steps = Steps(maker, reviewer, domain, seed)
        try:
            made = await synthesize(steps, Plan(count, rounds, evolve, attempts))
        except ModelUnusable as error:
            fix = "run the same command again to resume from the replies so far"
            raise UserError(str(error), fix) from error
        except NoGoodReply as error:
            raise UserError(str(error), "take a stronger model or another --seed") from error
    write(output, made)
    _report(session, made, [maker, reviewer], len(journal) - before)


def _headers() -> dict[str, str]:
    key = os.environ.get(KEY_VARIABLE)
    return {"authorization": f"Bearer {key}"} if key else {}


def _prices(given_input: str, given_output: str) -> Prices | None:
    if not (given_input or given_output):
        return None
    try:
        amounts = [Decimal(text) for text in (given_input, given_output)]
        if not all(amount.is_finite() and amount >= 0 for amount in amounts):
            raise UsageError("a price is 0 or more", "write dollars, like 0.15")
    except InvalidOperation as error:
        raise UsageError("both prices must be given", "write dollars, like 0.15") from error
    return Prices(*(Money(amount, "USD") for amount in amounts))


def _report(session: Session, made: Made, models: list[ChatModel], asked: int) -> None:
    costs = [each.cost() for each in models]
    cost = None if costs[0] is None or costs[1] is None else costs[0] + costs[1]
    tokens = sum((each.tokens for each in models), models[0].tokens.__class__())
    rejected = {str(reason): count for reason, count in made.rejections.items() if count}
    values = {
        "domain": made.domain.name,
        "tools": [tool.name for tool in made.domain.tools],
        "tasks": len(made.tasks),
        "rejected": rejected,
        "replies_asked": asked,
        "tokens": dict(tokens),
        "cost": str(cost.amount) if cost else None,
    }
    rows = [(reason, str(count)) for reason, count in sorted(rejected.items())]
    tasks, tools = counted(len(made.tasks), "task"), counted(len(made.domain.tools), "tool")
    size = f"{tasks}, {tools} in domain {made.domain.name}"
    spent = f"{sum(tokens.values())} tokens, cost {cost or 'unknown'}"
    view = Group(listing(("rejected", "count#"), rows), Text(size), Text(spent))
    session.output.result(values, view)

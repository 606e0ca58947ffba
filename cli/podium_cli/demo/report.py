import io
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import matplotlib as mpl
from jinja2 import Environment, FileSystemLoader
from matplotlib.figure import Figure

from podium_cli.demo.accounts import Accounts
from podium_cli.demo.solving import Outcome, accuracy, accuracy_by_kind
from podium_cli.demo.tables import called
from podium_cli.formats import format_money, format_seconds

RIGHT, WRONG, MODEL, TOOLS, INK, GRID = (
    "#2f9e6e",
    "#d9534f",
    "#3b6fb6",
    "#e0a030",
    "#39424e",
    "#e3e7ec",
)
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "svg.fonttype": "none",
}


def plots(outcomes: Sequence[Outcome], accounts: Accounts) -> list[tuple[str, str]]:
    """Title and SVG of every plot."""
    with mpl.rc_context(STYLE):
        return [
            ("Right and wrong by kind of task", _accuracy(outcomes)),
            ("Spend by tool", _spend(accounts)),
            ("Where the time went", _time(outcomes)),
            ("Episodes over time", _timeline(outcomes)),
        ]


def _accuracy(outcomes: Sequence[Outcome]) -> str:
    rows = list(reversed(accuracy_by_kind(outcomes)))
    figure, axes = _canvas(len(rows))
    kinds = [row.kind for row in rows]
    right = [row.right for row in rows]
    wrong = [row.total - row.right for row in rows]
    axes.barh(kinds, right, color=RIGHT, label="right", height=0.62)
    axes.barh(kinds, wrong, left=right, color=WRONG, label="wrong", height=0.62, alpha=0.75)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("tasks")
    return svg(figure, axes, legend=True)


def _spend(accounts: Accounts) -> str:
    rows = [row for row in reversed(accounts.by_tool) if row.calls]
    figure, axes = _canvas(len(rows))
    names = [f"{row.name} ({row.calls})" for row in rows]
    amounts = [float(row.cost.amount) for row in rows]
    axes.barh(names, amounts, color=MODEL, height=0.62)
    # Model tokens cost thousands of times what a calculation does.
    axes.set_xscale("symlog", linthresh=1e-6)
    axes.set_xlabel("US dollars, logarithmic (number of calls in brackets)")
    return svg(figure, axes)


def _time(outcomes: Sequence[Outcome]) -> str:
    rows = list(reversed(outcomes))
    figure, axes = _canvas(len(rows))
    names = [row.task.id for row in rows]
    model = [row.model_s for row in rows]
    tools = [row.tools_s for row in rows]
    rest = [max(row.seconds - row.model_s - row.tools_s, 0.0) for row in rows]
    both = [one + other for one, other in zip(model, tools, strict=True)]
    axes.barh(names, model, color=MODEL, label="model", height=0.62)
    axes.barh(names, tools, left=model, color=TOOLS, label="tools", height=0.62)
    axes.barh(
        names, rest, left=both, color="#c3cad4", label="platform, unfinished calls", height=0.62
    )
    axes.set_xlabel("seconds")
    return svg(figure, axes, legend=True)


def _timeline(outcomes: Sequence[Outcome]) -> str:
    first = min(outcome.start for outcome in outcomes)
    rows = list(reversed(outcomes))
    figure, axes = _canvas(len(rows))
    for number, row in enumerate(rows):
        start = (row.start - first).total_seconds()
        colour = RIGHT if row.right else WRONG
        axes.barh(number, row.seconds, left=start, color=colour, height=0.62, alpha=0.85)
    axes.set_yticks(range(len(rows)), [row.task.id for row in rows])
    axes.set_xlabel("seconds since the first task was accepted")
    return svg(figure, axes)


def _canvas(rows: int) -> tuple[Figure, Any]:
    figure = Figure(figsize=(6.6, 1.1 + 0.25 * rows), layout="constrained")
    axes = figure.subplots()
    axes.grid(axis="x", color=GRID)
    axes.tick_params(length=0)
    return figure, axes


def svg(figure: Figure, axes: Any, legend: bool = False) -> str:
    if legend:
        axes.legend(frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1, 1))
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True)
    # The XML declaration has no place inside a page.
    return text.getvalue()[text.getvalue().index("<svg") :]


TEMPLATE = "report.html.j2"


def write_report(
    path: Path, outcomes: Sequence[Outcome], accounts: Accounts, tools: int, console_url: str
) -> None:
    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    environment.filters.update(money=format_money, seconds=format_seconds, called=called)
    page = environment.get_template(TEMPLATE).render(
        outcomes=outcomes,
        accounts=accounts,
        tools=tools,
        total=accuracy("all", outcomes),
        kinds=accuracy_by_kind(outcomes),
        plots=plots(outcomes, accounts),
        models=sorted({outcome.model for outcome in outcomes} - {""}),
        console_url=console_url,
        duration_s=_duration_s(outcomes),
        written=datetime.now().astimezone().strftime("%d %B %Y, %H:%M"),
    )
    path.write_text(page)


def _duration_s(outcomes: Sequence[Outcome]) -> float:
    ends, starts = [each.end for each in outcomes], [each.start for each in outcomes]
    return (max(ends) - min(starts)).total_seconds()

"""The outcomes as one HTML page that needs nothing else."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from podium_cli.demo.accounts import Accounts
from podium_cli.demo.outcomes import Outcome, accuracy, accuracy_by_kind
from podium_cli.demo.plots import plots
from podium_cli.demo.tables import called
from podium_cli.formats import format_money, format_seconds

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

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from podium_cli.demo.accounts import Accounts
from podium_cli.demo.solving import Outcome, accuracy, accuracy_by_kind
from podium_cli.formats import format_money, format_seconds
from podium_cli.listing import Listing, listing
from podium_kit.text import one_line

ANSWER_CHARACTERS = 36
RIGHT, WRONG = Text("right", "green"), Text("wrong", "red")


def outcome_table(outcomes: Sequence[Outcome]) -> Listing:
    columns = ("task", "kind", "tools called", "answer", "", "turns#", "cost#", "time#")
    return listing(columns, [_row(outcome) for outcome in outcomes])


def _row(outcome: Outcome) -> tuple[str | Text, ...]:
    answer = one_line(outcome.answer, ANSWER_CHARACTERS)
    return (
        outcome.task.id,
        outcome.task.kind,
        called(outcome),
        answer or Text(f"none: {outcome.stop_reason}", "dim"),
        RIGHT if outcome.right else WRONG,
        str(outcome.turns),
        format_money(outcome.cost),
        format_seconds(outcome.seconds),
    )


def called(outcome: Outcome) -> str:
    """ "calculator 3x, dictionary"."""
    counts = Counter(outcome.tools_called)
    return ", ".join(f"{name} {count}x" if count > 1 else name for name, count in counts.items())


def accuracy_table(outcomes: Sequence[Outcome]) -> Listing:
    rows = [*accuracy_by_kind(outcomes), accuracy("all", outcomes)]
    cells = [(row.kind, f"{row.right} of {row.total}", f"{row.share:.0%}") for row in rows]
    return listing(("kind", "right#", "share#"), cells)


def spend_table(accounts: Accounts) -> Listing:
    """A row per tool, most expensive first, then the total."""
    rows = [
        (each.name, str(each.calls), str(each.unpriced_calls or ""), format_money(each.known_cost))
        for each in accounts.by_tool
    ]
    total = ("all", str(accounts.calls), "", format_money(accounts.ledger))
    return listing(("spent on", "calls#", "unknown price#", "cost#"), [*rows, total])

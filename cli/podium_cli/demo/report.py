"""The report of a demo: a document that console/src/reports/DemoReport.tsx shows."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from podium_cli.demo.accounts import Accounts
from podium_cli.demo.solving import Outcome, accuracy_by_kind
from podium_cli.demo.tables import called
from podium_cli.formats import format_money
from podium_kit.text import one_line

ANSWER_MAX = 160


def report_of(
    outcomes: Sequence[Outcome], accounts: Accounts, tools: int, gateway_url: str
) -> dict[str, Any]:
    first = min(outcome.start for outcome in outcomes)
    last = max(outcome.end for outcome in outcomes)
    return {
        "kind": "demo",
        "written": datetime.now().astimezone().isoformat(timespec="seconds"),
        "models": sorted({outcome.model for outcome in outcomes} - {""}),
        "tools": tools,
        "console_url": gateway_url,
        "duration_s": (last - first).total_seconds(),
        "kinds": [vars(row) for row in accuracy_by_kind(outcomes)],
        "ledger": format_money(accounts.ledger),
        "trajectories": format_money(accounts.trajectories),
        "agree": accounts.agree,
        "spend": [
            {
                "name": each.name,
                "calls": each.calls,
                "unpriced_calls": each.unpriced_calls,
                "cost": format_money(each.known_cost),
            }
            for each in accounts.by_tool
        ],
        "tasks": [_task(outcome, first) for outcome in outcomes],
    }


def _task(outcome: Outcome, first: datetime) -> dict[str, Any]:
    return {
        "id": outcome.task.id,
        "kind": outcome.task.kind,
        "question": outcome.task.question,
        "called": called(outcome),
        "failed_calls": outcome.failed_calls,
        "answer": one_line(outcome.answer, ANSWER_MAX),
        "stop_reason": outcome.stop_reason,
        "expected": ", ".join(outcome.task.answer),
        "right": outcome.right,
        "turns": outcome.turns,
        "cost": format_money(outcome.cost),
        "start_s": (outcome.start - first).total_seconds(),
        "seconds": outcome.seconds,
        "model_s": outcome.model_s,
        "tools_s": outcome.tools_s,
        "episode_id": outcome.episode_id,
    }

"""`podium audit log`: who changed what, newest first."""

from typing import Annotated, Any

import typer

from podium_cli.command import Session, command
from podium_cli.commands.audit.audit import app
from podium_cli.inputs import Since, parse_start, parse_time
from podium_cli.listing import listing

COLUMNS = ("time", "who", "with", "action", "resource", "outcome", "changed")
PAGE_SIZE_MAX = 500


@command(app, "log")
async def show(
    session: Session,
    *,
    user: Annotated[str, typer.Option(help="Only what this user did.")] = "",
    action: Annotated[str, typer.Option(help="Only this action, like RegisterTool.")] = "",
    resource: Annotated[str, typer.Option(help="Only this resource, like a tool's name.")] = "",
    since: Since = "",
    until: Annotated[str, typer.Option(help="Before this time, like 2026-02-01.")] = "",
    shared: Annotated[
        bool, typer.Option("--shared", help="What platform admins changed for every tenant.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many entries.")] = 50,
) -> None:
    """Show administrative changes of your tenant: keys, tools, policies, budgets, prices."""
    keep = {
        "subject": user,
        "action": action,
        "resource": resource,
        "since": parse_start(since),
        "until": parse_time(until),
    }
    entries: list[dict[str, Any]] = []
    token = ""
    async with session.gateway(admin=shared) as gateway:
        while len(entries) < limit:
            size = min(limit - len(entries), PAGE_SIZE_MAX)
            query = {**keep, "page_size": size, "page_token": token}
            page = await gateway.call("GET", "/v1/audit-log", query=query)
            entries += page["entries"]
            if not (token := page["next_page_token"]):
                break
    session.output.result(
        {"entries": entries}, listing(COLUMNS, map(_row, entries), ("changed", "with"))
    )


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    outcome = f"rejected: {entry['rejection']}" if entry["rejection"] else entry["outcome"]
    columns = (entry[name] for name in ("time", "subject", "credential", "action", "resource"))
    return (*columns, outcome, ", ".join(changed_paths(entry["before"], entry["after"])))


def changed_paths(before: Any, after: Any, path: str = "") -> list[str]:
    """Where two JSON values differ, like "tool.spec.description"; nothing without both."""
    if before == after or (not path and (before is None or after is None)):
        return []
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return [path]
    return [
        found
        for name in sorted({*before, *after})
        for found in changed_paths(before.get(name), after.get(name), f"{path}.{name}".lstrip("."))
    ]

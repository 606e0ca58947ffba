import hashlib
from collections.abc import AsyncIterator
from typing import Annotated

import typer
from rich.text import Text

from podium.common.v1 import usage_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb2
from podium.ledger.v1 import hold_pb2
from podium_cli.audit.audit import app
from podium_cli.audit.verifying import progress_bar
from podium_cli.audit.views import entries_view
from podium_cli.command import Session, command
from podium_cli.formats import counted
from podium_cli.inputs import parse_money
from podium_cli.listing import listing
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway
from podium_kit.client.rejections import Rejected
from podium_kit.wire import json_values, money_to_proto

PAGE_SIZE_MAX = 1000


@command(app, "entries")
async def entries(
    session: Session,
    *,
    unpriced: Annotated[
        bool, typer.Option("--unpriced", help="Only costs that are still unknown.")
    ] = False,
    episode: Annotated[str, typer.Option(help="Only this episode.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="How many entries.")] = 100,
) -> None:
    """List entries of the journal, oldest first, with the keys of their calls."""
    found: list[hold_pb2.Entry] = []
    async with session.gateway() as gateway:
        # One more than is shown, to know whether there is one.
        asked = {"unpriced": unpriced, "episode_id": episode}
        async for entry in _listed(gateway, min(limit + 1, PAGE_SIZE_MAX), **asked):
            found.append(entry)
            if len(found) > limit:
                break
    found, more = found[:limit], len(found) > limit
    nothing = "no cost is unknown" if unpriced else "there is no entry yet"
    data = {"entries": list(map(json_values, found))}
    session.output.result(data, entries_view(found) if found else nothing)
    if more:
        session.output.note(f"there are more: --limit {limit * 10}")


@command(app, "adjust")
async def adjust(
    session: Session,
    sequence: Annotated[int, typer.Argument(min=1, help="Sequence of the entry of the cost.")],
    change: Annotated[
        str, typer.Argument(help="Added to the cost, like 0.25 or 'EUR 0.25'.", show_default=False)
    ],
    *,
    reason: Annotated[str, typer.Option(help="The reason, for the auditor.")],
    credit: Annotated[bool, typer.Option("--credit", help="Subtract the change.")] = False,
) -> None:
    """Post a difference to a final cost. The same command again changes nothing."""
    amount = parse_money(change)
    amount = -amount if credit else amount
    identity = f"{amount} {reason}".encode()
    request = ledger_pb2.AdjustRequest(
        key=f"adjust/{sequence}/{hashlib.sha256(identity).hexdigest()[:32]}",
        sequence=sequence,
        change=money_to_proto(amount),
        reason=reason,
    )
    async with session.gateway() as gateway:
        reply = await gateway.post("/v1/audit/adjust", request, ledger_pb2.AdjustResponse)
    session.output.result(reply, Text(f"adjusted by entry {reply.entry.sequence}"))


@command(app, "settle")
async def settle(
    session: Session,
    key: Annotated[str, typer.Argument(help="Key of the call.", show_default=False)] = "",
    used: Annotated[
        list[str] | None,
        typer.Argument(help="Usage, like output_text=250; none for the recorded one."),
    ] = None,
    *,
    unpriced: Annotated[
        bool, typer.Option("--unpriced", help="Settle every call whose price is known by now.")
    ] = False,
    request_id: Annotated[str, typer.Option(help="The provider's id of the request.")] = "",
) -> None:
    """Replace a provisional, estimated or unknown cost by the true one.

    Give the usage that the provider bills. Without one, a call whose price was unknown is charged
    what it used, at the price that is known by now; `--unpriced` does so for every such call.
    """
    if bool(key) == unpriced:
        raise UsageError(
            "KEY and --unpriced exclude each other" if key else "no call is named",
            "give the KEY of one call, or --unpriced for every call whose price is known by now",
        )
    if request_id and not used:
        raise UsageError(
            "--request-id names no usage", "give DIMENSION=AMOUNT, as the provider bills"
        )
    async with session.gateway() as gateway:
        if unpriced:
            await _settle_unpriced(session, gateway)
            return
        request = ledger_pb2.SettleRequest(key=key)
        if used:
            request.usage.quantities.extend(map(_quantity, used))
            request.usage.source = usage_pb2.USAGE_SOURCE_PROVIDER
            request.usage.provider_request_id = request_id
        entry = await _settled(gateway, request)
    session.output.result({"entry": json_values(entry)}, Text(f"settled by entry {entry.sequence}"))


async def _settle_unpriced(session: Session, gateway: Gateway) -> None:
    """Settles what has a price by now, and shows what is left with the reason."""
    settled: list[hold_pb2.Entry] = []
    left: dict[str, str] = {}
    with progress_bar(session.output.progress, "settling") as bar:
        async for entry in _listed(gateway, PAGE_SIZE_MAX, unpriced=True):
            try:
                request = ledger_pb2.SettleRequest(key=entry.key)
                settled.append(await _settled(gateway, request))
            except Rejected as error:
                if error.reason != "NOT_SETTLEABLE":
                    raise
                left[entry.key] = _reason(error)
            bar.at(len(settled) + len(left), 0, f"settling: {len(settled) + len(left)}")
    data = {
        "settled": list(map(json_values, settled)),
        "left": [{"key": key, "reason": reason} for key, reason in left.items()],
    }
    summary = f"{counted(len(settled), 'call')} settled, {len(left)} left"
    if left:
        session.output.result(data, listing(("key", "why it is left"), left.items()))
        session.output.note(summary)
    else:
        session.output.result(data, summary if settled else "no cost is unknown")


async def _listed(
    gateway: Gateway, page_size: int, **asked: object
) -> AsyncIterator[hold_pb2.Entry]:
    """Yields entries page by page, which settling those of a page does not shift."""
    token = ""
    while True:
        page = await gateway.get(
            "/v1/entries",
            ledger_pb2.ListEntriesResponse,
            **asked,
            page_size=page_size,
            page_token=token,
        )
        for entry in page.entries:
            yield entry
        if not (token := page.next_page_token):
            return


async def _settled(gateway: Gateway, request: ledger_pb2.SettleRequest) -> hold_pb2.Entry:
    reply = await gateway.post("/v1/audit/settle", request, ledger_pb2.SettleResponse)
    return reply.entry


def _reason(error: Rejected) -> str:
    cause = error.cause.partition("cannot be settled: ")[2] or error.cause
    return f"{cause}; {error.fix}" if error.fix else cause


def _quantity(text: str) -> usage_pb2.Quantity:
    name, _, amount = text.partition("=")
    dimension = f"USAGE_DIMENSION_{name.upper()}"
    known = usage_pb2.UsageDimension.keys()[1:]
    if dimension not in known or not amount.replace(".", "", 1).isdecimal():
        words = ", ".join(each.removeprefix("USAGE_DIMENSION_").lower() for each in known)
        raise UsageError(f"{text!r} is no usage", f"give DIMENSION=AMOUNT, of {words}")
    return usage_pb2.Quantity(dimension=usage_pb2.UsageDimension.Value(dimension), amount=amount)

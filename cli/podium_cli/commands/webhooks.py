from typing import Annotated

import typer

from podium.episodes.v1 import webhook_service_pb2 as pb
from podium_cli.command import Session, command
from podium_cli.completion import webhook_ids
from podium_cli.formats import counted, format_time
from podium_cli.inputs import parse_enum
from podium_cli.listing import listing
from podium_cli.tools.mcp_import import rejected_host
from podium_cli.unmatched import warn_of_missing_secrets
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import segment
from podium_kit.wire import enum_word, enum_words

EVENTS = enum_words(pb.WebhookEventType.DESCRIPTOR)
STATE = "WEBHOOK_DELIVERY_STATE_"

app = typer.Typer(
    name="webhooks",
    help="Create, list, deliveries, replay, delete: where events are sent.",
    no_args_is_help=True,
)

Id = Annotated[
    str,
    typer.Argument(help="Webhook, like orders.", show_default=False, autocompletion=webhook_ids),
]


@command(app, "create")
async def create(
    session: Session,
    webhook_id: Id,
    address: Annotated[
        str, typer.Argument(help="URL that events are posted to.", show_default=False)
    ],
    *,
    secret: Annotated[
        str, typer.Option(help="Name of the adapters' secret that signs; see docs/webhooks.md.")
    ],
    event: Annotated[
        list[str] | None,
        typer.Option(help="Like episode.ended; repeatable. All when left out."),
    ] = None,
) -> None:
    """Register a webhook, or replace the one of that id."""
    body = {
        "url": address,
        "secret": {"name": secret},
        "event_types": [
            parse_enum(word, pb.WebhookEventType.DESCRIPTOR, "--event") for word in event or []
        ],
    }
    async with session.gateway() as gateway:
        path = f"/v1/webhooks/{segment(webhook_id)}"
        reply = await gateway.put(path, body, pb.PutWebhookResponse)
        await warn_of_missing_secrets(gateway, session.output, {secret: webhook_id})
        tenant = (await gateway.call("GET", "/v1/limits"))["tenant"]
    if host := rejected_host(address, session.target.allowed_hosts, tenant):
        session.output.warn(
            f"{webhook_id} will not reach {host}, which is not public; the operator may allow it: "
            f"podium up --allow-host {host}"
        )
    events = ", ".join(_events(reply.webhook))
    session.output.result(reply, f"{reply.webhook.id} receives {events}")


@command(app, "list")
async def list_webhooks(session: Session) -> None:
    """List webhooks and their events."""
    async with session.gateway() as gateway:
        found = await gateway.all("/v1/webhooks", pb.ListWebhooksResponse)
    rows = [
        (each.id, each.url, ", ".join(_events(each)), each.secret.name, each.created_by)
        for each in found.webhooks
    ]
    columns = ("webhook", "url", "events…", "secret", "by")
    session.output.result(found, listing(columns, rows, ("by", "secret")))


@command(app, "deliveries")
async def deliveries(
    session: Session,
    *,
    webhook: Annotated[
        str, typer.Option(help="Only of this webhook.", autocompletion=webhook_ids)
    ] = "",
    state: Annotated[
        list[str] | None, typer.Option(help="pending, delivered or failed; repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Most deliveries.")] = 50,
) -> None:
    """List what became of events of the last 30 days, newest first."""
    async with session.gateway() as gateway:
        found = await gateway.get(
            "/v1/webhook-deliveries",
            pb.ListWebhookDeliveriesResponse,
            webhook_id=webhook,
            states=[
                parse_enum(word, pb.WebhookDeliveryState.DESCRIPTOR, "--state")
                for word in state or []
            ],
            page_size=limit,
        )
    rows = [_row(each) for each in found.deliveries]
    columns = ("id#", "when", "webhook", "event", "state", "tries#", "why…")
    session.output.result(found, listing(columns, rows, ("when", "tries#")))


@command(app, "replay")
async def replay(
    session: Session,
    delivery_ids: Annotated[
        list[str] | None, typer.Argument(help="Ids of deliveries.", show_default=False)
    ] = None,
    *,
    failed: Annotated[bool, typer.Option("--failed", help="All that failed.")] = False,
    webhook: Annotated[
        str, typer.Option(help="Only of this webhook.", autocompletion=webhook_ids)
    ] = "",
) -> None:
    """Send deliveries again, also those that arrived."""
    if bool(delivery_ids) == failed:
        raise UsageError("name deliveries or take all that failed", "give ids, or --failed")
    body = {"delivery_ids": delivery_ids or [], "webhook_id": webhook}
    async with session.gateway() as gateway:
        reply = await gateway.post(
            "/v1/webhook-deliveries/replay", body, pb.ReplayWebhookDeliveriesResponse
        )
    session.output.result(reply, f"{counted(reply.count, 'delivery', 'deliveries')} sent again")


@command(app, "delete")
async def delete(session: Session, webhook_id: Id) -> None:
    """Delete a webhook and its deliveries."""
    async with session.gateway() as gateway:
        path = f"/v1/webhooks/{segment(webhook_id)}"
        reply = await gateway.delete(path, pb.DeleteWebhookResponse)
    session.output.result(reply, f"{webhook_id} is deleted")


def _events(webhook: pb.Webhook) -> list[str]:
    return [EVENTS[number - 1] for number in webhook.event_types] or ["every event"]


def _row(delivery: pb.WebhookDelivery) -> tuple[str, ...]:
    next_time = format_time(delivery.next_attempt_time)
    waits = f"; next try {next_time}" if next_time and delivery.attempt_count else ""
    return (
        delivery.id,
        format_time(delivery.create_time),
        delivery.webhook_id,
        EVENTS[delivery.event_type - 1],
        enum_word(pb.WebhookDeliveryState.Name(delivery.state), STATE),
        str(delivery.attempt_count),
        f"{delivery.last_error}{waits}",
    )

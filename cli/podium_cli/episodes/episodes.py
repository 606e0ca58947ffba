from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from podium.episodes.v1 import episode_pb2, episode_service_pb2
from podium_cli.command import Session, command
from podium_cli.episodes.trajectory_view import feedback_line
from podium_cli.episodes.view import EpisodeView, caller_line, duration_between, task_of, totals
from podium_cli.episodes.watch import Episode
from podium_cli.formats import format_money, format_seconds, format_time
from podium_cli.inputs import parse_enum, parse_labels
from podium_cli.listing import listing
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway, segment
from podium_kit.text import one_line
from podium_kit.wire import enum_word, optional_money_from_proto

TASK_CHARACTERS = 120
DISPENSABLE = ("calls#", "time#", "turns#", "started")

app = typer.Typer(
    name="episodes",
    help="List, show, cancel, approve, feedback.",
    no_args_is_help=True,
)


class EpisodeSort(StrEnum):
    NEWEST = "newest"
    COST = "cost"
    DURATION = "duration"


ORDERS = {
    EpisodeSort.NEWEST: "EPISODE_ORDER_UNSPECIFIED",
    EpisodeSort.COST: "EPISODE_ORDER_COST",
    EpisodeSort.DURATION: "EPISODE_ORDER_DURATION",
}
Reason = Annotated[str, typer.Option(help="Why, for the record.")]


@command(app, "list")
async def list_episodes(
    session: Session,
    *,
    state: Annotated[
        list[str] | None, typer.Option(help="pending, running, waiting or finished; repeatable.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(help="name=value; repeatable.")] = None,
    policy: Annotated[list[str] | None, typer.Option(help="Their policy; repeatable.")] = None,
    tool: Annotated[list[str] | None, typer.Option(help="A tool they called; repeatable.")] = None,
    words: Annotated[str, typer.Option(help="Words of the task.")] = "",
    sort: Annotated[
        EpisodeSort, typer.Option(help="Ended ones by cost or duration, largest first.")
    ] = EpisodeSort.NEWEST,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Most episodes.")] = 20,
) -> None:
    """List episodes, newest first."""
    labels = {f"filter.labels.{name}": value for name, value in parse_labels(label or []).items()}
    async with session.gateway() as gateway:
        page = await gateway.get(
            "/v1/episodes",
            episode_service_pb2.ListEpisodesResponse,
            page_size=limit,
            order_by=ORDERS[sort],
            **{
                "filter.states": [
                    parse_enum(word, episode_pb2.EpisodeState.DESCRIPTOR, "--state")
                    for word in state or []
                ],
                "filter.policies": policy or [],
                "filter.tool_names": tool or [],
                "filter.words": words,
            },
            **labels,
        )
    columns = ("episode", "started", "state", "turns#", "calls#", "cost#", "time#", "task…")
    session.output.result(
        page, listing(columns, [_row(each) for each in page.episodes], DISPENSABLE)
    )


@command(app, "show")
async def show(session: Session, episode: Episode) -> None:
    """Show an episode: its turns so far, answer, cost."""
    async with session.gateway() as gateway:
        found = await _get(gateway, episode)
        if session.output.as_json:
            session.output.json(found, indent=2)
            return
        session.output.results.print(Text(task_of(found), style="bold"))
        if found.spec.HasField("parent"):
            session.output.results.print(caller_line(found.spec.parent))
        # An episode that has not begun has no events, and events are content.
        if found.state != episode_pb2.EPISODE_STATE_PENDING and not found.content_withheld:
            await _show_turns(gateway, found, EpisodeView(session.output.results))
    lines = map(feedback_line, found.feedback)
    session.output.results.print(Group(totals(found), Text(found.answer), *lines))


@command(app, "cancel")
async def cancel(session: Session, episode: Episode, reason: Reason = "") -> None:
    """Cancel an episode; cancelling one that has ended changes nothing."""
    async with session.gateway() as gateway:
        reply = await gateway.post(
            f"/v1/episodes/{segment(episode)}/cancel",
            {"reason": reason},
            episode_service_pb2.CancelEpisodeResponse,
        )
    session.output.result(reply, totals(reply.episode))


@command(app, "approve")
async def approve(
    session: Session,
    episode: Episode,
    *,
    turn: Annotated[int, typer.Option(min=1, help="Turn of the waiting call.")],
    call: Annotated[int, typer.Option(min=0, help="Its position in the turn, from 0.")] = 0,
    deny: Annotated[bool, typer.Option("--deny", help="Deny instead.")] = False,
    reason: Reason = "",
) -> None:
    """Let a waiting tool call happen, or deny it."""
    decision = episode_service_pb2.ApproveToolCallRequest(
        turn=turn, call_index=call, approved=not deny, reason=reason
    )
    async with session.gateway() as gateway:
        reply = await gateway.post(
            f"/v1/episodes/{segment(episode)}/approve",
            decision,
            episode_service_pb2.ApproveToolCallResponse,
        )
    session.output.result(reply, "denied" if deny else "approved")


@command(app, "feedback")
async def feedback(
    session: Session,
    episode: Episode,
    *,
    score: Annotated[
        float | None, typer.Option(min=0, max=1, help="From 0 to 1; 1 is solved.")
    ] = None,
    label: Annotated[str, typer.Option(help="A word to count by.")] = "",
    comment: Annotated[str, typer.Option(help="In words.")] = "",
    feedback_id: Annotated[
        str, typer.Option("--id", help="Names it; unset: the same again is the same.")
    ] = "",
) -> None:
    """Say how good an ended episode was; training can learn from it."""
    if score is None and not (label or comment):
        raise UsageError("there is no feedback", "give --score, --label or --comment")
    request = episode_service_pb2.GiveFeedbackRequest(
        id=feedback_id, score=score, label=label, comment=comment
    )
    async with session.gateway() as gateway:
        reply = await gateway.post(
            f"/v1/episodes/{segment(episode)}/feedback",
            request,
            episode_service_pb2.GiveFeedbackResponse,
        )
    session.output.result(reply, feedback_line(reply.feedback))


async def _show_turns(gateway: Gateway, found: episode_pb2.Episode, view: EpisodeView) -> None:
    async for event in gateway.events(found.id):
        view.show(event)
        # The stream of a running episode does not end; show the turns it has so far.
        if event.turn >= found.turn_count and found.state != episode_pb2.EPISODE_STATE_FINISHED:
            break


async def _get(gateway: Gateway, episode: str) -> episode_pb2.Episode:
    path = f"/v1/episodes/{segment(episode)}"
    return (await gateway.get(path, episode_service_pb2.GetEpisodeResponse)).episode


def _row(episode: episode_pb2.Episode) -> tuple[str, ...]:
    state = enum_word(episode_pb2.EpisodeState.Name(episode.state), "EPISODE_STATE_")
    if episode.state == episode_pb2.EPISODE_STATE_FINISHED:
        state = enum_word(episode_pb2.StopReason.Name(episode.stop_reason), "STOP_REASON_")
    return (
        episode.id,
        format_time(episode.create_time),
        state,
        str(episode.turn_count),
        str(episode.tool_call_count),
        format_money(optional_money_from_proto(episode.cost)),
        format_seconds(duration_between(episode)),
        # An arrow for each episode above it.
        "↳ " * episode.spec.parent.depth + one_line(task_of(episode), TASK_CHARACTERS),
    )

import asyncio
from typing import Annotated

import httpx
import tenacity
import typer
import uuid_utils

from podium.episodes.v1 import episode_pb2, episode_service_pb2
from podium_cli.command import Session, command, stopping_on_sigterm
from podium_cli.completion import policy_names, tool_names
from podium_cli.episodes.following import cancel, follow, require_answer
from podium_cli.inputs import (
    PromptMode,
    parse_labels,
    parse_money,
    parse_prompt_mode,
    parse_seconds,
)
from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.gateway import Gateway, Unreachable
from podium_kit.client.rejections import Rejected
from podium_kit.wire import duration_to_proto, money_to_proto

Task = Annotated[str, typer.Argument(help="What to do, in words.", show_default=False)]
Model = Annotated[str, typer.Option(help="Orchestrator model.")]
Policy = Annotated[
    str, typer.Option(help="Policy instead of the active one.", autocompletion=policy_names)
]
Tools = Annotated[
    list[str] | None,
    typer.Option("--tool", help="Only this tool; repeatable.", autocompletion=tool_names),
]
TurnLimit = Annotated[int, typer.Option(min=0, help="Most turns; 0 means 50.")]
ParallelCalls = Annotated[
    int, typer.Option(min=0, max=16, help="Most tool calls in one turn; 0 means the policy's.")
]
Budget = Annotated[str, typer.Option(help="Most money, like 0.05 or '0.05 EUR'.")]
TimeLimit = Annotated[str, typer.Option(help="Longest run, like 90s or 5m.")]
Labels = Annotated[list[str] | None, typer.Option("--label", help="name=value; repeatable.")]

# What was started just now finds the others within seconds.
PAUSE_S, PATIENCE_S = 1.0, 30.0
# The request was sent, and its answer was lost.
ANSWER_LOST = (httpx.ReadError, httpx.ReadTimeout, httpx.RemoteProtocolError)

app = typer.Typer(add_completion=False)


@command(app, "run")
async def run(
    session: Session,
    task: Task,
    *,
    model: Model = "",
    policy: Policy = "",
    tool: Tools = None,
    turn_limit: TurnLimit = 0,
    parallel_calls: ParallelCalls = 0,
    budget: Budget = "",
    time_limit: TimeLimit = "",
    label: Labels = None,
    prompt_mode: PromptMode = "",
) -> None:
    """Run a task and show its turns; the answer goes to stdout. Ctrl-C or SIGTERM cancels it.

    With --json every event is a line of its own; the last one carries the episode.
    """
    if not task.strip():
        raise UsageError("the task is empty", 'say what to do: podium run "What is 2 + 2?"')
    spec = episode_pb2.EpisodeSpec(
        task=task,
        model=model,
        policy=policy,
        tool_names=tool or [],
        turn_limit=turn_limit,
        parallel_calls=parallel_calls,
        labels=parse_labels(label or []),
        prompt_mode=parse_prompt_mode(prompt_mode),
        stream_answer=session.output.is_live,
    )
    if budget:
        spec.budget.CopyFrom(money_to_proto(parse_money(budget)))
    if time_limit:
        spec.time_limit.CopyFrom(duration_to_proto(parse_seconds(time_limit)))
    with stopping_on_sigterm():
        await _run(session, spec)


async def start(gateway: Gateway, episode_id: str, spec: episode_pb2.EpisodeSpec) -> None:
    """Sent again while it is not known what became of it: of an id there is one episode.

    Raises Rejected, Unreachable.
    """
    again = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(_is_unknown),
        wait=tenacity.wait_fixed(PAUSE_S),
        stop=tenacity.stop_after_delay(PATIENCE_S),
        reraise=True,
    )
    request = episode_service_pb2.StartEpisodeRequest(episode_id=episode_id, spec=spec)
    reply = episode_service_pb2.StartEpisodeResponse
    await again(gateway.post, "/v1/episodes", request, reply)


def _is_unknown(error: BaseException) -> bool:
    return isinstance(error, Rejected) and error.reason == "START_UNKNOWN"


def _may_have_started(error: UserError) -> bool:
    is_lost = isinstance(error, Unreachable) and isinstance(error.__cause__, ANSWER_LOST)
    return is_lost or _is_unknown(error)


async def _run(session: Session, spec: episode_pb2.EpisodeSpec) -> None:
    # Ours to choose, so that it can be cancelled before the platform has answered.
    episode_id = str(uuid_utils.uuid7())
    async with session.gateway() as gateway:
        try:
            await start(gateway, episode_id, spec)
            session.output.note(f"[dim]episode {episode_id}[/]")
            episode = await follow(gateway, episode_id, session.output)
        except asyncio.CancelledError:
            await cancel(gateway, episode_id, session.output)
            raise
        except UserError as error:
            if _may_have_started(error):
                end = f"`podium episodes cancel {episode_id}`"
                session.output.note(f"it may have been started all the same; {end} ends it")
            raise
    require_answer(episode)

from rich.text import Text

from podium.episodes.v1 import episode_pb2, episode_service_pb2
from podium_cli.episodes.view import EpisodeView, totals
from podium_cli.output import Output
from podium_kit.client.errors import UserError
from podium_kit.client.gateway import Gateway, segment
from podium_kit.wire import enum_word


class NoAnswer(UserError):
    def __init__(self, episode: episode_pb2.Episode) -> None:
        reason = enum_word(episode_pb2.StopReason.Name(episode.stop_reason), "STOP_REASON_")
        why = f": {episode.failure.message}" if episode.HasField("failure") else ""
        super().__init__(
            f"no answer ({reason}{why})", f"`podium episodes show {episode.id}` shows its turns"
        )


class UnsupportedAnswer(UserError):
    """The model answered although no tool call succeeded; ends the command with status 3."""

    exit_status = 3

    def __init__(self, episode_id: str) -> None:
        super().__init__(
            "the answer rests on no result: every tool call failed",
            f"`podium episodes show {episode_id}` shows why; `podium tools try` calls one tool",
        )


async def follow(
    gateway: Gateway, episode_id: str, output: Output, after_sequence: int = 0
) -> episode_pb2.Episode:
    """Shows events until the episode ends. Raises Rejected, Unreachable."""
    view = EpisodeView(output.progress)
    episode = episode_pb2.Episode()
    with view.live():
        show = view.write if output.is_live else None
        async for event in gateway.events(episode_id, after_sequence, show):
            if output.as_json:
                output.json(event)
            else:
                view.show(event)
            episode = event.finished.episode
    if not output.as_json:
        output.progress.print(totals(episode))
        if episode.answer:
            # Plain text: a model may write what looks like markup.
            output.results.print(Text(episode.answer), soft_wrap=True)
    return episode


async def cancel(gateway: Gateway, episode_id: str, output: Output) -> None:
    """Cancels the episode and says so, also when that was no longer possible."""
    try:
        reply = await gateway.post(
            f"/v1/episodes/{segment(episode_id)}/cancel",
            {"reason": "interrupted at the terminal"},
            episode_service_pb2.CancelEpisodeResponse,
        )
        reason = reply.episode.stop_reason
        ended = reason not in (
            episode_pb2.STOP_REASON_UNSPECIFIED,
            episode_pb2.STOP_REASON_CANCELLED,
        )
        how = f"episode {episode_id} had ended" if ended else f"cancelled episode {episode_id}"
        output.note(how)
    except UserError as error:
        output.error(error)


def require_answer(episode: episode_pb2.Episode) -> None:
    """Raises NoAnswer, and UnsupportedAnswer where every tool call failed."""
    if episode.stop_reason != episode_pb2.STOP_REASON_ANSWERED:
        raise NoAnswer(episode)
    if episode.all_tool_calls_failed:
        raise UnsupportedAnswer(episode.id)

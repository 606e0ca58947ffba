import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.text import Text

from podium.common.v1 import failure_pb2
from podium.episodes.v1 import check_pb2, episode_pb2, episode_service_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb2
from podium_cli.formats import counted, format_money, format_seconds, with_unpriced
from podium_kit.text import one_line
from podium_kit.wire import duration_from_proto, enum_word, optional_money_from_proto

RESULT_CHARACTERS = 400
THOUGHT_CHARACTERS = 300
ARGUMENT_CHARACTERS = 300
EXPLANATION_CHARACTERS = 300
INDENT = 10
# The end of a long answer stays in sight while it is written.
ANSWER_LINES = 12


def task_of(episode: episode_pb2.Episode) -> str:
    """The task, or why it is not shown."""
    withheld = "content withheld: reading it needs the scope trajectories:read"
    return withheld if episode.content_withheld else episode.spec.task


class EpisodeView:
    """Prints events above a line with the present step."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._doing = "starting"
        self._since = time.monotonic()
        self._answer = ""
        """The text of the answer so far, while it is written."""

    @contextmanager
    def live(self) -> Iterator[None]:
        """While inside, a terminal shows what the episode waits for."""
        spinner = Spinner("dots", style="cyan")

        def now() -> RenderableType:
            waited = format_seconds(time.monotonic() - self._since)
            spinner.update(text=Text(f"{self._doing} ... {waited}", style="dim"))
            lines = Text(self._answer).wrap(self._console, self._console.width)
            return Group(*lines[-ANSWER_LINES:], spinner)

        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, get_renderable=now, refresh_per_second=10, transient=True):
            yield

    def show(self, event: episode_pb2.EpisodeEvent) -> None:
        match event.WhichOneof("event"):
            case "started":
                self._started(event.started)
            case "action_decided":
                self._decided(event.turn, event.action_decided)
            case "tool_returned":
                self._returned(event.turn, event.tool_returned)
            case "approval_requested":
                self._waiting(event)
            case "client_calls_requested":
                self._await("waiting for the client to run its tools")
            case "verifier_called":
                self._await("the answer is judged")
            case "judged":
                self._judged(event.judged)
            case _:
                self._await("ended")

    def write(self, part: episode_service_pb2.EpisodeAnswerPart) -> None:
        """Shows a part of the answer on a terminal; an attempt that begins anew replaces it."""
        if part.start in (0, len(self._answer)):
            self._answer = self._answer[: part.start] + part.text

    def _judged(self, judged: check_pb2.Judgement) -> None:
        verdict = f"{judged.score:g}" if judged.HasField("score") else "unjudged"
        explanation = one_line(judged.explanation, EXPLANATION_CHARACTERS)
        self._print(Text(f"judged    {verdict} ({judged.verifier}): {explanation}", style="dim"))

    def _await(self, what: str) -> None:
        self._doing, self._since = what, time.monotonic()

    def _started(self, started: episode_pb2.EpisodeStarted) -> None:
        policy = f"policy {started.policy_name} v{started.policy_version}"
        self._print(Text(f"{policy}, {counted(len(started.tool_names), 'tool')}", style="dim"))
        self._await("turn 1: the model decides")

    def _decided(self, turn: int, decided: episode_pb2.ActionDecided) -> None:
        self._answer = ""
        action, spent = decided.action, _spent(decided)
        title = Text(f"turn {turn:<4}", style="bold cyan")
        match action.WhichOneof("decision"):
            case "tool_calls":
                calls = action.tool_calls.calls
                for call in calls:
                    self._print(Text.assemble(title, " ", _call(call), "  ", spent))
                names = ", ".join(call.tool_name for call in calls)
                self._await(f"turn {turn}: {names}")
            case "malformed":
                failure = Text(f"not a well-formed action: {action.malformed.message}", style="red")
                self._print(Text.assemble(title, " ", failure, "  ", spent))
                self._await(f"turn {turn + 1}: the model decides")
            case _:
                self._print(Text.assemble(title, " ", ("final answer", "bold green"), "  ", spent))
                self._await("ending")
        if action.thought.strip():
            self._indented(Text(one_line(action.thought, THOUGHT_CHARACTERS), style="italic dim"))

    def _returned(self, turn: int, returned: episode_pb2.ToolReturned) -> None:
        observation = returned.observation
        spent = _spent(returned)
        if observation.HasField("failure"):
            kind = failure_word(observation.failure)
            what = Text(f"✗ {kind}: {observation.failure.message}", style="red")
        else:
            what = Text(f"→ {one_line(observation.content, RESULT_CHARACTERS)}")
        self._indented(Text.assemble(what, "  ", spent))
        if returned.HasField("child"):
            self._indented(child_line(returned.child))
        self._await(f"turn {turn + 1}: the model decides")

    def _waiting(self, event: episode_pb2.EpisodeEvent) -> None:
        call = event.approval_requested.call
        self._indented(
            Text.assemble(
                _call(call),
                (" waits for a person: podium episodes approve EPISODE ", "yellow"),
                (f"--turn {event.turn} --call {call.index}", "yellow"),
            )
        )
        self._await("waiting for approval")

    def _indented(self, text: Text) -> None:
        self._print(Padding.indent(text, INDENT))

    def _print(self, what: RenderableType) -> None:
        self._console.print(what, highlight=False)


def child_line(child: episode_pb2.ChildEpisode) -> Text:
    reason = enum_word(episode_pb2.StopReason.Name(child.stop_reason), "STOP_REASON_")
    cost = with_unpriced(child.cost, child.unpriced_call_count)
    line = (
        f"↳ episode {child.episode_id} {reason} after {counted(child.turn_count, 'turn')}, {cost}"
    )
    return Text(line, style="dim")


def caller_line(parent: episode_pb2.ParentCall) -> Text:
    where = f"turn {parent.turn}, call {parent.call_index}"
    return Text(f"called by episode {parent.episode_id}, {where}", style="dim")


def totals(episode: episode_pb2.Episode) -> RenderableType:
    took = format_seconds(duration_between(episode))
    cost = with_unpriced(episode.cost, episode.unpriced_call_count)
    if episode.HasField("children_cost"):
        below = with_unpriced(episode.children_cost, episode.children_unpriced_call_count)
        cost += f", and {below} by the episodes it called"
    how = enum_word(episode_pb2.EpisodeState.Name(episode.state), "EPISODE_STATE_")
    if episode.stop_reason:
        how = enum_word(episode_pb2.StopReason.Name(episode.stop_reason), "STOP_REASON_")
    line = f"{how} after {counted(episode.turn_count, 'turn')}, "
    line += f"{counted(episode.tool_call_count, 'tool call')}"
    totals_line = Text(f"{line}, {took}, {cost}", style="dim")
    lines = [totals_line, *(Text(f"warning: {each}", style="yellow") for each in episode.warnings)]
    if episode.HasField("failure"):
        lines.append(Text(episode.failure.message, style="red"))
    return Group(*lines) if len(lines) > 1 else totals_line


def duration_between(episode: episode_pb2.Episode) -> float:
    """Seconds from acceptance to the end, or to now while it runs."""
    end = episode.end_time.ToMilliseconds() or time.time() * 1000
    return float(max(end - episode.create_time.ToMilliseconds(), 0)) / 1000


def failure_word(failure: failure_pb2.Failure) -> str:
    return enum_word(failure_pb2.FailureKind.Name(failure.kind), "FAILURE_KIND_")


def _call(call: orchestrator_pb2.ToolCall) -> Text:
    arguments = one_line(call.arguments_json, ARGUMENT_CHARACTERS)
    return Text.assemble((call.tool_name, "bold"), (f" {arguments}", "yellow"))


def _spent(step: episode_pb2.ActionDecided | episode_pb2.ToolReturned) -> Text:
    cost = format_money(optional_money_from_proto(step.cost))
    return Text(f"{cost}  {format_seconds(duration_from_proto(step.latency))}", style="dim")

"""Commands that start, show and end episodes, before gateways of a few answers."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import uuid_utils
from google.protobuf.duration_pb2 import Duration
from rich.console import Console
from typer.testing import CliRunner

from podium.common.v1 import failure_pb2, money_pb2
from podium.episodes.v1 import check_pb2, episode_pb2, episode_service_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb2
from podium_cli.app import app
from podium_cli.episodes import run
from podium_cli.episodes.view import EpisodeView, totals
from podium_kit.client.gateway import Gateway
from podium_kit.client.rejections import Rejected

CALL = orchestrator_pb2.ToolCall(tool_name="calculator", arguments_json='{"expression":"[2]+2"}')
COST = money_pb2.Money(currency_code="USD", amount="0.000002")


def shown(*events: episode_pb2.EpisodeEvent) -> str:
    text = io.StringIO()
    view = EpisodeView(Console(file=text, width=120))
    for event in events:
        view.show(event)
    return text.getvalue()


def decided(action: orchestrator_pb2.Action, turn: int = 1) -> episode_pb2.EpisodeEvent:
    event = episode_pb2.ActionDecided(action=action, cost=COST, latency=Duration(seconds=2))
    return episode_pb2.EpisodeEvent(turn=turn, action_decided=event)


def returned(observation: orchestrator_pb2.Observation) -> episode_pb2.EpisodeEvent:
    event = episode_pb2.ToolReturned(observation=observation, latency=Duration(nanos=3_000_000))
    return episode_pb2.EpisodeEvent(turn=1, tool_returned=event)


def test_a_call_shows_turn_tool_arguments_thought_cost_and_time() -> None:
    calls = orchestrator_pb2.ToolCalls(calls=[CALL])
    text = shown(decided(orchestrator_pb2.Action(thought="Add them.", tool_calls=calls)))
    for part in (
        "turn 1",
        "calculator",
        '{"expression":"[2]+2"}',
        "Add them.",
        "$0.000002",
        "2.0 s",
    ):
        assert part in text


def test_a_result_without_a_known_cost_says_unknown() -> None:
    text = shown(returned(orchestrator_pb2.Observation(call=CALL, content="[red]4")))
    assert "→ [red]4" in text
    assert "unknown" in text
    assert "3 ms" in text


def test_a_failure_looks_like_none_of_the_results() -> None:
    failure = failure_pb2.Failure(kind=failure_pb2.FAILURE_KIND_RATE_LIMITED, message="slow down")
    text = shown(returned(orchestrator_pb2.Observation(call=CALL, failure=failure)))
    assert "✗ rate limited: slow down" in text
    assert "→" not in text


def test_a_malformed_action_says_why() -> None:
    malformed = failure_pb2.Failure(message="the arguments are not JSON")
    text = shown(decided(orchestrator_pb2.Action(malformed=malformed), turn=3))
    assert "turn 3" in text
    assert "the arguments are not JSON" in text


def test_a_waiting_call_shows_how_to_approve_it() -> None:
    event = episode_pb2.EpisodeEvent(
        turn=2, approval_requested=episode_pb2.ApprovalRequested(call=CALL)
    )
    assert "--turn 2 --call 0" in shown(event)


def test_calls_that_the_client_runs_are_waited_for() -> None:
    requested = episode_pb2.ClientCallsRequested(calls=[CALL])
    event = episode_pb2.EpisodeEvent(turn=2, client_calls_requested=requested)
    assert not shown(event).strip()


def test_a_scored_answer_shows_score_and_reason_and_an_unscored_one_no_score() -> None:
    right = check_pb2.Judgement(verifier="numeric", score=1, explanation="found 42")
    assert "judged    1 (numeric): found 42" in shown(episode_pb2.EpisodeEvent(judged=right))
    without_score = check_pb2.Judgement(verifier="llm", explanation="no verdict")
    assert "unjudged (llm): no verdict" in shown(episode_pb2.EpisodeEvent(judged=without_score))


def test_totals_name_the_stop_reason_and_the_calls_of_unknown_price() -> None:
    episode = episode_pb2.Episode(
        stop_reason=episode_pb2.STOP_REASON_TURN_LIMIT,
        turn_count=6,
        tool_call_count=5,
        cost=COST,
        unpriced_call_count=2,
    )
    text = io.StringIO()
    Console(file=text, width=160).print(totals(episode))
    assert "turn limit after 6 turns, 5 tool calls" in text.getvalue()
    assert "$0.000002 and 2 calls of unknown price" in text.getvalue()


def test_a_childs_answer_names_its_episode_and_what_it_took() -> None:
    child = episode_pb2.ChildEpisode(
        episode_id="child-1",
        stop_reason=episode_pb2.STOP_REASON_ANSWERED,
        cost=COST,
        turn_count=3,
        unpriced_call_count=1,
    )
    event = returned(orchestrator_pb2.Observation(call=CALL, content="42"))
    event.tool_returned.child.CopyFrom(child)
    text = shown(event)
    assert "→ 42" in text
    assert "↳ episode child-1 answered after 3 turns, $0.000002 and 1 call of unknown" in text


def test_totals_keep_the_cost_of_called_episodes_apart() -> None:
    episode = episode_pb2.Episode(cost=COST, stop_reason=episode_pb2.STOP_REASON_ANSWERED)
    text = io.StringIO()
    Console(file=text, width=120).print(totals(episode))
    assert "called" not in text.getvalue()
    episode.children_cost.CopyFrom(money_pb2.Money(currency_code="USD", amount="0.5"))
    Console(file=text, width=120).print(totals(episode))
    assert "$0.000002, and $0.5 by the episodes it called" in text.getvalue()


class Queued(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_known = self.path == "/v1/episodes/e"
        self.send_response(200 if is_known else 404)
        self.end_headers()
        episode = {"id": "e", "state": "EPISODE_STATE_PENDING", "spec": {"task": "What is 2 + 2?"}}
        self.wfile.write(json.dumps({"episode": episode} if is_known else {}).encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Queued) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_episode_that_has_not_begun_is_not_waited_for(url: str) -> None:
    options = ["--url", url, "--api-key", "key"]
    shown = CliRunner().invoke(app, ["episodes", "show", "e", *options])
    assert shown.exit_code == 0, shown.stderr
    assert "What is 2 + 2?" in shown.stdout
    assert "pending after 0 turns" in shown.stdout


class Endless(ThreadingHTTPServer):
    """A gateway whose episode says nothing until it is cancelled."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), EndlessHandler)
        self.started: list[str] = []
        self.stop_reason = "STOP_REASON_UNSPECIFIED"
        self.watched, self.cancelled = threading.Event(), threading.Event()


class EndlessHandler(BaseHTTPRequestHandler):
    server: Endless

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/v1/episodes":
            self.server.started.append(body["episode_id"])
        elif self.path == f"/v1/episodes/{self.server.started[0]}/cancel":
            self.server.cancelled.set()
        self.send_response(200)
        self.end_headers()
        episode = {"stop_reason": self.server.stop_reason}
        self.wfile.write(json.dumps({"episode": episode}).encode())

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.flush()
        self.server.watched.set()
        self.server.cancelled.wait(30)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def endless() -> Iterator[Endless]:
    server = Endless()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.cancelled.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_the_episode(endless: Endless, sent: signal.Signals, status: int) -> None:
    said = run_until(endless, sent, status)
    assert said.splitlines()[-1] == f"cancelled episode {endless.started[0]}"
    assert endless.cancelled.is_set()


def test_an_episode_that_ended_first_is_not_said_to_be_cancelled(endless: Endless) -> None:
    endless.stop_reason = "STOP_REASON_ANSWERED"
    said = run_until(endless, signal.SIGINT, 130)
    assert said.splitlines()[-1] == f"episode {endless.started[0]} had ended"


def run_until(endless: Endless, sent: signal.Signals, status: int) -> str:
    host, port = endless.server_address[:2]
    options = ["--url", f"http://{host!s}:{port}", "--api-key", "key"]
    with subprocess.Popen(
        [sys.executable, "-m", "podium_cli", "run", "What is 2 + 2?", *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as running:
        assert endless.watched.wait(60)
        running.send_signal(sent)
        _, said = running.communicate(timeout=60)
    assert running.returncode == status
    return said


LOST = "lost"


class Starting(ThreadingHTTPServer):
    """Rejects the first starts with these reasons, then starts. Of LOST no answer arrives."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__(("127.0.0.1", 0), StartingHandler)
        self.reasons = reasons
        self.asked: list[str] = []


class StartingHandler(BaseHTTPRequestHandler):
    server: Starting

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(body["episode_id"])
        reason = self.server.reasons.pop(0) if self.server.reasons else ""
        if reason == LOST:
            return
        answer = {"error": {"message": "no", "reason": reason}} if reason else {}
        self.send_response(503 if reason else 200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def starting() -> Iterator[Starting]:
    server = Starting([])
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


async def start(starting: Starting) -> str:
    id, (host, port) = str(uuid_utils.uuid7()), starting.server_address[:2]
    async with Gateway(f"http://{host!s}:{port}", "key") as client:
        await run.start(client, id, episode_pb2.EpisodeSpec(task="What is 2 + 2?"))
    return id


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PAUSE_S", 0.0)


async def test_the_same_episode_is_asked_for_until_it_is_known_to_be_started(
    starting: Starting,
) -> None:
    starting.reasons = ["START_UNKNOWN", "START_UNKNOWN"]
    assert starting.asked == [await start(starting)] * 3


@pytest.mark.parametrize("reason", ["START_UNKNOWN", LOST])
def test_what_may_have_been_started_all_the_same_is_named(
    starting: Starting, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    monkeypatch.setattr(run, "PATIENCE_S", 0.0)
    starting.reasons = [reason]
    host, port = starting.server_address[:2]
    options = ["--url", f"http://{host!s}:{port}", "--api-key", "key"]
    ended = CliRunner().invoke(app, ["run", "What is 2 + 2?", *options])
    assert ended.exit_code == 1
    [asked] = starting.asked
    assert f"podium episodes cancel {asked}" in ended.stderr


async def test_what_is_rejected_for_another_reason_is_not_sent_again(starting: Starting) -> None:
    starting.reasons = ["DRAINING"]
    with pytest.raises(Rejected):
        await start(starting)
    assert len(starting.asked) == 1


def test_a_terminal_shows_the_answer_while_it_is_written() -> None:
    text = io.StringIO()
    view = EpisodeView(Console(file=text, width=80, force_terminal=True))
    with view.live():
        for start, part in ((0, "Lome"), (0, "Oua"), (3, "ga"), (9, "a part was lost before this")):
            view.write(episode_service_pb2.EpisodeAnswerPart(turn=1, start=start, text=part))
    drawn = text.getvalue()
    assert "Ouaga" in drawn
    assert "Lome" not in drawn and "lost" not in drawn

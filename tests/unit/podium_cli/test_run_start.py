import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import uuid_utils
from typer.testing import CliRunner

from podium.episodes.v1 import episode_pb2
from podium_cli.app import app
from podium_cli.episodes import run
from podium_kit.client.gateway import Gateway
from podium_kit.client.rejections import Rejected

LOST = "lost"


class Starting(ThreadingHTTPServer):
    """Rejects the first starts with these reasons, then starts. Of LOST no answer arrives."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.reasons = reasons
        self.asked: list[str] = []


class Answering(BaseHTTPRequestHandler):
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
def gateway() -> Iterator[Starting]:
    server = Starting([])
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


async def start(gateway: Starting) -> str:
    id, (host, port) = str(uuid_utils.uuid7()), gateway.server_address[:2]
    async with Gateway(f"http://{host!s}:{port}", "key") as client:
        await run.start(client, id, episode_pb2.EpisodeSpec(task="What is 2 + 2?"))
    return id


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PAUSE_S", 0.0)


async def test_the_same_episode_is_asked_for_until_it_is_known_to_be_started(
    gateway: Starting,
) -> None:
    gateway.reasons = ["START_UNKNOWN", "START_UNKNOWN"]
    assert gateway.asked == [await start(gateway)] * 3


@pytest.mark.parametrize("reason", ["START_UNKNOWN", LOST])
def test_what_may_have_been_started_all_the_same_is_named(
    gateway: Starting, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    monkeypatch.setattr(run, "PATIENCE_S", 0.0)
    gateway.reasons = [reason]
    host, port = gateway.server_address[:2]
    options = ["--url", f"http://{host!s}:{port}", "--api-key", "key"]
    ended = CliRunner().invoke(app, ["run", "What is 2 + 2?", *options])
    assert ended.exit_code == 1
    [asked] = gateway.asked
    assert f"podium episodes cancel {asked}" in ended.stderr


async def test_what_is_rejected_for_another_reason_is_not_sent_again(gateway: Starting) -> None:
    gateway.reasons = ["DRAINING"]
    with pytest.raises(Rejected):
        await start(gateway)
    assert len(gateway.asked) == 1

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Endless(ThreadingHTTPServer):
    """A gateway whose episode says nothing until it is cancelled."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.started: list[str] = []
        self.stop_reason = "STOP_REASON_UNSPECIFIED"
        self.watched, self.cancelled = threading.Event(), threading.Event()


class Answering(BaseHTTPRequestHandler):
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
def gateway() -> Iterator[Endless]:
    server = Endless()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.cancelled.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_the_episode(gateway: Endless, sent: signal.Signals, status: int) -> None:
    said = run_until(gateway, sent, status)
    assert said.splitlines()[-1] == f"cancelled episode {gateway.started[0]}"
    assert gateway.cancelled.is_set()


def test_an_episode_that_ended_first_is_not_said_to_be_cancelled(gateway: Endless) -> None:
    gateway.stop_reason = "STOP_REASON_ANSWERED"
    said = run_until(gateway, signal.SIGINT, 130)
    assert said.splitlines()[-1] == f"episode {gateway.started[0]} had ended"


def run_until(gateway: Endless, sent: signal.Signals, status: int) -> str:
    host, port = gateway.server_address[:2]
    options = ["--url", f"http://{host!s}:{port}", "--api-key", "key"]
    with subprocess.Popen(
        [sys.executable, "-m", "podium_cli", "run", "What is 2 + 2?", *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as running:
        assert gateway.watched.wait(60)
        running.send_signal(sent)
        _, said = running.communicate(timeout=60)
    assert running.returncode == status
    return said

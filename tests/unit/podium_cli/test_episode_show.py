"""`podium episodes show` says what there is and waits for nothing."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from podium_cli.app import app


class Queued(BaseHTTPRequestHandler):
    """A gateway whose one episode has not begun."""

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

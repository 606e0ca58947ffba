import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner, Result

from podium_cli.app import app
from podium_cli.commands.secrets import VALUE_BYTES_MAX


class Keeping(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.values: list[str] = []


class Answering(BaseHTTPRequestHandler):
    server: Keeping

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.values.append(body["value"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def platform() -> Iterator[Keeping]:
    with Keeping() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def put(platform: Keeping, given: bytes) -> Result:
    options = ["--url", f"http://127.0.0.1:{platform.server_port}", "--api-key", "key"]
    return CliRunner().invoke(app, ["secrets", "set", "weather", *options], input=given)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_the_end_of_the_line_is_none_of_the_value(platform: Keeping, end: bytes) -> None:
    for value in ("token", "two\nlines", "x" * VALUE_BYTES_MAX):
        assert put(platform, value.encode() + end).exit_code == 0
        assert platform.values.pop() == value


def test_more_than_is_taken_is_sent_as_more(platform: Keeping) -> None:
    put(platform, b"x" * (VALUE_BYTES_MAX + 10))
    assert len(platform.values.pop()) > VALUE_BYTES_MAX


@pytest.mark.parametrize("given", [b"", b"\r\n", b"\xff"])
def test_what_is_no_value_is_not_sent(platform: Keeping, given: bytes) -> None:
    assert put(platform, given).exit_code == 2
    assert not platform.values

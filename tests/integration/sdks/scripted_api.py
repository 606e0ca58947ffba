import json
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Answer:
    """One answer. A cut one ends its connection after its body, as a dying process does."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: Any


def answer(value: Mapping[str, Any], status: int = 200, **headers: str) -> Answer:
    """JSON; underscores in header names are hyphens."""
    named = {name.replace("_", "-"): each for name, each in headers.items()}
    return Answer(status, json.dumps(value).encode(), named)


def rejected(
    status: int, reason: str, kind: str = "invalid_request_error", **headers: str
) -> Answer:
    error = {"message": f"because of {reason}", "type": kind, "reason": reason, "param": "task"}
    body = {"type": "error", "error": error, "request_id": "request-7"}
    return answer(body, status, **headers)


def events(
    *sequences: int,
    finished: bool = False,
    cut: bool = False,
    parts: Sequence[tuple[int, str]] = (),
    final: str = "",
) -> Answer:
    """Parts of the answer, by where they start, come before the events."""
    text = ": ping\n\n"
    for start, part in parts:
        given = {"turn": 1, "start": start, "text": part}
        text += f"event: answer_part\ndata: {json.dumps(given)}\n\n"
    for sequence in sequences:
        ends = finished and sequence == sequences[-1]
        kind = "finished" if ends else "started"
        reason = "STOP_REASON_ANSWERED"
        episode = {
            "id": "e",
            "state": "EPISODE_STATE_FINISHED",
            "stop_reason": reason,
            "answer": final,
        }
        given = {"sequence": str(sequence), kind: {"episode": episode} if ends else {}}
        text += f"id: {sequence}\nevent: {kind}\ndata: {json.dumps(given)}\n\n"
    return Answer(200, text.encode(), {"content-type": "text/event-stream"}, cut)


class ScriptedApi:
    def __init__(self, *answers: Answer) -> None:
        self.requests: list[Received] = []
        self._answers = deque(answers)
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_one(self) -> None:
                length = int(self.headers.get("content-length", 0))
                sent = self.rfile.read(length)
                url = urlsplit(self.path)
                api.requests.append(
                    Received(
                        self.command,
                        url.path,
                        parse_qsl(url.query),
                        {name.lower(): each for name, each in self.headers.items()},
                        json.loads(sent) if sent else None,
                    )
                )
                reply = api._answers.popleft()
                self.close_connection = reply.cut
                if reply.status == 0:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, each in reply.headers.items():
                    self.send_header(name, each)
                # More is promised than comes: the connection breaks in the middle.
                self.send_header("content-length", str(len(reply.body) + reply.cut))
                self.end_headers()
                self.wfile.write(reply.body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one  # noqa: N815

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


# The connection ends before anything is answered.
LOST = Answer(status=0)

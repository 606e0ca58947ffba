"""MCP's official conformance suite for servers: the scenarios that apply to this one.

The suite sends no key, so a proxy of this program puts it in.
"""

import http.client
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import features

CONNECTING = ("server-initialize", "ping", "resources-list", "tools-list")
TOOLS = ("tools-call-simple-text", "tools-call-audio")
IMAGES = ("tools-call-image",)
NO_PROMPTS = "a platform has no prompts"
NO_QUESTIONS = "a call asks its client nothing: it waits for a person's approval in an episode"
NO_SESSIONS = "there are no sessions, so that any replica serves any request"
TEXT_AND_FILES = "a tool's answer is text and files; what its server embeds as text becomes text"
OWN_RESOURCES = "resources are corpora and episodes, and no others can be made"
NOT_OF_THE_SERVER = {
    "logging-set-level": "logs are the operator's",
    "tools-call-with-logging": "logs are the operator's",
    "completion-complete": "there is nothing to complete",
    "tools-call-embedded-resource": TEXT_AND_FILES,
    "tools-call-mixed-content": TEXT_AND_FILES,
    "tools-call-with-progress": "turns are progress, and a tool without an episode has none",
    "tools-call-sampling": NO_QUESTIONS,
    "tools-call-elicitation": NO_QUESTIONS,
    "elicitation-sep1034-defaults": NO_QUESTIONS,
    "elicitation-sep1330-enums": NO_QUESTIONS,
    "resources-read-text": OWN_RESOURCES,
    "resources-read-binary": OWN_RESOURCES,
    "resources-templates-read": OWN_RESOURCES,
    "server-sse-multiple-streams": NO_SESSIONS,
    "server-sse-polling": NO_SESSIONS,
    "resources-subscribe": NO_SESSIONS,
    "resources-unsubscribe": NO_SESSIONS,
    "prompts-list": NO_PROMPTS,
    "prompts-get-simple": NO_PROMPTS,
    "prompts-get-with-args": NO_PROMPTS,
    "prompts-get-embedded-resource": NO_PROMPTS,
    "prompts-get-with-image": NO_PROMPTS,
    "dns-rebinding-protection": "it is for servers without keys; a page that rebinds has none",
}
KNOWN = {
    *CONNECTING,
    *TOOLS,
    *IMAGES,
    "tools-call-error",
    "json-schema-2020-12",
    *NOT_OF_THE_SERVER,
}
NOT_PASSED_ON = {"host", "connection", "content-length", "transfer-encoding", "keep-alive"}
TIMEOUT_S = 120


class WithKey(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.passed_on("POST")

    def do_GET(self) -> None:
        self.passed_on("GET")

    def do_DELETE(self) -> None:
        self.passed_on("DELETE")

    def passed_on(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        sent = {name: value for name, value in self.headers.items() if is_passed_on(name)}
        platform = http.client.HTTPConnection(urlsplit(features.URL).netloc, timeout=TIMEOUT_S)
        headers = {**sent, "authorization": f"Bearer {features.KEY}"}
        platform.request(method, self.path, body, headers)
        answer = platform.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if is_passed_on(name):
                self.send_header(name, value)
        self.end_headers()
        while part := answer.read1():
            self.wfile.write(part)
            self.wfile.flush()
        platform.close()

    def log_message(self, *_: object) -> None: ...


def is_passed_on(name: str) -> bool:
    return name.lower() not in NOT_PASSED_ON


@contextmanager
def with_key() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), WithKey) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_port}{urlsplit(features.URL).path}/mcp"
        proxy.shutdown()


def suite(*arguments: str) -> str:
    done = subprocess.run(
        ["conformance", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=os.environ["HOME"],
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"{' '.join(arguments)}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def passes(*scenarios: str) -> None:
    """Every check of each: the suite itself lets one with a warning pass."""
    with with_key() as url:
        for scenario in scenarios:
            with TemporaryDirectory() as folder:
                suite("server", "--url", url, "--scenario", scenario, "--output-dir", folder)
                [saved] = Path(folder).rglob("checks.json")
                checks = json.loads(saved.read_text())
            found = {check["status"] for check in checks} - {"INFO"}
            features.check((scenario, found), (scenario, {"SUCCESS"}))


def connecting() -> None:
    """Besides: every scenario that the suite has is known here."""
    listed = suite("list", "--server")
    names = {line.split()[1] for line in listed.splitlines() if line.strip().startswith("- ")}
    features.check(names - KNOWN, set())
    passes(*CONNECTING)


features.report(
    chat=connecting,
    tools=lambda: passes(*TOOLS),
    structured=lambda: passes("json-schema-2020-12"),
    images=lambda: passes(*IMAGES),
    errors=lambda: passes("tools-call-error"),
)

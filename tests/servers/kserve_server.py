"""A real HTTP server that speaks Kubernetes' API for KServe's services, as its SDK asks it.

What is posted or patched must be what the CRDs accept, where there are CRDs to test with
(chart.crd_schemas). No controller runs behind it: tests say what becomes ready.
"""

import copy
import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from chart import crd_schemas
from chart.rendering import Json

PREFIX = ["apis", "serving.kserve.io"]


class KServeServer:
    def __init__(self, *objects: Json) -> None:
        self.objects: dict[str, Json] = {}
        self.requests: list[tuple[str, str]] = []
        """(method, name) of everything that was asked for."""
        self.rejected = 0
        """Status that writes are rejected with, as a webhook would; 0 takes them."""
        self._changed = threading.Condition()
        self._version = 0
        self._events: list[tuple[int, Json]] = []
        for each in objects:
            self.put(copy.deepcopy(each))
        handler = type("Handler", (_Handler,), {"api": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self, folder: Path) -> Path:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": self.url}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "users": [{"name": "me", "user": {}}],
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    def put(self, obj: Json) -> Json:
        """Stores an object as the API server does: with a uid and a new version."""
        with self._changed:
            self._version += 1
            obj["metadata"].setdefault("uid", str(uuid.uuid4()))
            obj["metadata"]["resourceVersion"] = str(self._version)
            self.objects[obj["metadata"]["name"]] = obj
            self._events.append((self._version, {"type": "MODIFIED", "object": obj}))
            self._changed.notify_all()
        return obj

    def says(self, name: str, ready: str, reason: str = "") -> None:
        condition = {"type": "Ready", "status": ready, "reason": reason}
        self.put({**self.objects[name], "status": {"conditions": [condition]}})

    def delete(self, name: str) -> Json | None:
        with self._changed:
            self._version += 1
            return self.objects.pop(name, None)

    def listed(self, selector: str) -> Json:
        key, _, value = selector.partition("=")
        with self._changed:
            found = [
                obj
                for obj in self.objects.values()
                if not key or obj["metadata"].get("labels", {}).get(key) == value
            ]
            return {"metadata": {"resourceVersion": str(self._version)}, "items": found}

    def event_after(self, version: int, timeout_s: float) -> Json | None:
        """The first event after a version, waited for; None when there is none in time."""

        def found() -> list[Json]:
            return [event for number, event in self._events if number > version]

        with self._changed:
            self._changed.wait_for(found, timeout_s)
            return next(iter(found()), None)


class _Handler(BaseHTTPRequestHandler):
    api: KServeServer

    def do_GET(self) -> None:
        name, query = self._asked()
        if query.get("watch"):
            self._watch(query)
        elif name:
            self._answer(self.api.objects.get(name))
        else:
            self._answer(self.api.listed(query.get("labelSelector", "")))

    def do_POST(self) -> None:
        self._asked()
        self._write(self._body())

    def do_PATCH(self) -> None:
        name, _ = self._asked()
        assert self.headers["content-type"] == "application/merge-patch+json"
        found = self.api.objects.get(name)
        if found is None:
            self._answer(None)
        else:
            self._write(_merged(found, self._body()))

    def do_DELETE(self) -> None:
        name, _ = self._asked()
        self._answer(self.api.delete(name))

    def _asked(self) -> tuple[str, dict[str, str]]:
        url = urlsplit(self.path)
        parts = url.path.strip("/").split("/")
        assert parts[:2] == PREFIX, url.path
        name = parts[6] if len(parts) > 6 else ""
        self.api.requests.append((self.command, name))
        return name, {key: values[0] for key, values in parse_qs(url.query).items()}

    def _body(self) -> Json:
        found: Json = json.loads(self.rfile.read(int(self.headers["content-length"])))
        return found

    def _write(self, obj: Json) -> None:
        faults = crd_schemas.faults(obj) if crd_schemas.available() else []
        if self.api.rejected or faults:
            said = "; ".join(faults) or "denied the request"
            self._answer({"kind": "Status", "message": said}, self.api.rejected or 422)
        else:
            self._answer(self.api.put(obj), 201 if self.command == "POST" else 200)

    def _watch(self, query: dict[str, str]) -> None:
        event = self.api.event_after(int(query["resourceVersion"]), float(query["timeoutSeconds"]))
        self._send(200, json.dumps(event).encode() + b"\n" if event else b"")

    def _answer(self, obj: Json | None, status: int = 200) -> None:
        missing = {"kind": "Status", "message": "not found"}
        self._send(404 if obj is None else status, json.dumps(obj or missing).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def _merged(target: Json, patch: Json) -> Json:
    """RFC 7386."""
    found = dict(target)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            old = found.get(key)
            found[key] = _merged(old if isinstance(old, dict) else {}, value)
        else:
            found[key] = value
    return found

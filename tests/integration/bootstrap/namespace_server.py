"""A real HTTPS server that keeps Secrets and ConfigMaps of one namespace, as an API server does."""

import base64
import json
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from certificates import Authority

TOKEN = "the-jobs-own"
Objects = dict[tuple[str, str], dict[str, Any]]


class NamespaceServer:
    """Objects by plural and name; a pod's account, in a folder, is what opens it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.objects: Objects = {}
        self.writes: list[tuple[str, str]] = []
        """(method, path) of everything that was written."""
        self.account = folder
        self.rejects_writes = False
        handler = type("Handler", (_Handler,), {"namespace": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        tls = Authority(folder, "cluster").issue("apiserver")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(tls.certificate, tls.private_key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        assert tls.authority
        (folder / "token").write_text(TOKEN)
        (folder / "ca.crt").write_text(tls.authority.read_text())
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(self._server.server_port))
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def secret(self, name: str) -> dict[str, str]:
        data = self.objects["secrets", name].get("data", {})
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def put_secret(self, name: str, values: dict[str, str]) -> None:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        self.objects["secrets", name] = {"metadata": {"name": name}, "data": data}


class _Handler(BaseHTTPRequestHandler):
    namespace: NamespaceServer

    def do_GET(self) -> None:
        self._answer_existing(lambda found: found)

    def do_PATCH(self) -> None:
        assert self.headers["content-type"] == "application/merge-patch+json"
        patch = self._written()
        self._answer_existing(lambda found: _stored(found, patch))

    def do_POST(self) -> None:
        body, plural = self._written(), self.path.rpartition("/")[2]
        name = body["metadata"]["name"]
        if not self._let_in():
            return
        if (plural, name) in self.namespace.objects:
            self._send(409, {"message": f"{plural} {name} already exists"})
            return
        made: dict[str, Any] = {key: body[key] for key in ("metadata", "type") if key in body}
        self.namespace.objects[plural, name] = _stored(made, body)
        self._send(201, self.namespace.objects[plural, name])

    def _answer_existing(self, change: Any) -> None:
        _, plural, name = self.path.rsplit("/", 2)
        if not self._let_in():
            return
        found = self.namespace.objects.get((plural, name))
        if found is None:
            self._send(404, {"message": f"{plural} {name} not found"})
        else:
            self._send(200, change(found))

    def _let_in(self) -> bool:
        if self.headers["authorization"] != f"Bearer {TOKEN}":
            self._send(401, {"message": "Unauthorized"})
            return False
        if self.command == "GET":
            return True
        if self.namespace.rejects_writes:
            self._send(403, {"message": "secrets is forbidden"})
            return False
        self.namespace.writes.append((self.command, self.path))
        return True

    def _written(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
        return body

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def _stored(found: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    data = found.setdefault("data", {})
    data |= change.get("data", {})
    for key, value in change.get("stringData", {}).items():
        data[key] = base64.b64encode(value.encode()).decode()
    return found

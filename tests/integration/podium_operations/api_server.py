"""A real HTTP server that speaks Kubernetes' discovery API."""

import json
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from threading import Thread
from typing import Any

from podium_kit.rpc.settings import TlsFiles
from podium_operations.cluster.requirements import integrations, of_modes


class ApiServer:
    """Serves /version, /apis and /apis/<group>/<version> for a table of group/version to kinds.

    With TLS it answers as a cluster does: over HTTPS, and only with the token.
    """

    def __init__(
        self,
        served: dict[str, list[str]],
        version: str = "v1.36.0",
        tls: TlsFiles | None = None,
        token: str = "",
    ) -> None:
        answers = {"/version": {"gitVersion": version}, "/apis": _groups(served)}
        answers |= {
            f"/apis/{api}": {"groupVersion": api, "resources": [{"kind": kind} for kind in kinds]}
            for api, kinds in served.items()
        }

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = answers.get(self.path.partition("?")[0])
                known = not token or self.headers["authorization"] == f"Bearer {token}"
                status = 401 if not known else 200 if found else 404
                body = json.dumps(found if status == 200 else {"kind": "Status"}).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        if tls:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(tls.certificate, tls.private_key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _groups(served: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "kind": "APIGroupList",
        "groups": [
            {"name": api.partition("/")[0], "versions": [{"groupVersion": api}]} for api in served
        ],
    }


def everything() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in chain(integrations().values(), *of_modes().values()):
        for api, kinds in each.apis.items():
            found.setdefault(api, []).extend(kinds)
    return found

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

Key = RSAKey | ECKey | OKPKey


def rsa(key_id: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": key_id, "use": "sig"})


@dataclass
class IdentityProvider:
    keys: list[Key] = field(default_factory=lambda: [rsa("first")])
    port: int = 0
    broken: bool = False
    fetched: int = 0

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def document(self, path: str) -> dict[str, Any] | None:
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/jwks"}
        if path == "/jwks":
            self.fetched += 1
            return dict(KeySet([*self.keys]).as_dict(private=False))
        return None

    def token(self, key: Key | None = None, header: Any = None, **changes: Any) -> str:
        """A developer's token, but for the changed claims; None leaves one out."""
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": "podium",
            "sub": "ada@example.com",
            "iat": now,
            "exp": now + 300,
            "groups": ["podium-devs"],
            **changes,
        }
        key = key or self.keys[0]
        header = {"alg": "RS256", "kid": key.kid, **(header or {})}
        kept = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(header, kept, key, algorithms=[header["alg"]])

    @contextmanager
    def serving(self) -> Iterator["IdentityProvider"]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = None if provider.broken else provider.document(self.path)
                self.send_response(200 if found else 503)
                self.end_headers()
                self.wfile.write(json.dumps(found).encode())

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = server.server_port
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()

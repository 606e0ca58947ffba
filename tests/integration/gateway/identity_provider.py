import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

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
    # What a person who signs in is, beside the token's own claims.
    claims: dict[str, Any] = field(default_factory=dict)
    # Queries of authorization requests, by the code that answers each; a code works once.
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    exchanges: list[str | None] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def document(self, path: str) -> dict[str, Any] | None:
        if path == "/.well-known/openid-configuration":
            return {
                "issuer": self.issuer,
                "jwks_uri": f"{self.issuer}/jwks",
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
            }
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

    def sign_in(self, url: str) -> dict[str, str]:
        """Returns the answer that the person's browser carries back to the gateway."""
        query = dict(parse_qsl(urlsplit(url).query))
        code = uuid4().hex
        self.codes[code] = query
        return {"code": code, "state": query["state"], "iss": self.issuer}

    def exchange(self, form: dict[str, str], authorization: str | None) -> dict[str, Any] | None:
        """Returns the tokens of a code; None where client, code or PKCE's verifier is wrong."""
        self.exchanges.append(authorization)
        asked = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or (asked["code_challenge"], asked["redirect_uri"]) != (
            challenge,
            form["redirect_uri"],
        ):
            return None
        named = {"aud": asked["client_id"], "nonce": asked["nonce"]}
        return {"token_type": "Bearer", "id_token": self.token(**{**named, **self.claims})}

    @contextmanager
    def serving(self) -> Iterator["IdentityProvider"]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = None if provider.broken else provider.document(self.path)
                self.send_response(200 if found else 503)
                self.end_headers()
                self.wfile.write(json.dumps(found).encode())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                form = dict(parse_qsl(body))
                found = provider.exchange(form, self.headers["authorization"])
                self.send_response(200 if found else 400)
                self.end_headers()
                self.wfile.write(json.dumps(found or {"error": "invalid_grant"}).encode())

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

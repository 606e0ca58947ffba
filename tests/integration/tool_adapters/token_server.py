import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

CLIENT_ID, CLIENT_SECRET = "podium", "cl1ent-s3cret"


@dataclass
class TokenServer:
    url: str = ""
    expires_in_s: int = 3600
    given: int = 0
    revoked: set[str] = field(default_factory=set)
    forms: list[dict[str, str]] = field(default_factory=list)
    api_headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def newest(self) -> str:
        return f"token-{self.given:04}"

    async def token(self, request: web.Request) -> web.Response:
        pair = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {pair}":
            said = {"error": "invalid_client", "error_description": pair}
            return web.json_response(said, status=401)
        self.forms.append({name: str(value) for name, value in (await request.post()).items()})
        self.given += 1
        token = {"access_token": self.newest, "token_type": "Bearer"}
        return web.json_response({**token, "expires_in": self.expires_in_s})

    async def api(self, request: web.Request) -> web.Response:
        self.api_headers.append(dict(request.headers))
        said = request.headers.get("Authorization", "")
        good = said == f"Bearer {self.newest}" and self.newest not in self.revoked
        return web.json_response({"said": said}, status=200 if good else 401)

    async def strange(self, request: web.Request) -> web.Response:
        return web.json_response({"access_token": "mac-token-1", "token_type": "mac"})


@asynccontextmanager
async def token_server() -> AsyncIterator[TokenServer]:
    server, app = TokenServer(), web.Application()
    app.router.add_post("/token", server.token)
    app.router.add_post("/strange", server.strange)
    app.router.add_get("/api", server.api)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()

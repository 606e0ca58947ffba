"""A browser that shows the console: cookies, and the headers with which it names who asks."""

from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any

import httpx

from integration.gateway.gateway_under_test import Gateway


@dataclass
class Browser:
    gateway: Gateway
    # httpx sends no cookie that is "Secure" to a plaintext loopback, as browsers do.
    cookies: dict[str, str] = field(default_factory=dict)
    csrf_token: str = ""

    async def sign_in(self, key: str) -> dict[str, Any]:
        reply = await self.send("POST", "/v1/session", headers={"authorization": f"Bearer {key}"})
        assert reply.status_code == 200, reply.text
        session: dict[str, Any] = reply.json()
        self.csrf_token = session["csrf_token"]
        return session

    async def session(self) -> dict[str, Any]:
        session: dict[str, Any] = (await self.send("GET", "/v1/session")).json()
        self.csrf_token = session["csrf_token"]
        return session

    async def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {
            "sec-fetch-site": "same-origin",
            "cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()),
            "x-podium-csrf": self.csrf_token,
            **options.pop("headers", {}),
        }
        given = {name: value for name, value in headers.items() if value}
        async with self.gateway.http("") as http:
            reply = await http.request(method, path, headers=given, **options)
        for header in reply.headers.get_list("set-cookie"):
            for name, morsel in SimpleCookie(header).items():
                if morsel["max-age"] == "0":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = morsel.value
        return reply

"""Engines under one name: who comes is asked, who goes is not, and replicas share the calls."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from openai_server import OpenAiServer
from orchestrator_inference.engine.engine import ModelCall
from orchestrator_inference.engine.merged import MergedEngines
from orchestrator_inference.engine.openai import OpenAiEngine, engine_client
from orchestrator_inference.engine.pool import EnginePool
from orchestrator_inference.errors import ModelNotFound
from orchestrator_inference.models import Constraint, Message, Sampling

ANY = Constraint({"type": "object"}, '{"type": "object"}', "0" * 64)
BLUE, GREEN = "policy-demo-v1", "policy-demo-v2"


class Names:
    """What the cluster's DNS says: hosts, and the addresses and ports behind them."""

    def __init__(self) -> None:
        self.addresses: dict[str, list[str]] = {}

    def look_up(self, host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        """As socket.getaddrinfo."""
        if not self.addresses.get(host):
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*kind, (address, port)) for address in self.addresses[host]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names()
    real = socket.getaddrinfo

    def either(host: str, port: int, *rest: Any, **more: Any) -> Any:
        known = host in names.addresses
        return names.look_up(host, port) if known else real(host, port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", either)
    return names


@pytest.fixture
def servers() -> Iterator[dict[str, OpenAiServer]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(OpenAiServer(models=[model]))
            for name, model in {
                "base": "base-model",
                "blue": BLUE,
                "green": GREEN,
                "green-2": GREEN,
            }.items()
        }


def url(servers: dict[str, OpenAiServer], name: str) -> str:
    """A server's base URL under a name of its own."""
    return servers[name].base_url.replace("127.0.0.1", name)


async def test_engines_come_and_go_with_the_addresses_of_their_name(
    names: Names, servers: dict[str, OpenAiServer]
) -> None:
    names.addresses = {"blue": ["127.0.0.1"], "green": []}
    urls = [url(servers, "blue"), url(servers, "green")]
    base = servers["base"].base_url
    async with MergedEngines(urls, None, 10, 4) as merged, engine_client(base, None, 4) as client:
        pool = EnginePool(OpenAiEngine(client, timeout_s=10), merged.engines)
        with pytest.raises(ModelNotFound):
            await pool.model(BLUE)
        assert [each.url for each in await merged.replicas()] == [servers["blue"].base_url]
        assert (await pool.model(BLUE)).name == BLUE
        with pytest.raises(ModelNotFound):
            await pool.model(GREEN)
        names.addresses = {"blue": [], "green": ["127.0.0.1"]}
        await merged.replicas()
        assert (await pool.model(GREEN)).name == GREEN
        with pytest.raises(ModelNotFound):
            await pool.model(BLUE)
        assert [model.name for model in await pool.models()] == ["base-model", GREEN]


async def test_replicas_of_one_version_are_asked_in_turn(
    names: Names, servers: dict[str, OpenAiServer]
) -> None:
    names.addresses = {name: ["127.0.0.1"] for name in ("green", "green-2")}
    urls = [url(servers, name) for name in names.addresses]
    async with (
        MergedEngines(urls, None, 10, 4) as merged,
        engine_client(servers["base"].base_url, None, 4) as client,
    ):
        await merged.replicas()
        pool = EnginePool(OpenAiEngine(client, timeout_s=10), merged.engines)
        for number in range(4):
            model = await pool.model(GREEN)
            message = Message("user", "Who are you?")
            await pool.complete(ModelCall(f"call {number}", model, (message,), Sampling(), ANY))
    assert [len(servers[name].requests) for name in ("base", "green", "green-2")] == [0, 2, 2]


async def test_an_engine_that_is_known_keeps_its_connections(
    names: Names, servers: dict[str, OpenAiServer]
) -> None:
    names.addresses = {"blue": ["127.0.0.1"]}
    async with MergedEngines([url(servers, "blue")], None, 10, 4) as merged:
        (first,) = await merged.replicas()
        await asyncio.gather(first.served(), first.served())
        assert await merged.replicas() == [first]

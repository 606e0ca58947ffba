"""Names that the shell completes: what the platform knows, and nothing when it does not answer."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from podium_cli.target import Target
from podium_kit.client.errors import UserError
from podium_kit.client.gateway import Gateway
from podium_kit.text import one_line

# No one waits longer for a Tab.
PATIENCE_S = 3.0
NAMES_MAX = 500
HELP_CHARACTERS = 60

Complete = Callable[[typer.Context, str], list[tuple[str, str]]]


def _names(path: str, items: str, name: tuple[str, ...], help_of: Callable[[Any], str]) -> Complete:
    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        # A shell has no place for errors.
        with suppress(UserError, TimeoutError, OSError, KeyError):
            for item in asyncio.run(_fetch(_target(ctx), path))[items]:
                value: Any = item
                for key in name:
                    value = value[key]
                if value.startswith(incomplete):
                    found.append((value, one_line(help_of(item), HELP_CHARACTERS)))
        return found

    return complete


def _target(ctx: typer.Context) -> Target:
    given = ctx.params
    state_dir = given.get("state_dir")
    return Target(given.get("url"), given.get("api_key"), Path(state_dir) if state_dir else None)


async def _fetch(target: Target, path: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S), Gateway(*target.address()) as gateway:
        return await gateway.call("GET", path, query={"page_size": NAMES_MAX})


tool_names = _names(
    "/v1/tools", "tools", ("spec", "name"), lambda tool: tool["spec"]["description"]
)
policy_names = _names(
    "/v1/policies", "policies", ("spec", "name"), lambda policy: policy["spec"]["instruction"]
)
webhook_ids = _names("/v1/webhooks", "webhooks", ("id",), lambda webhook: webhook["url"])
secret_names = _names("/v1/secrets", "secrets", ("name",), lambda _secret: "")
episode_ids = _names(
    "/v1/episodes",
    "episodes",
    ("id",),
    # Unset where the key may not read it.
    lambda episode: episode["spec"].get("task", ""),
)

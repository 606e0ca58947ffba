"""An OpenAPI document with hundreds of operations becomes tools in a few requests."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

from integration.podium_cli.conftest import CommandLine
from podium_kit.client.gateway import Gateway
from podium_kit.limits.concurrency import in_parallel

OPERATIONS = 600


def big_document(count: int) -> dict[str, Any]:
    """Operations with a path, a query and a body, as large ones have; the last has no way in."""
    paths: dict[str, Any] = {}
    for number in range(count):
        paths[f"/things{number}/{{id}}"] = {
            "post": {
                "operationId": f"changeThing{number}",
                "summary": f"Changes thing {number}, and says what it was.",
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
                    {"name": "dry", "in": "query", "schema": {"type": "boolean"}},
                ],
                "requestBody": {
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "properties": {
                                    f"field{each}": {"type": "string", "maxLength": 100}
                                    for each in range(12)
                                },
                            }
                        }
                    }
                },
                "responses": {"200": {"description": "ok"}},
            }
        }
    paths["/photos"] = {
        "post": {
            "operationId": "addPhoto",
            "requestBody": {"required": True, "content": {"image/png": {}}},
            "responses": {"200": {"description": "ok"}},
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Things", "version": "1"},
        "servers": [{"url": "https://things.example"}],
        "paths": paths,
    }


def test_hundreds_of_operations_are_imported_in_steps_that_are_shown(
    podium: CommandLine, tmp_path: Path
) -> None:
    document = tmp_path / "things.json"
    document.write_text(json.dumps(big_document(OPERATIONS)))
    made = podium("tools", "import-openapi", str(document), "--json")
    assert made.returncode == 0, made.stderr
    found = json.loads(made.stdout)
    assert len(found["tools"]) == OPERATIONS
    assert all(each["created"] for each in found["tools"])
    assert found["left_out"] == ["POST /photos: its body is image/png, which is no text"]
    steps = [line for line in made.stderr.splitlines() if line.startswith("registered ")]
    assert len(steps) > 2
    assert steps[-1] == f"registered {OPERATIONS:,} of {OPERATIONS:,}"
    again = podium.json("tools", "import-openapi", str(document))
    assert not any(each["created"] for each in again["tools"])
    assert {each["tool"]["version"] for each in again["tools"]} == {1}
    asyncio.run(remove(podium, [each["tool"]["spec"]["name"] for each in found["tools"]]))


async def remove(podium: CommandLine, names: list[str]) -> None:
    """So that other tests of this platform have its own tools alone."""
    connection = json.loads((podium.state_dir / "connection.json").read_text())
    async with Gateway(connection["gateway_url"], connection["api_key"]) as gateway:
        deleting = [partial(gateway.call, "DELETE", f"/v1/tools/{name}") for name in names]
        await in_parallel(deleting, 8)

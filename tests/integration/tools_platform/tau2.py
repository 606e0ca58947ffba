import importlib.resources
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from podium.registry.v1 import tool_pb2


@dataclass(frozen=True)
class Action:
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Domain:
    name: str
    tasks_file: str

    @property
    def program(self) -> str:
        return f"tau2-{self.name}-mcp-eval"

    @property
    def state_variable(self) -> str:
        return f"TAU2_{self.name.upper()}_MCP_STATE_DIR"

    def define(self, servers: Path) -> tool_pb2.McpStdio:
        """A relative path is in the session's own folder."""
        servers.mkdir(exist_ok=True)
        definition = {"argv": [self.program], "env": {self.state_variable: "state"}}
        (servers / f"{self.program}.yaml").write_text(json.dumps(definition))
        return tool_pb2.McpStdio(server=self.program)

    def golden_actions(self) -> dict[str, list[Action]]:
        package = importlib.resources.files(f"tau2_{self.name}_mcp")
        tasks = json.loads(package.joinpath(self.tasks_file).read_text())
        recorded = {
            task["id"]: [
                Action(action["name"], action["arguments"])
                for action in task["evaluation_criteria"].get("actions") or []
            ]
            for task in tasks
        }
        return {task: actions for task, actions in recorded.items() if actions}

    @asynccontextmanager
    async def client(self, folder: Path) -> AsyncIterator[Client]:
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        environment = {"PATH": path, self.state_variable: str(folder / "state")}
        parameters = StdioServerParameters(
            command=str(Path(sys.executable).parent / self.program), env=environment, cwd=folder
        )
        async with Client(stdio_client(parameters), cache=None) as client:
            yield client


MOCK = Domain("mock", "data/tasks.json")
AIRLINE = Domain("airline", "data/tau2/domains/airline/tasks.json")
RETAIL = Domain("retail", "data/tau2/domains/retail/tasks.json")


def database(folder: Path) -> dict[str, Any]:
    (file,) = (folder / "state").glob("*.json")
    state: dict[str, Any] = json.loads(file.read_text())
    return {key: value for key, value in state.items() if key.endswith("db")}

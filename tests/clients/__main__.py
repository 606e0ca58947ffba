"""`python -m clients`: client libraries, as they are published, against a whole platform.

Each is installed into an environment of its own and tries what it can: chat, streams, tools of its
own, answers as JSON, images, errors, going away. The platform is the one of `podium up` with a
scripted model. One that cannot be installed, or does not end, keeps no other from being tried.
Prints a table at the end; ends with status 1 when something that a client can do does not work.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from clients.environments import CLIENTS, PROGRAMS, Client, InstallFailed
from clients.model import DIRECT, MODEL, SEER, reply
from local_platforms import local_platform
from openai_server import OpenAiServer
from podium_operations.local.state import Connection
from temporary_files import server_folder

FEATURES = (
    "chat",
    "stream",
    "tools",
    "streamed tools",
    "tokens",
    "direct tools",
    "JSON",
    "images",
    "embeddings",
    "errors",
    "cancel",
)
NOT_OF_THE_CLIENT = "-"
TURNS_MAX = 8
MCP_TOOLS = Path(__file__).parent / "conformance_tools.py"
TIMEOUT_S = 300


@dataclass(frozen=True)
class Finding:
    problem: str
    no: str = ""


Results = dict[str, Finding]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="clients", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [client.name for client in CLIENTS]
    parser.add_argument("clients", nargs="*", help=f"of {', '.join(names)}")
    wanted = parser.parse_args().clients or names
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"there is no client {unknown[0]}; known are {', '.join(names)}")
    chosen = [client for client in CLIENTS if client.name in wanted]
    sys.exit(asyncio.run(try_all(chosen)))


async def try_all(clients: Sequence[Client]) -> int:
    missing = await installed(clients)
    with (
        server_folder("clients") as folder,
        OpenAiServer(script=[reply] * TURNS_MAX, models=[MODEL, DIRECT]) as model,
    ):
        define_mcp_server(folder / "state" / "mcp-servers")
        async with local_platform(folder, model.base_url, MODEL) as (_, connection):
            await register_mcp_tools(connection)
            await register_models(connection, model.base_url)
            found = {
                client.name: missing.get(client.name) or await tried(client, connection)
                for client in clients
            }
    print(table(found))
    problems = [
        f"{name}, {feature}: {finding.problem}"
        for name, results in found.items()
        for feature, finding in results.items()
        if finding.problem
    ]
    reasons = {f.no for results in found.values() for f in results.values() if f.no}
    print("".join(f"\nno: {reason}" for reason in sorted(reasons)))
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


async def installed(clients: Sequence[Client]) -> dict[str, Results]:
    missing = {}
    for client in clients:
        print(f"installing {client.name}", file=sys.stderr)
        try:
            await client.install()
        except InstallFailed as error:
            missing[client.name] = dict.fromkeys(FEATURES, Finding(f"not installed: {error}"))
    return missing


def define_mcp_server(folder: Path) -> None:
    folder.mkdir(parents=True)
    definition = {
        "argv": [sys.executable, str(MCP_TOOLS.resolve())],
        "folders": [str(MCP_TOOLS.resolve().parent)],
    }
    (folder / f"{MCP_TOOLS.stem}.yaml").write_text(yaml.safe_dump(definition))


async def register_mcp_tools(connection: Connection) -> None:
    headers = {"authorization": f"Bearer {connection.admin_key}"}
    server = {"connection": {"stdio": {"server": MCP_TOOLS.stem}}}
    async with httpx.AsyncClient(
        base_url=connection.gateway_url, headers=headers, timeout=TIMEOUT_S, trust_env=False
    ) as http:
        found = await http.post("/v1/tools/discover-mcp", json=server)
        for spec in found.raise_for_status().json()["specs"]:
            made = await http.post("/v1/tools", json={"spec": spec, "shared": True})
            made.raise_for_status()


async def register_models(connection: Connection, base_url: str) -> None:
    embedder = {"role": "LLM_ROLE_EMBEDDER"}, {"api": "LLM_API_OPENAI_EMBEDDINGS"}
    seer = {"role": "LLM_ROLE_GENERALIST"}, {"takes": ["MEDIA_KIND_IMAGE"]}
    direct = {"role": "LLM_ROLE_SPECIALIST"}, {"model": DIRECT}
    headers = {"authorization": f"Bearer {connection.admin_key}"}
    async with httpx.AsyncClient(
        base_url=connection.gateway_url, headers=headers, timeout=TIMEOUT_S, trust_env=False
    ) as http:
        for name, description, (llm, changes) in (
            ("embedder", "Turns texts into vectors.", embedder),
            (SEER, "Says what is on a picture.", seer),
            ("direct", "Is asked without an orchestrator.", direct),
        ):
            model = {"alias": "small", "model": MODEL, "api": "LLM_API_OPENAI_CHAT", **changes}
            spec = {
                "name": name,
                "kind": "TOOL_KIND_LLM",
                "description": description,
                "side_effect": "SIDE_EFFECT_PURE",
                "parameters_json_schema": '{"type": "object"}',
                "connection": {"llm": {**llm, "models": [{**model, "base_url": base_url}]}},
            }
            made = await http.post("/v1/tools", json={"spec": spec, "shared": True})
            made.raise_for_status()


async def tried(client: Client, connection: Connection) -> Results:
    print(f"trying {client.name}", file=sys.stderr)
    process = await asyncio.create_subprocess_exec(
        str(client.python),
        str(PROGRAMS / client.program),
        env={
            "PATH": client.path,
            "HOME": str(client.folder.resolve()),
            "PODIUM_BASE_URL": f"{connection.gateway_url}/v1",
            "PODIUM_API_KEY": connection.api_key,
        },
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        said, _ = await process.communicate()
        late = Finding(f"it ran for longer than {TIMEOUT_S} seconds")
        return {**dict.fromkeys(FEATURES, late), **results_of(said)}
    started = Finding(f"the program ended with status {process.returncode}")
    return results_of(said) or dict.fromkeys(FEATURES, started)


def results_of(said: bytes) -> Results:
    lines = [json.loads(line) for line in said.decode().splitlines() if line.startswith("{")]
    return {line["feature"]: Finding(line["problem"], line["no"]) for line in lines}


def table(found: dict[str, Results]) -> str:
    rows = [("client", *FEATURES), ("---",) * (len(FEATURES) + 1)]
    for name, results in found.items():
        cells = (_cell(results.get(feature)) for feature in FEATURES)
        rows.append((name, *cells))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(finding: Finding | None) -> str:
    if finding is None:
        return NOT_OF_THE_CLIENT
    if finding.problem:
        return "FAILED"
    return "no" if finding.no else "yes"


if __name__ == "__main__":
    main()

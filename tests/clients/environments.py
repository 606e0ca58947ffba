"""An environment of its own for every client: what one pins, another need not bear."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
ENVIRONMENTS = Path("build/clients")

# The newest versions of MCP's own tools ask for it; the machine's may be older, and npm would take
# older ones for it unless they are named `@latest`.
NODE = "node@22"


class InstallFailed(RuntimeError):
    """A client's packages could not be installed."""


@dataclass(frozen=True)
class Client:
    name: str
    program: str
    packages: tuple[str, ...] = ()
    npm_packages: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return ENVIRONMENTS / self.program

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def path(self) -> str:
        own = (self.folder / "node_modules" / ".bin").resolve()
        return f"{own}{os.pathsep}{os.environ['PATH']}"

    async def install(self) -> None:
        """Once; the newest versions that there are. Raises InstallFailed."""
        done = self.folder / "installed"
        if done.exists():
            return
        uv = str(Path(sys.executable).parent / "uv")
        await run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(self.folder))
        if self.packages:
            await run(uv, "pip", "install", "--quiet", "--python", str(self.python), *self.packages)
        if self.npm_packages:
            npm = ("npm", "install", "--silent", "--no-audit", "--no-fund")
            await run(*npm, "--prefix", str(self.folder), NODE, *self.npm_packages)
        done.touch()


CLIENTS = (
    Client("openai", "with_openai.py", ("openai",)),
    Client("openai and agents, Responses", "with_responses.py", ("openai", "openai-agents")),
    Client("anthropic", "with_anthropic.py", ("anthropic",)),
    Client("langchain-openai", "with_langchain.py", ("langchain-openai",)),
    Client("openai-agents", "with_openai_agents.py", ("openai-agents",)),
    Client("pydantic-ai", "with_pydantic_ai.py", ("pydantic-ai-slim[openai]",)),
    Client("instructor", "with_instructor.py", ("instructor",)),
    Client("fastmcp", "with_fastmcp.py", ("fastmcp",)),
    Client(
        "MCP's conformance suite",
        "with_mcp_conformance.py",
        npm_packages=("@modelcontextprotocol/conformance@latest",),
    ),
    Client(
        "MCP's inspector",
        "with_mcp_inspector.py",
        npm_packages=("@modelcontextprotocol/inspector@latest",),
    ),
    Client("a2a-sdk", "with_a2a.py", ("a2a-sdk",)),
    Client("litellm", "with_litellm.py", ("litellm",)),
    Client("llm", "with_llm.py", ("llm",)),
)


async def run(*command: str, cwd: Path | None = None) -> None:
    """Raises InstallFailed with the end of what it said."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    if process.returncode:
        raise InstallFailed(f"{' '.join(command)}: {said.decode().strip()[-2000:]}")

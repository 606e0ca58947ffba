"""MCP servers that the operator lets the adapters start, a file each: <folder>/<name>.yaml.

A tool names a server and can say nothing about its process. Files are read whenever a session
opens, so that a server is added without a restart.
"""

import re
from pathlib import Path

import yaml
from pydantic import BaseModel, Field, ValidationError

from tool_adapters.errors import McpServerUnusable
from tool_adapters.sandbox.limits import MIB

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class McpServerDefinition(BaseModel, frozen=True, extra="forbid"):
    """A process in a sandbox: no network, none of our files but what is listed here."""

    argv: tuple[str, ...] = Field(min_length=1, description="program and arguments")
    env: dict[str, str] = Field({}, description="its environment variables")
    secret_env: dict[str, str] = Field(
        {}, description="variables filled with secrets, by their name, of whoever has the tool"
    )
    folders: tuple[Path, ...] = Field((), description="what else it sees of this machine, to read")
    memory_bytes: int = Field(1024 * MIB, gt=0, description="address space of each process")
    processes: int = Field(64, gt=0, description="processes and threads at once")
    files_bytes: int = Field(64 * MIB, gt=0, description="files it may write, kept in memory")


class McpDefinitions:
    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, name: str) -> McpServerDefinition:
        if name not in (known := self._names()):
            names = ", ".join(sorted(known)) or "none"
            raise McpServerUnusable(
                name, f"the operator defined no such server; defined are: {names}"
            )
        assert self._folder is not None
        try:
            values = yaml.safe_load((self._folder / f"{name}.yaml").read_text())
            return McpServerDefinition.model_validate(values)
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise McpServerUnusable(
                name, f"the operator's definition of it is wrong: {_words(error)}"
            ) from error

    def _names(self) -> set[str]:
        files = self._folder.glob("*.yaml") if self._folder else ()
        return {file.stem for file in files if _NAME.fullmatch(file.stem)}


def _words(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"

"""Tools of type mcp: servers that are registered, named by a request (docs/adr/0034)."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from gateway.errors import UnknownMcpServer, UnsupportedParameter

# What would have the platform call a server, or call it as someone, that no one registered.
REJECTED = {
    "headers": "credentials are kept with the registered tools (podium secrets)",
    "authorization": "credentials are kept with the registered tools (podium secrets)",
    "connector_id": "connectors are OpenAI's own; register an MCP server",
    "tunnel_id": "tunnels are OpenAI's own; register an MCP server",
}


@dataclass(frozen=True)
class RegisteredTool:
    name: str
    # One of both says which server: an operator's name for it, or its address.
    server: str
    url: str
    # What the server calls the tool.
    own_name: str
    description: str
    parameters_schema: dict[str, Any]
    read_only: bool


@dataclass(frozen=True)
class NamedServer:
    """A server of a request, with those of its tools that the request and the policy allow."""

    label: str
    tools: tuple[RegisteredTool, ...]

    def tool(self, name: str) -> RegisteredTool | None:
        return next((tool for tool in self.tools if tool.name == name), None)


class McpToolFilter(BaseModel):
    model_config = ConfigDict(extra="ignore")

    tool_names: list[str] | None = None
    read_only: bool | None = None


class McpTool(BaseModel):
    """An MCP server that is registered."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["mcp"]
    server_label: str
    server_url: str | None = None
    server_description: str | None = None
    allowed_tools: list[str] | McpToolFilter | None = None
    require_approval: Literal["never"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _asks_for_what_there_is(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        for name, fix in REJECTED.items():
            if given.get(name):
                raise ValueError(f"{name} is not supported here; {fix}")
        if given.get("require_approval") not in (None, "never"):
            raise ValueError(
                "require_approval is the policy's here: it says which calls wait for a person;"
                ' send "never"'
            )
        return given

    def server(self, registered: list[RegisteredTool]) -> NamedServer:
        found = [tool for tool in registered if self.is_of(tool)]
        if not found:
            raise UnknownMcpServer(self.server_url or self.server_label)
        wanted = self.allowed_tools
        chosen = McpToolFilter(tool_names=wanted) if isinstance(wanted, list) else wanted
        if chosen is None:
            return NamedServer(self.server_label, tuple(found))
        names = {name for tool in found for name in (tool.own_name, tool.name)}
        if unknown := sorted(set(chosen.tool_names or ()) - names):
            there = ", ".join(sorted(tool.own_name for tool in found))
            raise UnsupportedParameter(
                "allowed_tools", f"{self.server_label} has no tool {unknown[0][:100]}, but {there}"
            )
        return NamedServer(self.server_label, tuple(each for each in found if _fits(each, chosen)))

    def is_of(self, tool: RegisteredTool) -> bool:
        if self.server_url:
            return tool.url.rstrip("/") == self.server_url.rstrip("/")
        return tool.server == self.server_label


def _fits(tool: RegisteredTool, chosen: McpToolFilter) -> bool:
    named = chosen.tool_names is None or {tool.own_name, tool.name} & set(chosen.tool_names)
    return bool(named) and (chosen.read_only is None or chosen.read_only == tool.read_only)


class McpChoice(BaseModel):
    """A choice of one server, or of one of its tools."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["mcp"]
    server_label: str
    name: str | None = None

    def names(self, servers: tuple[NamedServer, ...]) -> tuple[str, ...]:
        found = tuple(
            tool.name
            for server in servers
            if server.label == self.server_label
            for tool in server.tools
            if self.name in (None, tool.own_name, tool.name)
        )
        if not found:
            place = f"{self.name} of {self.server_label}" if self.name else self.server_label
            raise UnsupportedParameter("tool_choice", f"{place} is not among tools")
        return found

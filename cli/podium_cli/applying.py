"""Registering tools from specs, with the differences to what is registered."""

import difflib

import yaml
from rich.syntax import Syntax
from rich.text import Text

from podium.registry.v1 import tool_pb2, tool_registry_service_pb2
from podium_cli.gateway import Gateway
from podium_cli.output import Output, message_values
from podium_cli.refusals import Refused


class ApplyTools:
    """Checks all specs first, so that a wrong one leaves nothing half done."""

    def __init__(self, gateway: Gateway, output: Output, shared: bool, dry_run: bool) -> None:
        self._gateway = gateway
        self._output = output
        self._shared = shared
        self._dry_run = dry_run

    async def run(self, specs: list[tool_pb2.ToolSpec]) -> None:
        """Prints one line or difference per tool. Raises Refused."""
        checked = [await self._register(spec, validate_only=True) for spec in specs]
        if self._dry_run:
            await self._show_differences(specs)
            replies = checked
        else:
            replies = [await self._register(spec, validate_only=False) for spec in specs]
        merged = [message_values(reply) for reply in replies]
        lines = "\n".join(self._line(reply) for reply in replies)
        self._output.result({"tools": merged, "dry_run": self._dry_run}, Text(lines))

    async def _register(
        self, spec: tool_pb2.ToolSpec, validate_only: bool
    ) -> tool_registry_service_pb2.RegisterToolResponse:
        request = tool_registry_service_pb2.RegisterToolRequest(
            spec=spec, shared=self._shared, validate_only=validate_only
        )
        try:
            return await self._gateway.post(
                "/v1/tools", request, tool_registry_service_pb2.RegisterToolResponse
            )
        except Refused as refused:
            refused.cause = f"{spec.name}: {refused.cause}"
            raise

    async def _show_differences(self, specs: list[tool_pb2.ToolSpec]) -> None:
        reply = await self._gateway.all("/v1/tools", tool_registry_service_pb2.ListToolsResponse)
        current = {tool.spec.name: tool.spec for tool in reply.tools}
        for spec in specs:
            text = difference(current.get(spec.name), spec)
            if text:
                self._output.progress.print(Syntax(text, "diff", background_color="default"))

    def _line(self, reply: tool_registry_service_pb2.RegisterToolResponse) -> str:
        name, version = reply.tool.spec.name, reply.tool.version
        if not reply.created:
            return f"{name} v{version} unchanged"
        return f"{name} v{version} {'would be registered' if self._dry_run else 'registered'}"


def difference(old: tool_pb2.ToolSpec | None, new: tool_pb2.ToolSpec) -> str:
    """A unified difference of two specs as YAML; "" when they are the same."""
    lines = difflib.unified_diff(
        _yaml(old) if old is not None else [],
        _yaml(new),
        f"{new.name} (registered)",
        f"{new.name} (file)",
        lineterm="",
    )
    return "\n".join(lines)


def _yaml(spec: tool_pb2.ToolSpec) -> list[str]:
    given = {key: value for key, value in message_values(spec).items() if value}
    return yaml.safe_dump(given, sort_keys=False, allow_unicode=True).splitlines()

"""Registers the tools bundled with Podium and keeps the changes that users made to them.

At every start their files may be newer, or name another engine. A field that no user changed
follows the file, a changed one stays, and so does the deprecation or deletion of a tool.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from podium.registry.v1 import tool_pb2, tool_registry_service_pb2
from podium_cli.local.state import write_private
from podium_kit.client.gateway import Gateway, message_values

Values = dict[str, Any]


class BundledTools:
    """`registered_file` keeps the specs of the last start; a difference is a user's change."""

    def __init__(self, gateway: Gateway, registered_file: Path) -> None:
        self._gateway = gateway
        self._registered_file = registered_file
        self._last = json.loads(registered_file.read_text()) if registered_file.exists() else {}

    async def register(self, specs: Sequence[tool_pb2.ToolSpec]) -> None:
        """Raises Rejected."""
        registered = await self._registered()
        wanted = [self._wanted(spec, registered.get(spec.name)) for spec in specs]
        await asyncio.gather(*(self._register(values) for values in wanted if values))
        self._last |= {spec.name: message_values(spec) for spec in specs}
        write_private(self._registered_file, json.dumps(self._last))

    def _wanted(self, spec: tool_pb2.ToolSpec, registered: tool_pb2.Tool | None) -> Values | None:
        """What to register; None for a tool that stays as it is, or out of use."""
        last, new = self._last.get(spec.name), message_values(spec)
        if registered is None:
            # Registered before and missing now: a user deleted it.
            return None if last else new
        if registered.HasField("deprecate_time"):
            return None
        current = message_values(registered.spec)
        merged = _merged(_upgraded(last) if last else new, new, current)
        return None if merged == current else merged

    async def _registered(self) -> dict[str, tool_pb2.Tool]:
        """The newest version of every tool, deprecated or not."""
        listed = await self._gateway.all(
            "/v1/tools", tool_registry_service_pb2.ListToolsResponse, include_deprecated="true"
        )
        return {tool.spec.name: tool for tool in listed.tools}

    async def _register(self, spec: Values) -> None:
        await self._gateway.post(
            "/v1/tools",
            {"spec": spec, "shared": True},
            tool_registry_service_pb2.RegisterToolResponse,
        )


def _merged(last: Values, new: Values, current: Values) -> Values:
    """The new fields, except those that were changed since they were last registered."""
    merged = {
        field: (new if current.get(field) == last.get(field) else current).get(field)
        for field in new.keys() | current.keys()
    }
    return {field: value for field, value in merged.items() if value is not None}


def _upgraded(last: Values) -> Values:
    """A spec that an older Podium wrote, with today's fields."""
    return message_values(
        json_format.ParseDict(last, tool_pb2.ToolSpec(), ignore_unknown_fields=True)
    )

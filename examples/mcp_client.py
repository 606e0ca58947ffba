"""Podium as an MCP server: any MCP client can hand a whole task to it and watch the turns.

pip install fastmcp
python mcp_client.py "What is 6 x 7?"
"""

import asyncio
import os
import sys

from fastmcp import Client
from fastmcp.client.auth import BearerAuth


async def tell(progress: float, total: float | None, message: str | None) -> None:
    print(f"[{progress:g}] {message or ''}".strip())


async def main() -> None:
    task = " ".join(sys.argv[1:]) or "What is 6 x 7?"
    server = f"{os.environ['PODIUM_URL']}/v1/mcp"
    auth = BearerAuth(os.environ["PODIUM_API_KEY"])
    async with Client(server, auth=auth, progress_handler=tell) as podium:
        asked = {"task": task, "tools": ["calculator"], "budget_usd": "0.05"}
        reply = await podium.call_tool("run_task", asked)
        print(reply.data or reply.content[0].text)


asyncio.run(main())

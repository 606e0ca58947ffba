"""Podium as an MCP server: any MCP client can hand a whole task to it and watch the turns.

pip install fastmcp
python mcp_client.py "What is 6 x 7?"
"""

import asyncio
import os
import sys

from fastmcp import Client
from fastmcp.client.auth import BearerAuth


async def show(progress: float, total: float | None, message: str | None) -> None:
    print(f"[{progress:g}] {message or ''}".strip())


async def main() -> None:
    task = " ".join(sys.argv[1:]) or "What is 6 x 7?"
    url, key = os.environ.get("PODIUM_URL"), os.environ.get("PODIUM_API_KEY")
    if not url or not key:
        sys.exit("set PODIUM_URL and PODIUM_API_KEY; `podium up` prints both")
    server = f"{url}/v1/mcp"
    async with Client(server, auth=BearerAuth(key), progress_handler=show) as podium:
        asked = {"task": task, "tools": ["calculator"], "budget_usd": "0.05"}
        reply = await podium.call_tool("run_task", asked)
        print(reply.data or reply.content[0].text)


asyncio.run(main())

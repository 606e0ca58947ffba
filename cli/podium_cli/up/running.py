"""The platform from first process to "ready", as `podium up` and the demo share it."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console

from podium_cli.up.checklist import Checklist
from podium_kit.embedded.gate import namespaces
from podium_operations.local.bootstrap import Bootstrap
from podium_operations.local.engines import check_engine
from podium_operations.local.keys import ensure_api_keys
from podium_operations.local.platform import LocalPlatform, PlatformOptions, Report
from podium_operations.local.retries import RetryingGateway, retry_while_away
from podium_operations.local.state import Connection

OPEN = "other users of this machine reach Temporal and the broker, which authenticate nobody"


@asynccontextmanager
async def running_platform(
    options: PlatformOptions, console: Console
) -> AsyncIterator[tuple[Connection, asyncio.Task[None]]]:
    """Starts and fills the platform, and stops it at the end.

    Between, the task keeps it running; it ends with an error when that is impossible.

    Raises AlreadyUp, StateFolderUnusable, EmbeddedError; nothing is left running then.
    """
    with Checklist(console) as checklist:
        if options.engine.openai_base_url:
            checklist.report("model server", False)
            await check_engine(options.engine, console.print)
            checklist.report("model server", True)
        platform = LocalPlatform(options, checklist.report)
        await platform.start()
        supervision = asyncio.create_task(platform.supervise())
        try:
            connection = await fill(platform, checklist.report)
            enclosed = await asyncio.to_thread(namespaces.are_permitted)
        except BaseException:
            await _stop(platform, supervision)
            raise
    if not enclosed:
        console.print(f"[yellow]warning:[/] {OPEN}; {namespaces.FIX}")
    try:
        yield connection, supervision
    finally:
        console.print("stopping ...")
        await _stop(platform, supervision)


async def _stop(platform: LocalPlatform, supervision: asyncio.Task[None]) -> None:
    supervision.cancel()
    # Its error is raised where the task is awaited.
    await asyncio.wait({supervision})
    await platform.stop()


async def fill(platform: LocalPlatform, report: Report) -> Connection:
    """Gives a started platform its keys, prices, tools and corpora; says how to reach it.

    What is away meanwhile is waited for: a process may have died and be on its way back.
    """
    assert platform.engine is not None
    assert platform.around is not None
    url = platform.gateway_url
    keys = await retry_while_away(ensure_api_keys, platform.state, url, platform.dsn["gateway"])
    async with RetryingGateway(url, keys.platform) as gateway:
        tools_file = platform.state.registered_tools_file
        await Bootstrap(gateway, platform.engine, tools_file, report).run()
    connection = Connection(
        url,
        keys.tenant,
        keys.platform,
        os.getpid(),
        platform.around.kafka,
        platform.around.target("temporal"),
        platform.around.temporal,
        platform.allowed_hosts,
    )
    platform.state.write_connection(connection)
    return connection

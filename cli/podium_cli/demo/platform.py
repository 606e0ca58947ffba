from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from podium_cli.command import Session
from podium_cli.up.background import start_in_background
from podium_cli.up.starting import (
    PlatformOptions,
    ensure_engine_installed,
    running_platform,
    up_arguments,
)
from podium_kit.client.gateway import Gateway
from podium_operations.local.engines import EngineChoice
from podium_operations.local.state import NotUp


@asynccontextmanager
async def demo_platform(
    session: Session, choice: EngineChoice, yes: bool, keep: bool
) -> AsyncIterator[Gateway]:
    """A gateway of the platform that is up, or of one of our own."""
    async with AsyncExitStack() as stack:
        try:
            session.target.address()
            session.output.note("using the platform that is up")
        except NotUp:
            await _start(session, choice, yes, keep, stack)
        yield await stack.enter_async_context(session.gateway())


async def _start(
    session: Session, choice: EngineChoice, yes: bool, keep: bool, stack: AsyncExitStack
) -> None:
    output, state = session.output, session.target.state
    await ensure_engine_installed(choice, yes, output.progress)
    if keep:
        arguments = up_arguments(state.path, choice)
        await start_in_background(state, arguments, choice.openai_api_key, output)
        output.note("`podium down` stops the platform")
    else:
        options = PlatformOptions(state.path, choice)
        await stack.enter_async_context(running_platform(options, output.progress))

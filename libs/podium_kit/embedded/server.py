from abc import ABC, abstractmethod

from podium_kit.embedded.process import ManagedProcess


class EmbeddedServer(ABC):
    """A server in one process; all methods may be called from any event loop."""

    start_timeout_s = 60.0
    stop_grace_s = 20.0

    def __init__(self, process: ManagedProcess) -> None:
        self.process = process

    async def start(self) -> None:
        """Start the server unless it answers already, and wait until it does.

        Raises StartupFailed or PortTaken; nothing is left running then.
        """
        if self.process.running and await self.answers():
            return
        # A server killed a moment ago may still count as running.
        await self.process.kill()
        await self.prepare()
        self.process.start()
        await self.process.wait_ready(self.answers, self.start_timeout_s)

    async def stop(self) -> None:
        """Stop cleanly, or kill after `stop_grace_s`."""
        await self.process.terminate(self.stop_grace_s)

    async def kill(self) -> None:
        """Crash the server, as a power cut would."""
        await self.process.kill()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    @abstractmethod
    async def prepare(self) -> None:
        """Make what the server needs to start: folders, a free port."""

    @abstractmethod
    async def answers(self) -> bool:
        """Returns whether the server serves requests now."""

"""SIGTERM, which is how a scheduler ends a command."""

import asyncio
import signal


class stopping_on_sigterm:  # noqa: N801  reads as a statement
    """Makes SIGTERM end the running task as Ctrl-C does."""

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)

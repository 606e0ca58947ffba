"""Runs the cost ledger: `python -m cost_ledger`."""

import asyncio

import uvloop

from cost_ledger.config import Settings
from cost_ledger.server import serve
from rpckit.settings import load_settings


def main() -> None:
    """Reads the settings and serves until SIGTERM."""
    settings = load_settings(Settings)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(settings))


if __name__ == "__main__":
    main()

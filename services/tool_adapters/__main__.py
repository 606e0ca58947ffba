"""`python -m tool_adapters`: the tool adapters server."""

import os

# Before gRPC is imported: otherwise it restarts its threads in a forked child, and some of the
# MCP servers and sandboxes die before they begin.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

from rpckit.process import run
from rpckit.settings import load_settings
from tool_adapters.config import Settings
from tool_adapters.server import serve


def main() -> None:
    """Reads the settings and serves."""
    run(serve(load_settings(Settings)))


if __name__ == "__main__":
    main()

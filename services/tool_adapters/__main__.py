"""`python -m tool_adapters`: the tool adapters server."""

import uvloop

from rpckit.settings import load_settings
from tool_adapters.config import Settings
from tool_adapters.server import serve


def main() -> None:
    """Reads the settings and serves."""
    uvloop.run(serve(load_settings(Settings)))


if __name__ == "__main__":
    main()

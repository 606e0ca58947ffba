import sys

from podium_kit.rpc.process import run
from podium_kit.rpc.settings import load_settings
from tool_adapters.sandbox.config import SandboxSettings
from tool_adapters.sandbox.local_runner import IsolationUnavailable
from tool_adapters.sandbox.server import serve


def main() -> None:
    """Exit status 3 where code cannot be isolated."""
    try:
        run(serve(load_settings(SandboxSettings)))
    except IsolationUnavailable as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(3) from None


if __name__ == "__main__":
    main()

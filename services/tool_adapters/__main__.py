import os

# Before gRPC is imported. Its handlers of forks are for children that continue using gRPC; ours
# only execute a program.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

from podium_kit.rpc.process import run
from podium_kit.rpc.settings import load_settings
from tool_adapters.config import ToolAdaptersSettings
from tool_adapters.server import serve


def main() -> None:
    run(serve(load_settings(ToolAdaptersSettings)))


if __name__ == "__main__":
    main()

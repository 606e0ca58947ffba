from podium_kit.rpc.process import run
from podium_kit.rpc.settings import load_settings
from tool_adapters.config import ToolAdaptersSettings
from tool_adapters.server import serve


def main() -> None:
    run(serve(load_settings(ToolAdaptersSettings)))


if __name__ == "__main__":
    main()

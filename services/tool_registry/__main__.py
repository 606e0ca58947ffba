from podium_kit.rpc.process import run
from podium_kit.rpc.settings import load_settings
from tool_registry.config import ToolRegistrySettings
from tool_registry.server import serve


def main() -> None:
    run(serve(load_settings(ToolRegistrySettings)))


if __name__ == "__main__":
    main()

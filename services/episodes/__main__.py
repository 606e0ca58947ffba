from episodes.config import ServerConfig
from episodes.server import serve
from podium_kit.rpc.process import run
from podium_kit.rpc.settings import load_settings


def main() -> None:
    config = load_settings(ServerConfig)
    run(serve(config))


if __name__ == "__main__":
    main()

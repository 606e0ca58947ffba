"""`python -m orchestrator_inference`: serves OrchestratorService until SIGTERM."""

from orchestrator_inference.config import Settings
from orchestrator_inference.server import serve
from podium_kit.rpc.process import run
from podium_kit.rpc.settings import load_settings


def main() -> None:
    """Reads the settings, or names what is missing, and serves."""
    run(serve(load_settings(Settings)))


if __name__ == "__main__":
    main()

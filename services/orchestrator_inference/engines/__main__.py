"""`python -m orchestrator_inference.engines`."""

from orchestrator_inference.engines.config import Settings
from orchestrator_inference.engines.worker import work
from rpckit.process import run
from rpckit.settings import load_settings


def main() -> None:
    """Reads the settings and works until SIGTERM."""
    run(work(load_settings(Settings)))


if __name__ == "__main__":
    main()

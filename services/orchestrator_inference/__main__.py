"""`python -m orchestrator_inference`: serves OrchestratorService until SIGTERM."""

import uvloop

from orchestrator_inference.config import Settings
from orchestrator_inference.server import serve
from rpckit.settings import load_settings


def main() -> None:
    """Reads the settings, or names what is missing, and serves."""
    uvloop.run(serve(load_settings(Settings)))


if __name__ == "__main__":
    main()

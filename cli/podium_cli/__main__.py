"""`podium`, also as `python -m podium_cli`."""

import os

# Read when grpc is imported: its fork handlers crash children that are started once a
# channel is open, and `up` starts a service again when it died.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

from podium_cli.app import app


def main() -> None:
    """Runs the command line; ends the process with its status."""
    app(prog_name="podium")


if __name__ == "__main__":
    main()

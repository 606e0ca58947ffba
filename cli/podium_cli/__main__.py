"""`podium`, also as `python -m podium_cli`."""

import os
import sys

# Read when grpc is imported: its fork handlers crash children that are started once a
# channel is open, and `up` starts a service again when it died.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

from podium_cli.app import app


def main() -> None:
    """Runs the command line; ends the process with its status."""
    try:
        app(prog_name="podium")
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        # Threads of gRPC and Temporal can abort an interpreter that ends under them.
        os._exit(ended.code)


if __name__ == "__main__":
    main()

"""`podium`, also as `python -m podium_cli`."""

import os
import sys

from podium_cli.ending import status_of


def main() -> None:
    status = status_of(sys.argv[1:])
    # Threads of gRPC and Temporal can abort an interpreter that ends under them.
    os._exit(status)


if __name__ == "__main__":
    main()

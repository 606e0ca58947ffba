"""Process 1 of the sandbox of a program: takes its limits, then becomes the program."""

import json
import os
import resource
import sys


def main() -> None:
    """Arguments: the limits as JSON, by their name in the module `resource`; then the command."""
    limits, *command = sys.argv[1:]
    for name, limit in json.loads(limits).items():
        resource.setrlimit(getattr(resource, name), (limit, limit))
    try:
        os.execvp(command[0], command)  # noqa: S606 (the operator's command)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be started in the sandbox: {error.strerror}")

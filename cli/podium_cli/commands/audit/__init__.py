"""`podium audit`."""

# Each module adds its commands to the group's app.
from podium_cli.commands.audit import close, files, log
from podium_cli.commands.audit.audit import app

__all__ = ["app", "close", "files", "log"]

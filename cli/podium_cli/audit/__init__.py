# Each module adds its commands to the group's app.
from podium_cli.audit import corrections, files
from podium_cli.audit.audit import app

__all__ = ["app", "corrections", "files"]

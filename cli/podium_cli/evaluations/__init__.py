# Each module adds its commands to the group's app.
from podium_cli.evaluations import (
    calibrating,
    environments,
    judging,
    live,
    past,
    reporting,
    running,
)
from podium_cli.evaluations.runs import app

__all__ = ["app", "calibrating", "environments", "judging", "live", "past", "reporting", "running"]

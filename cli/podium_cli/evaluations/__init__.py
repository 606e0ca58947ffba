# Each module adds its commands to the group's app.
from podium_cli.evaluations import environments, judging, live, past, reporting, running
from podium_cli.evaluations.runs import app

__all__ = ["app", "environments", "judging", "live", "past", "reporting", "running"]

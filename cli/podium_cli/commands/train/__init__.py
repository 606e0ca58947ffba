"""`podium train`."""

# Each module adds its commands to the group's app.
from podium_cli.commands.train import (
    improve,
    preferences,
    progress,
    runs,
    synthesize,
    tasks,
    versions,
)
from podium_cli.commands.train.train import app

__all__ = ["app", "improve", "preferences", "progress", "runs", "synthesize", "tasks", "versions"]

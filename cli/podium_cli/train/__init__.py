# Each module adds its commands to the group's app.
from podium_cli.train import (
    improve,
    monitor,
    preferences,
    production,
    progress,
    replay,
    runs,
    tasks,
    versions,
)
from podium_cli.train.train import app

__all__ = [
    "app",
    "improve",
    "monitor",
    "preferences",
    "production",
    "progress",
    "replay",
    "runs",
    "tasks",
    "versions",
]

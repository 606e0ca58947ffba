"""`podium policies`."""

# Each module adds its commands to the group's app.
from podium_cli.commands.policies import bindings, history
from podium_cli.commands.policies.policies import app

__all__ = ["app", "bindings", "history"]

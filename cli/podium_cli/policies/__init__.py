# Each module adds its commands to the group's app.
from podium_cli.policies import bindings, history
from podium_cli.policies.policies import app

__all__ = ["app", "bindings", "history"]

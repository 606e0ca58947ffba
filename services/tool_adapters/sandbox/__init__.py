"""Runs Python written by models, isolated: no network, no credentials, none of our files."""

from tool_adapters.sandbox.execution import Execution
from tool_adapters.sandbox.limits import Limits, Sizes
from tool_adapters.sandbox.sandbox import IsolationUnavailable, Sandbox
from tool_adapters.sandbox.session import SandboxBroken
from tool_adapters.sandbox.workspaces import Workspaces

__all__ = [
    "Execution",
    "IsolationUnavailable",
    "Limits",
    "Sandbox",
    "SandboxBroken",
    "Sizes",
    "Workspaces",
]

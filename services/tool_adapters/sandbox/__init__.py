"""Runs Python written by models, isolated: no network, no credentials, none of our files."""

from tool_adapters.sandbox.limits import Limits, Sizes
from tool_adapters.sandbox.local_runner import IsolationUnavailable, LocalRunner
from tool_adapters.sandbox.sandbox import Execution, Sandbox, SandboxBroken

__all__ = [
    "Execution",
    "IsolationUnavailable",
    "Limits",
    "LocalRunner",
    "Sandbox",
    "SandboxBroken",
    "Sizes",
]

"""Typed failures of calls: values the model, the reward and the ledger all see."""

from failures.failure import FailureKind, ToolFailure

__all__ = ["FailureKind", "ToolFailure"]

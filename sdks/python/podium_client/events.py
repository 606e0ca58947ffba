"""Events of an episode, with a name to tell them apart by."""

from typing import Literal

from podium_client import models

EventKind = Literal[
    "started",
    "action_decided",
    "tool_returned",
    "approval_requested",
    "client_calls_requested",
    "verifier_called",
    "judged",
    "finished",
    "unknown",
]
KINDS: tuple[EventKind, ...] = (
    "started",
    "action_decided",
    "tool_returned",
    "approval_requested",
    "client_calls_requested",
    "verifier_called",
    "judged",
    "finished",
)


class EpisodeEvent(models.EpisodeEvent):
    """One event; the field of the same name as its kind is set."""

    @property
    def kind(self) -> EventKind:
        """Unknown for what only a newer platform tells."""
        return next((kind for kind in KINDS if getattr(self, kind) is not None), "unknown")

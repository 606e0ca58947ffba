"""Events of an episode, with a name to tell them apart by."""

from collections.abc import Callable
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


class WrittenAnswer:
    """The text of an answer that was shown while attempts at its turns wrote it."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show
        self._text = ""
        self._place = 0

    def add(self, start: int, text: str) -> None:
        """Shows what a part adds: nothing after a lost part, or as long as an attempt repeats or
        contradicts what was shown."""
        if start not in (0, self._place):
            return
        self._place = start + len(text)
        known = self._text[start : self._place]
        if text.startswith(known):
            self._add(text[len(known) :])
        else:
            self._place = -1

    def end(self, answer: str) -> None:
        """Shows the rest of the whole answer."""
        if answer.startswith(self._text):
            self._add(answer[len(self._text) :])

    def _add(self, text: str) -> None:
        self._text += text
        if text:
            self._show(text)

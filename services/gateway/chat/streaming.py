from collections.abc import Sequence

CHUNK_CHARACTERS = 400


class StreamedText:
    """The text of an answer that is sent while it is written, up to where a stop may begin."""

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops = stops
        self._text = ""
        self._sent = 0

    @property
    def has_begun(self) -> bool:
        return self._sent > 0

    def add(self, text: str) -> str:
        """Returns what may be sent by now."""
        self._text += text
        begins = [_begin(self._text, stop) for stop in self._stops]
        return self._sent_to(min([len(self._text), *begins]))

    def rest(self, answer: str) -> list[str]:
        """Returns what is left to send of the whole answer, in chunks."""
        sent = self._text[: self._sent]
        left = answer[self._sent :] if answer.startswith(sent) else ""
        self._sent += len(left)
        places = range(0, len(left), CHUNK_CHARACTERS)
        return [left[start : start + CHUNK_CHARACTERS] for start in places]

    def _sent_to(self, end: int) -> str:
        ready = self._text[self._sent : end]
        self._sent = max(self._sent, end)
        return ready


class ShownAnswer:
    """The text of an episode's answer that is shown while attempts at its turns write it."""

    def __init__(self) -> None:
        self._text = ""
        self._place = 0

    def add(self, start: int, text: str) -> str:
        """Returns what a part adds to what is shown.

        It is nothing after a lost part, and as long as another attempt repeats or contradicts it.
        """
        if start not in (0, self._place):
            return ""
        self._place = start + len(text)
        known = self._text[start : self._place]
        if not text.startswith(known):
            self._place = -1
            return ""
        self._text += text[len(known) :]
        return text[len(known) :]


def _begin(text: str, stop: str) -> int:
    """The first place from which on a text is a stop, or may become one; else its end."""
    if (at := text.find(stop)) >= 0:
        return at
    lengths = range(min(len(stop) - 1, len(text)), 0, -1)
    begun = next((length for length in lengths if text.endswith(stop[:length])), 0)
    return len(text) - begun

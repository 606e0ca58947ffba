"""The parts of an answer that may be shown before all of it is written.

A guardrail that redacts by patterns lets text leave once no match can begin in it any more. Other
guardrails need the whole answer, which then comes at once.
"""

import re
from collections.abc import Sequence

from podium_kit.metering import Usage
from tool_adapters.adapter import AnswerListener, ModelFunctionCall
from tool_adapters.guardrails.models import Guardrail, GuardrailAction, mark
from tool_adapters.guardrails.patterns import Finder, PatternCheck
from tool_adapters.models import Stage

# What is JSON is redacted in its strings, whatever is escaped there.
JSON_BEGINS = ("{", "[", '"')
SPACE = re.compile(r"\s")


def shown_early(listener: AnswerListener, guardrails: Sequence[Guardrail]) -> AnswerListener:
    """The listener, of what the guardrails on outputs let leave early."""
    changing = [
        each
        for each in guardrails
        if Stage.OUTPUT in each.stages and each.action is not GuardrailAction.FLAG
    ]
    if not changing:
        return listener
    finders: list[Finder] = []
    for each in changing:
        streams = isinstance(each.check, PatternCheck) and each.check.streams
        if each.action is not GuardrailAction.REDACT or not streams:
            return WholeAnswers(listener)
        assert isinstance(each.check, PatternCheck)
        finders += [finder for _, finder in each.check.finders]
    return RedactedParts(listener, finders)


class WholeAnswers:
    """Passes on that a request was sent, and no part of its answer."""

    def __init__(self, listener: AnswerListener) -> None:
        self._listener = listener

    def sent(self, usage: Usage, *, timed: bool) -> None:
        self._listener.sent(usage, timed=timed)

    def wrote(self, text: str) -> None: ...

    def called(self, index: int, part: ModelFunctionCall) -> None: ...


class RedactedParts(WholeAnswers):
    """Passes text on without what the finders find. What it withholds at the end, and functions
    that are called, are in the whole answer."""

    def __init__(self, listener: AnswerListener, finders: Sequence[Finder]) -> None:
        super().__init__(listener)
        self._filters = [_RedactedText(finder) for finder in finders]
        self._is_json: bool | None = None

    def wrote(self, text: str) -> None:
        if self._is_json is None and (begin := text.lstrip()):
            self._is_json = begin.startswith(JSON_BEGINS)
        if self._is_json:
            return
        for each in self._filters:
            text = each.add(text)
        if text:
            self._listener.wrote(text)


class _RedactedText:
    """Text without what one finder finds, as far as nothing that follows can change that."""

    def __init__(self, finder: Finder) -> None:
        assert finder.reach is not None
        self._finder = finder
        self._reach = finder.reach
        # The last character that has left, perhaps a boundary of a word, and what has not.
        self._text = ""
        self._begin = 0
        self._searched = 0
        self._space = 0
        self._is_open = False

    def add(self, text: str) -> str:
        if self._is_open:
            return ""
        self._text += text
        if (until := self._until()) <= self._begin:
            return ""
        shown, end = list[str](), self._begin
        for place in self._finder.places(self._text, self._begin):
            if place.begin >= until:
                break
            if place.end > place.begin:
                shown += [self._text[end : place.begin], mark(place.end - place.begin)]
                end = place.end
            until = max(until, place.next)
        shown.append(self._text[end:until])
        self._text, self._begin = self._text[until - 1 :], 1
        self._searched = max(self._searched - until + 1, 1)
        self._space = 0
        return "".join(shown)

    def _until(self) -> int:
        """The end of the text in which whatever begins there has ended: the last space before what
        a match with spaces may still reach."""
        reached = len(self._text) - self._reach
        for found in SPACE.finditer(self._text, self._searched, max(reached, 0)):
            self._space = found.end()
        self._searched = max(self._searched, reached)
        opening = self._finder.opening
        if self._space <= self._begin or opening is None:
            return self._space
        if (found := opening.search(self._text, self._begin)) is None:
            return self._space
        self._is_open = True
        return min(self._space, int(found.start()))

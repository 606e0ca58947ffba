"""The parts of an answer that a listener gets while a model writes it, without any secret."""

import re

from podium_kit.text import whole_characters
from tool_adapters.adapter import AnswerListener, ModelFunctionCall
from tool_adapters.used_secrets import UsedSecrets

HIGH_SURROGATE = re.compile("[\ud800-\udbff]")


class AnswerParts:
    """Passes an answer on as it is written, except for an end in which a secret may begin."""

    def __init__(self, listener: AnswerListener, secrets: UsedSecrets) -> None:
        self._listener = listener
        self._secrets = secrets
        self._text = _HeldText(secrets)
        self._arguments: dict[int, _HeldText] = {}
        self._heads: dict[int, ModelFunctionCall] = {}

    def write(self, text: str) -> None:
        if ready := self._text.add(text):
            self._listener.wrote(ready)

    def call(self, index: int, head: ModelFunctionCall, arguments: str) -> None:
        if self._heads.get(index) != head:
            self._heads[index] = head
            self._arguments.setdefault(index, _HeldText(self._secrets))
            id, name = (self._secrets.redact(whole_characters(it)) for it in (head.id, head.name))
            self._listener.called(index, ModelFunctionCall(id, name, ""))
        self._called(index, self._arguments[index].add(arguments))

    def end(self) -> None:
        """Passes on what was withheld: nothing follows."""
        if rest := self._text.rest():
            self._listener.wrote(rest)
        for index, held in self._arguments.items():
            self._called(index, held.rest())

    def _called(self, index: int, arguments: str) -> None:
        if arguments:
            self._listener.called(index, ModelFunctionCall("", "", arguments))


class _HeldText:
    """Text whose end is withheld as long as it may be the beginning of a secret."""

    def __init__(self, secrets: UsedSecrets) -> None:
        self._secrets = secrets
        self._held = ""

    def add(self, text: str) -> str:
        """Returns what may be passed on by now."""
        text = self._held + text
        # Half of a character, whose other half follows.
        whole = text[:-1] if HIGH_SURROGATE.match(text[-1:]) else text
        shown = self._secrets.redact(whole_characters(whole))
        end = len(shown) - self._secrets.may_begin(shown)
        self._held = shown[end:] + text[len(whole) :]
        return shown[:end]

    def rest(self) -> str:
        shown, self._held = self._secrets.redact(whole_characters(self._held)), ""
        return shown

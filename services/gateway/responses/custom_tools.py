"""Tools of type custom: functions of the client whose only argument is a text."""

import json
from collections.abc import Iterable, Iterator
from typing import Literal

from gateway.chat.client_tools import CUSTOM_PARAMETERS, TextFunction
from gateway.models import ClientTool


class CustomTool(TextFunction):
    """A tool of the client that takes a text."""

    type: Literal["custom"]


def ignored_formats(tools: Iterable[object] | None) -> Iterator[str]:
    """Grammars of texts, which no model is held to, by their places."""
    for at, tool in enumerate(tools or ()):
        if isinstance(tool, CustomTool) and (kind := tool.ignored_format()):
            yield f"tools[{at}].format:{kind}"


def custom_names(offered: Iterable[ClientTool]) -> frozenset[str]:
    parameters = json.dumps(CUSTOM_PARAMETERS)
    return frozenset(tool.name for tool in offered if tool.parameters_schema == parameters)

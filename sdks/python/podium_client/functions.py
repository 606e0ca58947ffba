"""Python functions that an episode may call."""

import inspect
import json
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import to_json

from podium_client.models import ClientResult, ClientTool, ToolCall

UNNAMED = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
)


class Function:
    """A function; its name, docstring and annotations are what the orchestrator sees of it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.name = function.__name__
        self._arguments = _arguments_of(function)

    def offered(self) -> ClientTool:
        """Returns the function's declaration for an episode."""
        return ClientTool(
            name=self.name,
            description=inspect.getdoc(self._function) or "",
            parameters_json_schema=json.dumps(self._arguments.model_json_schema()),
        )

    def call(self, call: ToolCall) -> ClientResult:
        """Calls the function. The orchestrator gets an exception as the result, and may try
        something else.
        """
        try:
            return _result(call, self._function(**self._parsed(call)))
        except Exception as error:  # noqa: BLE001 whatever a function raises is its result
            return _failure(call, error)

    async def acall(self, call: ToolCall) -> ClientResult:
        """Calls the function as `call` does; it may be a coroutine function."""
        try:
            given = self._function(**self._parsed(call))
            return _result(call, await given if inspect.isawaitable(given) else given)
        except Exception as error:  # noqa: BLE001 whatever a function raises is its result
            return _failure(call, error)

    def _parsed(self, call: ToolCall) -> dict[str, Any]:
        parsed = self._arguments.model_validate_json(call.arguments_json or "{}")
        return {name: getattr(parsed, name) for name in type(parsed).model_fields}


class Functions:
    """The functions of one episode, by name."""

    def __init__(self, functions: tuple[Callable[..., Any], ...]) -> None:
        self._by_name = {each.__name__: Function(each) for each in functions}

    def offered(self) -> list[ClientTool]:
        return [function.offered() for function in self._by_name.values()]

    def call(self, call: ToolCall) -> ClientResult:
        found = self._by_name.get(call.tool_name)
        return found.call(call) if found else _unknown(call)

    async def acall(self, call: ToolCall) -> ClientResult:
        found = self._by_name.get(call.tool_name)
        return await found.acall(call) if found else _unknown(call)


def _arguments_of(function: Callable[..., Any]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.kind in UNNAMED:
            raise TypeError(
                f"{function.__name__} takes {parameter}: an orchestrator can only name arguments"
            )
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (annotation, default)
    return create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)


def _result(call: ToolCall, given: Any) -> ClientResult:
    content = given if isinstance(given, str) else to_json(given).decode()
    return ClientResult(call_index=call.index, content=content)


def _failure(call: ToolCall, error: Exception) -> ClientResult:
    if isinstance(error, ValidationError):
        wrong = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        return ClientResult(call_index=call.index, error=f"wrong arguments: {'; '.join(wrong)}")
    return ClientResult(call_index=call.index, error=f"{type(error).__name__}: {error}")


def _unknown(call: ToolCall) -> ClientResult:
    return ClientResult(call_index=call.index, error=f"there is no function {call.tool_name} here")

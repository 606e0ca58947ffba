"""A bundled function: a typed callable whose signature is also its JSON Schema."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError, validate_call
from pydantic_core import ErrorDetails

from tool_adapters.functions.errors import invalid

JsonValue = dict[str, Any] | list[Any] | str | int | float | bool | None


@dataclass(frozen=True)
class Function:
    """A callable the table lists. Blocking: callers run it off the event loop."""

    call: Callable[..., JsonValue]

    @property
    def name(self) -> str:
        """Name in the table and in FunctionConnection.function."""
        return self.call.__name__

    @cached_property
    def parameters_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, derived from the signature."""
        schema = TypeAdapter[Any](cast(Any, self.call)).json_schema()
        for parameter in schema["properties"].values():
            parameter.pop("title", None)
        return schema

    def __call__(self, arguments: Mapping[str, Any]) -> JsonValue:
        """The answer as JSON. Raises FunctionFailed."""
        try:
            return self._validated(**arguments)
        except ValidationError as error:
            raise invalid(self._explain(error)) from error

    @cached_property
    def _validated(self) -> Callable[..., JsonValue]:
        return validate_call(self.call)

    def _explain(self, error: ValidationError) -> str:
        return "; ".join(self._explain_fault(fault) for fault in error.errors())

    def _explain_fault(self, fault: ErrorDetails) -> str:
        name = str(fault["loc"][0])
        parameter = self.parameters_schema["properties"].get(name)
        if parameter is None:
            known = ", ".join(self.parameters_schema["properties"])
            return f"{name}: {fault['msg']}; the arguments are {known}"
        return f"{name}: {fault['msg']}; expected: {parameter.get('description', parameter)}"

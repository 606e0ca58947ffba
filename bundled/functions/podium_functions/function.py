"""A bundled function: a typed callable whose signature is also its JSON Schema."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError, validate_call
from pydantic_core import ErrorDetails

from podium_functions.errors import invalid


@dataclass(frozen=True)
class Function:
    """A callable of a module. Blocking: callers run it off the event loop.

    One that is asynchronous gives what is to be awaited.
    """

    name: str
    """Name in the table and in FunctionConnection.function."""
    module: str

    @cached_property
    def call(self) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(import_module(self.module), self.name)
        return found

    def load(self) -> None:
        """Imports what it needs, which takes longer than most calls."""
        self._validated  # noqa: B018

    @cached_property
    def parameters_schema(self) -> dict[str, Any]:
        schema = TypeAdapter[Any](cast(Any, self.call)).json_schema()
        for parameter in schema["properties"].values():
            parameter.pop("title", None)
        return schema

    def __call__(self, arguments: Mapping[str, Any]) -> Any:
        try:
            return self._validated(**arguments)
        except ValidationError as error:
            raise invalid(self._explain(error)) from error

    @cached_property
    def _validated(self) -> Callable[..., Any]:
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

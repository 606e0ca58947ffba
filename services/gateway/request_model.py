"""What requests that are no RPC are read into."""

from typing import Any, Self

from pydantic import BaseModel, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import PydanticCustomError

# Each takes a kilobyte and more to write down, and only the first is answered.
ERRORS_MAX = 100


class RequestModel(BaseModel):
    """A body whose faults are written down only when they are few."""

    @model_validator(mode="wrap")
    @classmethod
    def _few_errors(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(given)
        except ValidationError as error:
            if error.error_count() <= ERRORS_MAX:
                raise
        raise PydanticCustomError(
            "too_many_errors",
            "more than {most} values are not what the documentation asks for;"
            " send one of them to see why",
            {"most": ERRORS_MAX},
        )

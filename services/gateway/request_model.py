from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
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


def _in_utc(given: datetime) -> datetime:
    try:
        return given.astimezone(UTC) if given.tzinfo else given
    except OverflowError as error:
        raise ValueError("in UTC it is not in the years 1 to 9999") from error


# The database keeps times in UTC, and no others.
Time = Annotated[datetime, AfterValidator(_in_utc)]

# Libraries write what is unset as null, which OpenAI's API takes for false.
Flag = Annotated[bool, BeforeValidator(lambda given: False if given is None else given)]
# True unless it is switched off, and true as null, too.
OnByDefault = Annotated[bool, BeforeValidator(lambda given: True if given is None else given)]

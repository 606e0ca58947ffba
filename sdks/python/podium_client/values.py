"""Decimals and durations in JSON, and the base of all models."""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

SECONDS = re.compile(r"(-?)(\d+)(?:\.(\d{1,9}))?s")


class Model(BaseModel):
    """The base of the API's models. Fields that a newer platform adds are kept."""

    model_config = ConfigDict(extra="allow", protected_namespaces=(), populate_by_name=True)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON for the API, without fields at their defaults."""
        return self.model_dump(mode="json", exclude_defaults=True, by_alias=True)


def _seconds(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    if (found := SECONDS.fullmatch(given)) is None:
        return given
    sign, whole, fraction = found.groups()
    microseconds = int((fraction or "").ljust(9, "0")[:6])
    length = timedelta(seconds=int(whole), microseconds=microseconds)
    return -length if sign else length


def _seconds_text(length: timedelta) -> str:
    sign, length = ("-", -length) if length < timedelta() else ("", length)
    whole, microseconds = divmod(length, timedelta(seconds=1))
    return f"{sign}{whole}.{microseconds // timedelta(microseconds=1):06d}s"


# Never an exponent: the API rejects one.
Amount = Annotated[Decimal, PlainSerializer(lambda amount: f"{amount:f}", return_type=str)]
# In the API's JSON a text like "1.5s"; nanoseconds are cut to microseconds.
Duration = Annotated[
    timedelta,
    BeforeValidator(_seconds),
    PlainSerializer(_seconds_text, return_type=str, when_used="json"),
]

"""Options of a call beside its arguments: `podium` in its `_meta`."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.errors import MalformedRequest
from gateway.request_model import RequestModel

NAME = "podium"
M = TypeVar("M", bound=BaseModel)


class KeyedOptions(RequestModel):
    model_config = ConfigDict(extra="forbid")

    idempotency_key: str | None = Field(
        None, description="names the call: the same again finds it instead of paying twice"
    )


class TaskOptions(KeyedOptions):
    stream_answer: bool = Field(
        False, description="progress shows the answer while it is written as well"
    )


class CallOptions(KeyedOptions):
    policy: str = Field("", description="preference policy; the tenant's active one")
    budget_usd: Decimal | None = Field(
        None, gt=0, max_digits=28, decimal_places=12, description="most money, in US dollars"
    )
    labels: dict[str, str] = Field({}, description="team and agent narrow those of the key")


def options(kind: type[M], meta: Mapping[str, Any] | None) -> M:
    return checked(kind, (meta or {}).get(NAME, {}), f"_meta.{NAME}.")


def checked(kind: type[M], given: Any, prefix: str = "") -> M:
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise MalformedRequest(f"{prefix}{where}: {first['msg']}") from error

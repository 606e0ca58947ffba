from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from gateway.models import Outcome

StopText = Annotated[str, Field(min_length=1)]


def _as_texts(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


StopTexts = Annotated[list[StopText], BeforeValidator(_as_texts), Field(max_length=4)]


def stopped(outcome: Outcome, stops: Sequence[str]) -> Outcome:
    """The outcome with its answer cut before the first of the texts.

    Where two begin at one place, the longer one is what it was cut at.
    """
    found = [(at, -len(stop), stop) for stop in stops if (at := outcome.answer.find(stop)) >= 0]
    if not found:
        return outcome
    at, _, stop = min(found)
    return replace(outcome, answer=outcome.answer[:at], stop_sequence=stop)

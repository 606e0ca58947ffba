"""What a language model has written so far, and what its provider has reported of it."""

from dataclasses import dataclass, field, replace

from podium_kit.characters import whole_characters
from podium_kit.metering import Dimension, Quantity, Usage, UsageSource
from tool_adapters.models import JsonObject


@dataclass
class Completion:
    """Filled while a reply streams; `reason` is "" until the model says why it stopped."""

    texts: list[str] = field(default_factory=list)
    reason: str = ""
    request_id: str = ""
    report: JsonObject = field(default_factory=dict)
    error: str = ""
    size_bytes: int = 0

    @property
    def text(self) -> str:
        """Everything written, characters that were cut in two put together."""
        return whole_characters("".join(self.texts))

    def write(self, text: object) -> None:
        """Raises TypeError for what no API writes."""
        self.size_bytes += len(_string(text).encode(errors="surrogatepass"))
        self.texts.append(_string(text))

    def end(self, reason: object) -> None:
        """Why the model stopped, once it says so. Raises TypeError likewise."""
        self.reason = _string(reason or "") or self.reason


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of a string")
    return value


def usage_of_cut(reported: Usage | None, estimate: Usage) -> Usage:
    """Usage of a completion that broke off: the report as far as it goes, else an estimate.

    Reports made at the start of a stream count the prompt, but not what follows.
    """
    if reported is None:
        return estimate
    output = Dimension.OUTPUT_TEXT
    written = max(reported.get(output), estimate.get(output))
    others = tuple(one for one in reported.quantities if one.dimension != output)
    quantities = (*others, Quantity(output, written)) if written else others
    return replace(reported, quantities=quantities, source=UsageSource.ESTIMATED)

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated

import typer
from google.protobuf.descriptor import EnumDescriptor

from podium.orchestrator.v1 import orchestrator_service_pb2
from podium_kit.client.errors import UsageError
from podium_kit.money import InvalidMoney, Money
from podium_kit.wire import InvalidField, enum_name
from podium_kit.wire.values import LENGTH, parse_length

PROMPT_MODES = {
    "": orchestrator_service_pb2.PROMPT_MODE_UNSPECIFIED,
    "stateless": orchestrator_service_pb2.PROMPT_MODE_STATELESS,
    "chat": orchestrator_service_pb2.PROMPT_MODE_CHAT,
    "template": orchestrator_service_pb2.PROMPT_MODE_TEMPLATE,
}
Since = Annotated[
    str,
    typer.Option(help="From then on: 90m, 24h or 7d ago, or a time like 2026-10-31T09:30."),
]
Judges = Annotated[
    list[str] | None,
    typer.Option(
        "--judge",
        help="Tool of kind llm, or TOOL/ALIAS, for answers in words; of several, most decide.",
    ),
]
OwnFamily = Annotated[
    bool, typer.Option("--allow-own-family", help="Also judges of the judged models' own family.")
]
PromptMode = Annotated[str, typer.Option(help="stateless, chat or template.")]

LONGEST_S = 36_500 * 86_400.0


def parse_seconds(text: str) -> float:
    """Seconds of "90", "90s", "5m", "1h" or "7d". Raises UsageError."""
    try:
        seconds = float(parse_length(text))
    except ValueError as error:
        raise UsageError(str(error), "write it like 90s, 5m or 1h") from error
    if seconds > LONGEST_S:
        raise UsageError(f"{text!r} is too long", "give at most 36500d, which are 100 years")
    return seconds


def parse_time(text: str) -> str:
    """RFC 3339 of "2026-03-01" or "2026-03-01T14:00"; without a zone it is local time.

    Raises UsageError. An empty text stays empty: unset.
    """
    if not text:
        return ""
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{text!r} is not a time", "write it like 2026-03-01T14:00, or as a length like 7d"
        ) from error
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def parse_start(text: str) -> str:
    """RFC 3339 of a time, or of so long ago, like "7d". Raises UsageError.

    An empty text stays empty: unset.
    """
    match = LENGTH.fullmatch(text.strip().lower())
    # Digits alone may be a day: 20261031.
    if not match or not match[2]:
        return parse_time(text)
    start = datetime.now(UTC) - timedelta(seconds=parse_seconds(text))
    return parse_time(start.isoformat())


def parse_end(text: str) -> str:
    """RFC 3339 of a time, or of so long from now, like "30d". Raises UsageError.

    An empty text stays empty: unset.
    """
    match = LENGTH.fullmatch(text.strip().lower())
    if not match or not match[2]:
        return parse_time(text)
    end = datetime.now(UTC) + timedelta(seconds=parse_seconds(text))
    return parse_time(end.isoformat())


def parse_money(text: str, *, zero_allowed: bool = False) -> Money:
    """Money of "0.05" (US dollars), "0.05 EUR" or "0.05EUR". Raises UsageError."""
    text = text.strip().removeprefix("$")
    written = re.fullmatch(r"(.*[0-9])\s*([A-Za-z]{3})", text, re.DOTALL)
    amount, currency = written.groups() if written else (text, "USD")
    try:
        money = Money.parse(amount, currency.upper())
    except InvalidMoney as error:
        raise UsageError(error.message, "write it like 0.05 or '0.05 EUR'") from error
    if money.amount < 0 or not (money.amount or zero_allowed):
        raise UsageError(f"an amount of {amount} allows nothing", "give more than 0")
    return money


def parse_share(text: str) -> Decimal:
    """The share that "80%" is. Raises UsageError."""
    percent = text.removesuffix("%").strip()
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,2})?", percent, re.ASCII):
        raise UsageError(f"{text!r} is no share", "write it like 80% or 99.5%")
    share = Decimal(percent) / 100
    if not 0 < share <= 1:
        raise UsageError(f"{text!r} is no share of a limit", "give more than 0% and at most 100%")
    return share


def month_bounds(text: str) -> tuple[datetime, datetime]:
    """First instants of "2026-10" and of the month after, in UTC. Raises UsageError."""
    match = re.fullmatch(r"(?!9999)([1-9]\d{3})-(0[1-9]|1[0-2])", text, re.ASCII)
    if not match:
        raise UsageError(f"{text!r} is no month", "write it like 2026-10")
    year, month = int(match[1]), int(match[2])
    after = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return datetime(year, month, 1, tzinfo=UTC), after


def parse_enum(word: str, enum: EnumDescriptor, option: str) -> str:
    try:
        return enum_name(word, enum, option)
    except InvalidField as error:
        raise UsageError(error.problem, error.fix) from error


def parse_labels(pairs: Iterable[str]) -> dict[str, str]:
    labels = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise UsageError(f"label {pair!r} has no value", "write it like team=search")
        labels[name] = value
    return labels


def parse_prompt_mode(word: str) -> orchestrator_service_pb2.PromptMode.ValueType:
    if word not in PROMPT_MODES:
        raise UsageError(f"there is no prompt mode {word!r}", "use stateless, chat or template")
    return PROMPT_MODES[word]

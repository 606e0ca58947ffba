"""Headers of HTTP: which a tool may send, and how long one asks to wait (RFC 9110).

Those that frame a message, or that bind one connection, are ours to write: a server that reads the
end of a request elsewhere than we wrote it takes what follows for another request.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

CONNECTION_HEADERS = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
RETRY_AFTER_MAX_S = 86_400.0
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def belongs_to_connection(name: str) -> bool:
    """True for a header that the platform alone writes; gateways read `_` as `-`."""
    plain = name.strip().lower().replace("_", "-")
    return plain in CONNECTION_HEADERS or plain.startswith("proxy-")


def header_problem(name: str, value: str = "") -> str:
    """The reason why no tool may send the header; "" where it may."""
    if belongs_to_connection(name):
        return f"{name} belongs to the connection, which the platform writes; leave it out"
    if not _TOKEN.fullmatch(name):
        return f"{name!r} is no name of a header; use letters, digits and dashes"
    if _CONTROL.search(value):
        return f"the value of {name} holds a line break or another control character; use one line"
    return ""


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait (section 10.2.3); None when it does not say.

    Header names are in lower case. OpenAI adds the same in milliseconds.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError):
            return min(max(0.0, float(headers.get(name, "")) * unit), RETRY_AFTER_MAX_S)
    with suppress(ValueError, TypeError, OverflowError):
        moment = parsedate_to_datetime(headers.get("retry-after", "")).replace(tzinfo=UTC)
        return min(max(0.0, (moment - datetime.now(UTC)).total_seconds()), RETRY_AFTER_MAX_S)
    return None

"""Headers that a tool may send (RFC 9110, sections 5 and 7).

Those that frame a message, or that bind one connection, are ours to write: a server that reads the
end of a request elsewhere than we wrote it takes what follows for another request.
"""

import re

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

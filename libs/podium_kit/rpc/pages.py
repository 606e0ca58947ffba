import base64
import binascii
import json

from podium_kit.rpc.errors import InvalidArgument
from podium_kit.text import storable

# A page ends before the row that would make it larger, whatever was asked for; one row always fits.
PAGE_BYTES_MAX = 4 * 1024 * 1024


class InvalidPageToken(InvalidArgument):
    def __init__(self) -> None:
        super().__init__("page_token did not come from this list; leave it out to start over")


def encode_page_token(values: dict[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def decode_page_token(token: str) -> dict[str, str]:
    """Decodes a page token; empty for the first page. Raises InvalidPageToken."""
    if not token:
        return {}
    try:
        values = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise InvalidPageToken from error
    if not isinstance(values, dict):
        raise InvalidPageToken
    texts = {str(key): str(value) for key, value in values.items()}
    if any(text != storable(text) for text in texts.values()):
        raise InvalidPageToken
    return texts


def token_number(token: dict[str, str], name: str, default: int) -> int:
    text = token.get(name, str(default))
    if not text.isdecimal() or len(text) > 18:
        raise InvalidPageToken
    return int(text)


def page_size(requested: int, default: int, maximum: int) -> int:
    if requested < 0:
        raise InvalidArgument(f"page_size is {requested}; give 1 to {maximum}, or 0 for {default}")
    return min(requested or default, maximum)

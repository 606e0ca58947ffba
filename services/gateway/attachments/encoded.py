"""Files as requests encode them: data: URLs and base64. Nothing is fetched for a request."""

import base64
import re
from binascii import Error as BadBase64

from gateway.attachments.sent_file import InvalidFile, SentFile

# RFC 2397; parameters of the type ask for nothing here.
DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]*)*?;base64,", re.IGNORECASE)
BEGINNING = 300


def from_url(url: str, noun: str, name: str = "") -> SentFile:
    """The file in a data: URL; the noun is "image" or "file". Raises InvalidFile."""
    found = DATA_URL.match(url[:BEGINNING])
    if found is None:
        raise fetches_nothing(noun)
    return from_base64(url[found.end() :], found[1].strip().lower(), noun, name)


def from_url_or_base64(text: str, noun: str, name: str = "") -> SentFile:
    """Likewise; what is no URL is base64 of a type that its bytes tell."""
    if text[:5].lower() == "data:" or "://" in text[:BEGINNING]:
        return from_url(text, noun, name)
    return from_base64(text, "", noun, name)


def from_base64(text: str, media_type: str, noun: str, name: str = "") -> SentFile:
    try:
        data = base64.b64decode(text, validate=True)
    except (BadBase64, ValueError) as error:
        raise InvalidFile(
            f"invalid_base64_{noun}",
            f"the {noun} is no base64 (RFC 4648, section 4, without line breaks); encode its bytes"
            " once, whole",
        ) from error
    return SentFile.of(data, media_type, name)


def fetches_nothing(noun: str) -> InvalidFile:
    return InvalidFile(
        f"invalid_{noun}_url",
        "nothing is fetched from the network for a request; send the bytes in it, as base64 or as a"
        " data: URL like data:image/png;base64,...",
    )


def reject_id(noun: str) -> InvalidFile:
    return InvalidFile(
        f"unsupported_{noun}_id",
        f"no files are uploaded here, so there is none of an id; send the {noun}'s bytes in the"
        " request",
    )

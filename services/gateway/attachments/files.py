"""Files as requests encode them: data: URLs and base64. Nothing is fetched for a request."""

import base64
import hashlib
import re
import warnings
from binascii import Error as BadBase64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO

from gateway.models import ListOrder, OrderFile
from podium_kit.attachments import (
    FILES_MAX,
    MEDIA_TYPES,
    PDF_TYPE,
    TOTAL_BYTES_MAX,
    AttachedFile,
    Attachment,
    media_type_of,
)
from podium_kit.rpc.errors import DomainError, InvalidArgument

PIXELS_MAX = 50_000_000
NAME_CHARACTERS_MAX = 100
KILOBYTE, MEGABYTE = 1_000, 1_000_000
# Browsers and old programs say it so.
SAME = {"image/jpg": "image/jpeg", "application/x-pdf": PDF_TYPE}
UNKNOWN = {"", "application/octet-stream"}


class InvalidFile(ValueError):
    """A part whose file cannot be taken: a code as OpenAI spells it, the cause and the fix."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code


@dataclass
class SentFile:
    """A file of a request. Its placeholder and its place are known once all of that is read."""

    media_type: str
    data: bytes
    name: str
    about: str
    place: str = ""
    placeholder: str = ""

    @classmethod
    def of(cls, data: bytes, declared: str, name: str = "") -> "SentFile":
        noun = "image" if declared.startswith("image/") else "file"
        if not data:
            raise InvalidFile(f"empty_{noun}", f"the {noun} is empty; send its bytes")
        if len(data) > TOTAL_BYTES_MAX:
            most = TOTAL_BYTES_MAX >> 20
            words = f"the {noun} is over {most} MiB; make it smaller"
            raise InvalidFile(f"{noun}_too_large", words)
        media_type = _media_type(data, SAME.get(declared, declared))
        name = _plain(name)
        facts = [name or media_type] if media_type == PDF_TYPE else [media_type, _size(data)]
        about = ", ".join([*facts, _bytes(len(data))])
        return cls(media_type, data, name, about)

    @property
    def noun(self) -> str:
        return "PDF" if self.media_type == PDF_TYPE else "image"

    def attached(self) -> AttachedFile:
        digest = hashlib.sha256(self.data).hexdigest()
        attachment = Attachment(
            self.placeholder, self.media_type, digest, len(self.data), self.name
        )
        return AttachedFile(attachment, self.data)


def _media_type(data: bytes, declared: str) -> str:
    found, known = media_type_of(data), ", ".join(MEDIA_TYPES)
    if declared not in UNKNOWN and declared not in MEDIA_TYPES:
        raise InvalidFile(
            "unsupported_media_type", f"{declared[:100]} is not taken; send one of {known}"
        )
    if not found:
        raise InvalidFile("invalid_file_format", f"the bytes are none of {known}; send one of them")
    if declared not in UNKNOWN and found != declared:
        raise InvalidFile(
            "invalid_file_format", f"{declared} is declared, but the bytes are {found}; name it so"
        )
    return found


def _size(data: bytes) -> str:
    """Width and height in pixels, from the header alone. Raises InvalidFile."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            # It warns of what is rejected below.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP")) as image:
                width, height = image.size
    except Image.DecompressionBombError as error:
        raise _too_many_pixels() from error
    except (OSError, ValueError, SyntaxError) as error:
        raise InvalidFile(
            "invalid_image_format", "the image cannot be read; send a whole file"
        ) from error
    if width * height > PIXELS_MAX:
        raise _too_many_pixels()
    return f"{width}x{height}"


def _too_many_pixels() -> InvalidFile:
    return InvalidFile(
        "image_too_large", f"the image has over {PIXELS_MAX:,} pixels; make it smaller"
    )


def _bytes(count: int) -> str:
    if count < MEGABYTE:
        return f"{max(round(count / KILOBYTE), 1)} kB"
    return f"{count / MEGABYTE:.1f} MB"


def _plain(name: str) -> str:
    """Removes what could end the placeholder's line."""
    return re.sub(r"[^\w .()+-]", "_", name.replace("\\", "/").rpartition("/")[2])[
        :NAME_CHARACTERS_MAX
    ].strip()


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


class TooManyFiles(InvalidArgument):
    """More files, or larger ones together, than a request may have."""


def placed(files: Sequence[SentFile], before: Sequence[OrderFile] = ()) -> tuple[OrderFile, ...]:
    """Places the files of earlier requests, then these, which get placeholders. Raises
    TooManyFiles.
    """
    found = list(before)
    for file in files:
        file.placeholder = f"[{file.noun} {len(found) + 1}: {file.about}]"
        found.append(OrderFile(file.attached(), file.place))
    if len(found) > FILES_MAX:
        raise TooManyFiles(
            f"{len(found)} images and files are more than {FILES_MAX}, those of earlier messages"
            " included; leave some out",
            param=found[FILES_MAX].param,
        )
    size_bytes = 0
    for each in found:
        size_bytes += each.file.attachment.size_bytes
        if size_bytes > TOTAL_BYTES_MAX:
            raise TooManyFiles(
                f"the images and files are over {TOTAL_BYTES_MAX >> 20} MiB together; make them"
                " smaller, or leave some out",
                param=each.param,
            )
    return tuple(found)


@contextmanager
def file_named(order: ListOrder) -> Iterator[None]:
    """Says of an error about one of the order's files in which parameter it is."""
    try:
        yield
    except DomainError as error:
        index = error.metadata.get("attachment")
        if index is not None:
            error.metadata["param"] = order.files[int(index)].param
        raise

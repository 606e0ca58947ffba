import hashlib
import re
import warnings
from dataclasses import dataclass
from io import BytesIO

from podium_kit.attachments import (
    MEDIA_TYPES,
    PDF_TYPE,
    TOTAL_BYTES_MAX,
    AttachedFile,
    Attachment,
    media_type_of,
)

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

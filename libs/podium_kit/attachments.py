from dataclasses import dataclass
from enum import StrEnum


class MediaKind(StrEnum):
    """The kinds of content besides text that a model may read; see podium.common.v1.MediaKind."""

    IMAGE = "image"
    PDF = "pdf"


PDF_TYPE = "application/pdf"
MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", PDF_TYPE)
# What files of these types begin with; the four bytes of a RIFF file's size are left out.
BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"RIFFWEBP": "image/webp",
    b"%PDF-": PDF_TYPE,
}
# Of one request. Providers take requests of 32 MB (Anthropic) or 50 MB (OpenAI), encoded.
FILES_MAX = 20
TOTAL_BYTES_MAX = 20 * 1024 * 1024
# Providers scale large images down, to at most some 1,600 tokens (Anthropic), 1,100 (OpenAI, high
# detail) or a few thousand (their newest models).
IMAGE_TOKENS = 4_000
# A page of text, with its picture, is some 3,000 tokens. A few kilobytes may be thousands of pages:
# this is for a file that could not be measured, and no model reads more than the other.
PDF_TOKENS = 200_000
PDF_TOKENS_MAX = 2_000_000


@dataclass(frozen=True)
class Attachment:
    """A file without its bytes; `digest` is their hexadecimal SHA-256, `placeholder` its line in
    the text. `tokens` are the most that we measured; 0 where we have not, or could not."""

    placeholder: str
    media_type: str
    digest: str
    size_bytes: int
    name: str = ""
    tokens: int = 0

    @property
    def kind(self) -> MediaKind:
        return MediaKind.PDF if self.media_type == PDF_TYPE else MediaKind.IMAGE

    @property
    def estimated_tokens(self) -> int:
        """The most: what a hold covers before the provider has counted."""
        if self.kind is MediaKind.IMAGE:
            return IMAGE_TOKENS
        return min(self.tokens, PDF_TOKENS_MAX) or PDF_TOKENS


@dataclass(frozen=True)
class AttachedFile:
    attachment: Attachment
    data: bytes


def media_type_of(data: bytes) -> str:
    """Returns the media type that the first bytes state; "" for a type that no model reads."""
    beginning = data[:4] + data[8:12] if data.startswith(b"RIFF") else data[:8]
    found = (kind for start, kind in BEGINNINGS.items() if beginning.startswith(start))
    return next(found, "")

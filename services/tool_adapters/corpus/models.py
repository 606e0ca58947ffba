import hashlib
import json
import re
from dataclasses import dataclass
from enum import StrEnum

from podium_kit.rpc.errors import InvalidArgument
from tool_adapters.corpus.errors import InvalidCorpusName, InvalidDocument

CONTENT_CHARACTERS_MAX = 1_000_000
DATA_BYTES_MAX = 10 * 1024 * 1024
ID_CHARACTERS_MAX = 200
SHARED_OWNER = ""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class MediaType(StrEnum):
    PLAIN = "text/plain"
    MARKDOWN = "text/markdown"
    HTML = "text/html"
    PDF = "application/pdf"


@dataclass(frozen=True)
class CorpusKey:
    """A corpus: its owner is a tenant, or SHARED_OWNER."""

    owner: str
    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidCorpusName(self.name)

    @property
    def shared(self) -> bool:
        return self.owner == SHARED_OWNER


@dataclass(frozen=True)
class Document:
    """The text is in `content`, or the file of a PDF in `data`."""

    id: str
    title: str
    content: str
    media_type: MediaType
    uri: str
    data: bytes = b""

    def __post_init__(self) -> None:
        if not 0 < len(self.id) <= ID_CHARACTERS_MAX:
            raise InvalidArgument(f"a document id has 1 to {ID_CHARACTERS_MAX} characters")
        if self.media_type is MediaType.PDF:
            self._check_data()
        else:
            self._check_content()
        if any("\0" in text for text in (self.id, self.title, self.content, self.uri)):
            raise InvalidDocument(self.id, "holds a NUL character; remove it")

    def _check_data(self) -> None:
        if not self.data or self.content:
            raise InvalidDocument(self.id, "is a PDF; send its file as data, and no content")
        if len(self.data) > DATA_BYTES_MAX:
            raise InvalidDocument(
                self.id, f"is larger than {DATA_BYTES_MAX // 2**20} MiB; split it"
            )

    def _check_content(self) -> None:
        if self.data:
            raise InvalidDocument(self.id, f"has data, which only a {MediaType.PDF} has")
        if not self.content.strip():
            raise InvalidDocument(self.id, "is empty; give it content")
        if len(self.content) > CONTENT_CHARACTERS_MAX:
            raise InvalidDocument(
                self.id, f"is longer than {CONTENT_CHARACTERS_MAX} characters; split it"
            )

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of everything the owner wrote."""
        fields = [self.title, self.content, self.media_type, self.uri]
        return hashlib.sha256(json.dumps(fields).encode() + self.data).hexdigest()


@dataclass(frozen=True)
class Piece:
    """A part of a document's text and where it stands.

    `section` holds the headings above it, `page` counts from 1 (0: no pages), `start` and
    `end` are characters of a text or Markdown document (both 0: no such range).
    """

    content: str
    section: str = ""
    page: int = 0
    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class Passage:
    """A piece of a named document, found as a whole; `vector` is float32 of length 1, or empty."""

    document_id: str
    title: str
    uri: str
    piece: Piece
    vector: bytes = b""

    @property
    def content(self) -> str:
        return self.piece.content

    @property
    def searched(self) -> str:
        """The searched text, with the subject: passages seldom repeat it."""
        return "\n".join(filter(None, (self.title, self.piece.section, self.piece.content)))


@dataclass(frozen=True)
class Hit:
    passage: Passage
    score: float


@dataclass(frozen=True)
class CorpusSummary:
    key: CorpusKey
    document_count: int
    passage_count: int


@dataclass(frozen=True)
class DocumentSummary:
    id: str
    title: str
    uri: str
    media_type: str
    passage_count: int

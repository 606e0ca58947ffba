"""Documents, passages and hits."""

import hashlib
import json
import re
from dataclasses import dataclass
from enum import StrEnum

from rpckit.errors import InvalidArgument
from tool_adapters.corpus.errors import InvalidCorpusName, InvalidDocument

CONTENT_CHARACTERS_MAX = 1_000_000
ID_CHARACTERS_MAX = 200
SHARED_OWNER = ""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class MediaType(StrEnum):
    """What the content of a document may be."""

    PLAIN = "text/plain"
    MARKDOWN = "text/markdown"
    HTML = "text/html"


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
        """Whether every tenant can search it."""
        return self.owner == SHARED_OWNER


@dataclass(frozen=True)
class Document:
    """A document as its owner wrote it."""

    id: str
    title: str
    content: str
    media_type: MediaType
    uri: str

    def __post_init__(self) -> None:
        if not 0 < len(self.id) <= ID_CHARACTERS_MAX:
            raise InvalidArgument(f"a document id has 1 to {ID_CHARACTERS_MAX} characters")
        if not self.content.strip():
            raise InvalidDocument(self.id, "is empty; give it content")
        if len(self.content) > CONTENT_CHARACTERS_MAX:
            raise InvalidDocument(
                self.id, f"is longer than {CONTENT_CHARACTERS_MAX} characters; split it"
            )
        if any("\0" in text for text in (self.id, self.title, self.content, self.uri)):
            raise InvalidDocument(self.id, "holds a NUL character; remove it")

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of everything the owner wrote."""
        fields = [self.title, self.content, self.media_type, self.uri]
        return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


@dataclass(frozen=True)
class Passage:
    """A part of a document that is found as a whole."""

    document_id: str
    title: str
    uri: str
    content: str


@dataclass(frozen=True)
class Hit:
    """A passage that was found; a higher score is better."""

    passage: Passage
    score: float


@dataclass(frozen=True)
class CorpusSummary:
    """A corpus in a list."""

    key: CorpusKey
    document_count: int
    passage_count: int

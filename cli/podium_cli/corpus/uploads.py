import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium_kit.client.errors import UsageError

MEDIA_TYPES = {
    ".txt": "text/plain",
    ".text": "text/plain",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".html": "text/html",
    ".htm": "text/html",
    ".pdf": "application/pdf",
}
PDF = "application/pdf"
# The gateway takes 16 MiB, and a PDF grows by a third on its way.
BYTES_MAX = 10 * 1024 * 1024
BATCH_BYTES = 4 * 1024 * 1024
BATCH_DOCUMENTS = 20


@dataclass(frozen=True)
class Upload:
    """A file and the id it gets in the corpus: its path below what was named."""

    path: Path
    document_id: str

    def document(self, url_prefix: str = "") -> dict[str, Any]:
        media_type = MEDIA_TYPES[self.path.suffix.lower()]
        content = self._read()
        fields = {"id": self.document_id, "title": self.path.stem, "media_type": media_type}
        if url_prefix:
            fields["uri"] = url_prefix + self.document_id
        if media_type == PDF:
            return fields | {"data": base64.b64encode(content).decode()}
        return fields | {"content": self._text(content)}

    def _read(self) -> bytes:
        try:
            if self.path.stat().st_size > BYTES_MAX:
                raise UsageError(f"{self.path} is larger than {BYTES_MAX // 2**20} MiB", "split it")
            return self.path.read_bytes()
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error.strerror}") from error

    def _text(self, content: bytes) -> str:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{self.path} is no UTF-8 text", "convert it, or leave it out"
            ) from error
        if "\0" in text:
            raise UsageError(f"{self.path} is a binary file", "leave it out")
        return text


def uploads(paths: Iterable[Path]) -> list[Upload]:
    """The files, and those of known endings in the folders. Raises UsageError."""
    found: dict[str, Upload] = {}
    for upload in (upload for path in paths for upload in _below(path)):
        known = found.setdefault(upload.document_id, upload)
        if known.path.resolve() != upload.path.resolve():
            # The second would take the place of the first.
            raise UsageError(
                f"{known.path} and {upload.path} would both be document {upload.document_id}",
                "name the folder that both are in, or rename one",
            )
    if not found:
        raise UsageError("there is no file to add", f"known are {', '.join(MEDIA_TYPES)}")
    return list(found.values())


def batches(found: Iterable[Upload]) -> Iterator[list[Upload]]:
    """Splits the files into requests; a large file goes alone."""
    batch: list[Upload] = []
    size = 0
    for upload in found:
        size += upload.path.stat().st_size
        if batch and (size > BATCH_BYTES or len(batch) == BATCH_DOCUMENTS):
            yield batch
            batch, size = [], upload.path.stat().st_size
        batch.append(upload)
    yield batch


def _below(path: Path) -> Iterator[Upload]:
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and file.suffix.lower() in MEDIA_TYPES:
                yield Upload(file, file.relative_to(path).as_posix())
    elif path.suffix.lower() in MEDIA_TYPES:
        yield Upload(path, path.name)
    else:
        known = ", ".join(MEDIA_TYPES)
        raise UsageError(f"{path} is of no known kind", f"give files that end in {known}")

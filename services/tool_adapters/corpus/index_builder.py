"""A process of its own that indexes the words of one corpus: JSON in, a zip archive out.

A million different words take a minute and a gigabyte; here that is this process's, and the index
that comes of it is small. Reads {"texts": [...]}; writes the files of a BM25 index.
"""

import io
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import bm25s  # type: ignore[import-untyped]

from podium_kit.helper_processes import restrict
from tool_adapters.corpus.limits import WORDS_MAX
from tool_adapters.corpus.words import stemmed

MEMORY_BYTES_MAX = 1536 * 1024**2


def main() -> None:
    restrict(MEMORY_BYTES_MAX)
    sys.stdout.buffer.write(built(json.loads(sys.stdin.buffer.read())["texts"]))


def built(texts: list[str]) -> bytes:
    """The files; nothing where no text holds a word."""
    tokens = stemmed(texts, ids=True)
    if not tokens.vocab:
        return b""
    if len(tokens.vocab) > WORDS_MAX:
        raise MemoryError(f"over {WORDS_MAX} words")
    index = bm25s.BM25()
    index.index(tokens, show_progress=False)
    archive = io.BytesIO()
    with TemporaryDirectory() as folder, ZipFile(archive, mode="w") as files:
        index.save(folder)
        for path in sorted(Path(folder).iterdir()):
            files.write(path, path.name)
    return archive.getvalue()


def opened(archive: bytes) -> bm25s.BM25 | None:
    if not archive:
        return None
    with TemporaryDirectory() as folder:
        with ZipFile(io.BytesIO(archive)) as files:
            files.extractall(folder)
        return bm25s.BM25.load(folder)


if __name__ == "__main__":
    main()

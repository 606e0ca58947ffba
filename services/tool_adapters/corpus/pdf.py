"""The text of PDFs, page by page, read in a process that is ended when it takes too long."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process

from tool_adapters.corpus import pdf_reader
from tool_adapters.corpus.errors import InvalidDocument
from tool_adapters.corpus.models import Document, Piece

TIME_MAX_S = 60.0


async def pdf_blocks(document: Document) -> list[Piece]:
    """A block for each page that has text. Raises InvalidDocument."""
    process = await _start()
    try:
        async with asyncio.timeout(TIME_MAX_S):
            written, _ = await process.communicate(document.data)
    except TimeoutError as error:
        raise InvalidDocument(document.id, f"takes longer than {TIME_MAX_S:g} s to read") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    answer = json.loads(written) if process.returncode == 0 else {"error": pdf_reader.TOO_LARGE}
    if "error" in answer:
        raise InvalidDocument(document.id, answer["error"])
    return [Piece(*page) for page in answer["pages"]]


async def _start() -> Process:
    """With nothing of our environment but where Python's modules are."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", pdf_reader.__name__),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )

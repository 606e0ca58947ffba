import json
from functools import cache

from podium_kit.bundled_files import bundled_folder
from tool_adapters.corpus.extraction import blocks_of
from tool_adapters.corpus.index import PassageIndex
from tool_adapters.corpus.models import Document, MediaType, Passage
from tool_adapters.corpus.passages import joined

LIBRARY = bundled_folder() / "corpus" / "library.jsonl"


@cache
def library() -> PassageIndex:
    passages = []
    for line in LIBRARY.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        document = Document(
            fields["id"],
            fields["title"],
            fields["content"],
            MediaType(fields["mediaType"]),
            fields["uri"],
        )
        passages += [
            Passage(document.id, document.title, document.uri, piece)
            for piece in joined(blocks_of(document))
        ]
    return PassageIndex(passages)

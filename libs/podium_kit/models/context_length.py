"""The words with which servers of language models reject a prompt that is too long."""

import re

_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum (context|model) length|context (length|window|size)"
    r"|too many tokens|maximum number of tokens allowed|prompt is too long"
    r"|`inputs` tokens \+ `max_new_tokens` must be",
    re.IGNORECASE,
)


def says_too_long(words: str) -> bool:
    return _TOO_LONG.search(words) is not None

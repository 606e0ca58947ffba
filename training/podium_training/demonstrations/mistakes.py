"""Calls that fail: what follows them shows how to continue from an error."""

import re
from collections.abc import Mapping
from random import Random
from typing import Any

from podium_training.tasks.task import Call

# Long enough to be another word when garbled, as small models garble names.
WORD = re.compile(r"[^\W\d_]{4,}")


def mistaken(call: Call, schemas: Mapping[str, Any], random: Random) -> Call | None:
    """The call with a word of one argument garbled; None where no argument has a free one."""
    texts = {
        name: value
        for name, value in call.arguments.items()
        if isinstance(value, str) and "enum" not in schemas.get(name, {}) and WORD.search(value)
    }
    if not texts:
        return None
    name = random.choice(sorted(texts))
    word = random.choice(WORD.findall(texts[name]))
    garbled = texts[name].replace(word, _garbled(word, random), 1)
    return Call(call.tool, call.arguments | {name: garbled}) if garbled != texts[name] else None


def _garbled(word: str, random: Random) -> str:
    """Its first letter, and the others begun elsewhere."""
    at = random.randrange(2, len(word))
    return word[0] + word[at:] + word[1:at]

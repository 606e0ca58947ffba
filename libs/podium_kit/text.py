import re

# Of a text without space around it. No two parts match the same space: a model that writes much of
# it would else keep everybody's calls waiting, for the time grows with its square.
FENCED = re.compile(r"```[\w+-]*[ \t]*\n(.*)```", re.DOTALL)
QUOTED = re.compile(r"`([^`\n]+)`")


def whole_characters(text: str) -> str:
    """The text with surrogates joined to characters, and lone ones replaced by U+FFFD.

    JSON writes characters beyond U+FFFF as two escapes, and a server that cuts text between
    them leaves halves (RFC 8259, section 8.2).
    """
    if text.isascii():
        return text  # most is, and a string knows it without being read
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def storable(text: str) -> str:
    """The text with whole characters, and with U+FFFD for NUL, which PostgreSQL does not store."""
    return whole_characters(text).replace("\x00", "\ufffd")


def one_line(text: str, characters_max: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= characters_max else flat[: characters_max - 1] + "…"


def format_bytes(size: float) -> str:
    """ "812 kB", "1.2 GB"."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def unfenced(code: str) -> str:
    """Removes the Markdown fence or the backticks in which models write code."""
    text = code.strip()
    if fence := FENCED.fullmatch(text):
        return fence[1].rstrip()
    quoted = QUOTED.fullmatch(text)
    return quoted[1] if quoted else code

import re
from collections.abc import Sequence


def table(header: str, rows: Sequence[Sequence[str]]) -> str:
    columns = header.split(", ")
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cell(each) for each in line)} |\n" for line in lines) + "\n"


def cell(text: str) -> str:
    return " ".join(prose(text).split()).replace("|", "\\|")


def prose(text: str) -> str:
    return re.sub(r"(`[^`]*`)|<", lambda m: m[1] or "&lt;", text)

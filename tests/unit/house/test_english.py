"""Docstrings, comments, names and pages are in the field's words (CONTRIBUTING.md)."""

import ast
import io
import re
import tokenize

from unit.house.source_files import ROOT, is_python, product_files, tracked_files, tree

FRAGMENT = re.compile(
    r"(What|Whose|Who|Whom|Whoever|Of|One that|One who|Those|Whether|As|How|Where|That|Which|Why"
    r"|When)\b"
)
WORDS = re.compile(
    r"\b(told|standing|kept aside|owed|said|whoever|dear(?:er|est)?|wordings?|hears?"
    r"|lets? pass|go(?:es|ing|ne)? on)\b",
    re.IGNORECASE,
)
NAMES = re.compile(
    r"(?:^|_)(told|owed|said|whoever|dear|dearer|dearest|wordings?|hear|look)(?:_|$)"
)
# A gate looks at an evaluation, in the words of statistics, and a verifier at a state.
LOOKS = {"UnplannedLook", "look", "look_confidence"}
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstrings(path: str) -> list[str]:
    nodes = [node for node in ast.walk(tree(path)) if isinstance(node, Documented)]
    return [text for node in nodes if (text := ast.get_docstring(node))]


def comments(path: str) -> list[str]:
    lines = io.StringIO((ROOT / path).read_text()).readline
    return [
        each.string for each in tokenize.generate_tokens(lines) if each.type == tokenize.COMMENT
    ]


def test_docstrings_are_sentences_instead_of_fragments() -> None:
    found = [text for path in tracked_files() if is_python(path) for text in docstrings(path)]
    assert not [text for text in found if FRAGMENT.match(text)]


def test_docstrings_and_comments_use_the_fields_words() -> None:
    found = [
        f"{path}: {text}"
        for path in product_files()
        for text in [*docstrings(path), *comments(path)]
        if WORDS.search(text)
    ]
    assert not found


def names(path: str) -> list[tuple[int, str]]:
    """Names of classes, functions, parameters and variables, with their lines."""
    found = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.append((node.lineno, node.name))
        elif isinstance(node, ast.arg):
            found.append((node.lineno, node.arg))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.append((node.lineno, node.id))
    return found


def test_names_use_the_fields_words() -> None:
    found = [
        f"{path}:{line} {name}"
        for path in product_files()
        for line, name in names(path)
        if NAMES.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
        if name not in LOOKS
    ]
    assert not found


def test_pages_and_contracts_use_the_fields_words() -> None:
    found = [
        f"{path}: {line.strip()[:120]}"
        for path in tracked_files()
        if path.endswith((".md", ".proto"))
        for line in (ROOT / path).read_text().splitlines()
        if WORDS.search(line)
    ]
    assert not found

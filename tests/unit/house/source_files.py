"""The repository as the house tests see it: tracked files, parsed once."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
GENERATED = (
    "protos/gen/",
    "sdks/openapi.json",
    "sdks/python/podium_client/models.py",
    "sdks/python/podium_client/_sync/",
    "sdks/typescript/src/schema.ts",
)
PRODUCT_ROOTS = (
    "libs/",
    "bundled/functions/",
    "services/",
    "operations/",
    "cli/",
    "training/",
    "evaluation/",
)


@cache
def tracked_files() -> tuple[str, ...]:
    """Paths git knows or would add, relative to the root; generated code left out."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    kept = [path for path in listing if not path.startswith(GENERATED)]
    return tuple(path for path in kept if (ROOT / path).is_file())


def product_files() -> list[str]:
    """Python files of the product, tests and scripts left out."""
    return [path for path in tracked_files() if path.startswith(PRODUCT_ROOTS) and is_python(path)]


def service_files() -> list[str]:
    files = [path for path in product_files() if path.startswith("services/")]
    return [path for path in files if "/migrations/" not in path]


def is_python(path: str) -> bool:
    return path.endswith(".py")


@cache
def tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(), filename=path)


def imported_packages(path: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0], node.lineno


def calls(path: str) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node

"""Collects the pages of the documentation site: Markdown files of the repository, and a reference
generated from contracts, settings and commands.

    python -m scripts.docs_site build/docs/pages

Files of docs/ lie at the root of the site, every other page at its path in the repository.
Relative links are rewritten to match, so the same files also read well where they are.
"""

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from scripts.docs_site.commands import command_pages, telemetry_page
from scripts.docs_site.contracts import contract_pages, rest_page
from scripts.docs_site.settings import run_page, settings_page

LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
# Where a link to a file that is no page leads instead.
STAND_INS = {"docs/telemetry.yaml": "reference/telemetry.md"}


def tracked(*patterns: str) -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    return [path for path in listed.stdout.splitlines() if Path(path).is_file()]


def copy_pages(site: Path) -> None:
    # Of pages outside of docs/ the navigation chooses.
    chosen = set(re.findall(r"[\w./-]+\.md", Path("mkdocs.yml").read_text()))
    pages = {each for each in tracked("*.md") if each in chosen or each.startswith("docs/")}
    for path in pages:
        write(site, place(path), LINK.sub(partial(relink, path, pages), Path(path).read_text()))
    for path in tracked("docs/images"):
        write(site, place(path), Path(path).read_bytes())


def place(path: str) -> str:
    return path.removeprefix("docs/")


def relink(page: str, pages: set[str], link: re.Match[str]) -> str:
    """The same link on the site; to a file that is no page, no link."""
    target = os.path.normpath(f"{Path(page).parent}/{link[1]}")
    if Path(target).is_dir():
        target = f"{target}/README.md"
    elsewhere = target not in {*pages, *STAND_INS} and not target.startswith("docs/images/")
    # What does not exist stays, so that the build fails on it.
    if elsewhere and Path(target.removesuffix("/README.md")).exists():
        return "]"
    reached = STAND_INS.get(target, place(target))
    return f"]({os.path.relpath(reached, Path(place(page)).parent)}{link[2] or ''})"


def write(site: Path, path: str, content: str | bytes) -> None:
    file = site / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)


def main() -> None:
    site = Path(sys.argv[1])
    shutil.rmtree(site, ignore_errors=True)
    copy_pages(site)
    for pages in (
        contract_pages,
        rest_page,
        settings_page,
        run_page,
        command_pages,
        telemetry_page,
    ):
        for path, text in pages():
            write(site, path, text)


if __name__ == "__main__":
    main()

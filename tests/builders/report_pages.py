"""Reads what the page of a report holds, as a browser does."""

import json
import re
from pathlib import Path
from typing import Any

DATA = re.compile(r'<script type="application/json" id="report">(.*?)</script>', re.DOTALL)


def document_of(page: Path) -> Any:
    """The document inside of the page."""
    [text] = DATA.findall(page.read_text(encoding="utf-8"))
    return json.loads(text)


def assert_self_contained(page: Path) -> None:
    """Nothing is loaded from elsewhere, and nothing runs but the page's own script."""
    text = page.read_text(encoding="utf-8")
    head, body = DATA.split(text)[0], DATA.split(text)[-1]
    assert "default-src 'none'; script-src 'sha256-" in head
    for part in (head, body):
        assert not re.search(r"<(script|img|link)[^>]*\\b(src|href)=", part)
    assert text.count("<script") == DATA.pattern.count("<script") + body.count("<script")

"""What is printed is what was said, whatever brackets are in it."""

import pytest
from rich.markup import escape

from podium_cli.output import Output
from podium_kit.client.errors import UserError

# A pattern, a path of Windows, a closing tag of nothing, a name of a route.
TEXTS = [r"^\[a-z\]+$", r"C:\dir\[b]file", r"\[/x]", "[/x]", "[slug]/page.md", "end\\", "user:bug:"]


@pytest.mark.parametrize("text", TEXTS)
def test_errors_notes_and_results_keep_brackets(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(as_json=False)
    output.error(UserError(text, f"not {text}"))
    output.note(f"[dim]{escape(text)}[/]")
    output.result({}, text)
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [f"error: {text}", f" fix: not {text}", text]
    assert printed.out == f"{text}\n"

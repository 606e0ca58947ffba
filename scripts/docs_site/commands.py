import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import typer
import yaml
from scripts.docs_site.markdown import table
from typer.cli import get_docs_for_click
from typer.core import TyperGroup

from podium_cli.app import app, load
from podium_cli.command import SHARED_OPTIONS


def command_pages() -> Iterator[tuple[str, str]]:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    context = typer.Context(group, info_name="podium")
    single = []
    for name in group.list_commands(context):
        # What the group lists is only a name and a summary.
        command = load(name)
        text = get_docs_for_click(obj=command, ctx=context, name=name, call_prefix="podium")
        if isinstance(command, TyperGroup):
            yield f"reference/cli/{name}.md", unshared(text)
        else:
            single.append(f"#{unshared(text)}")
    shared = "\n".join(
        f"* `--{each.replace('_', '-').removeprefix('as-')}`: {get_args(annotation)[1].help}"
        for each, annotation in SHARED_OPTIONS.items()
    )
    intro = f"# podium\n\nEvery command also takes\n\n{shared}\n* `--help`\n\n"
    yield "reference/cli/podium.md", intro + "\n".join(single)


def unshared(text: str) -> str:
    """Without the options of every command, and without a list of them that became empty."""
    names = "|".join(each.replace("_", "-").removeprefix("as-") for each in SHARED_OPTIONS)
    text = re.sub(rf"\* `--({names}|help)( <\w+>)?`:.*\n", "", text)
    return re.sub(r"\*\*Options\*\*:\n\n(?=\n|\Z|\*\*|#)", "", text)


def telemetry_page() -> Iterator[tuple[str, str]]:
    registry = yaml.safe_load(Path("docs/telemetry.yaml").read_text())
    spans = registry["spans"] | registry["span_patterns"]
    metrics = [
        (f"`{name}`", each["unit"], each["is"]) for name, each in registry["metrics"].items()
    ]
    parts = [
        "# Telemetry\n\nEvery span, metric and attribute that Podium emits. One trace is one ",
        "episode, and its trace id is the episode's id. A test compares this list with the ",
        "code.\n\n",
        "## Spans\n\n",
        table("Span, Meaning", [(f"`{name}`", text) for name, text in spans.items()]),
        "## Metrics\n\n",
        table("Metric, Unit, Meaning", metrics),
        "## Attributes\n\n",
        table("Attribute, Meaning", [(f"`{n}`", t) for n, t in registry["attributes"].items()]),
    ]
    yield "reference/telemetry.md", "".join(parts)

"""What a verification found, rule by rule."""

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from podium.ledger.v1 import audit_pb2
from podium_cli.listing import listing


def verification_view(
    rules: Mapping[str, str], broken: Mapping[str, audit_pb2.Finding]
) -> RenderableType:
    """Every rule in words and whether it holds; then, of the broken ones, the first wrong row."""
    holds, not_so = Text("holds", style="green"), Text("BROKEN", style="red")
    rows = [(rule, not_so if rule in broken else holds, words) for rule, words in rules.items()]
    blocks: list[RenderableType] = [listing(("rule", "", "says"), rows)]
    if broken:
        found = [(each.rule, each.row, each.problem) for each in broken.values()]
        blocks += [Text(), listing(("broken", "first wrong row", "problem"), found)]
    return Group(*blocks)

import re

import pytest

from podium_kit.tool_kinds import ALL, KINDS, ToolKind
from unit.house.source_files import ROOT, product_files

FILES_MAX = 8
# Models judge, describe and are tested as well, orchestrators share a budget, and MCP
# servers are followed.
NAMED_OFTEN = {"llm": 15, "podium": 12, "mcp": 11}
ADAPTERS_README = ROOT / "services" / "tool_adapters" / "README.md"


def naming(kind: str) -> list[str]:
    named = re.compile(
        rf"\bTOOL_KIND_{kind.upper()}\b|\b{kind.title()}Connection\b|\bconnection\.{kind}\b"
        rf"|tool_kinds[. ].*\b({kind}|{kind.upper()})\b|ToolKind\(\s*\"{kind}\""
    )
    own_folder = f"services/tool_adapters/{kind}/"
    files = [path for path in product_files() if not path.startswith((own_folder, "bundled/"))]
    return [path for path in files if named.search((ROOT / path).read_text())]


@pytest.mark.parametrize("kind", [kind.name for kind in ALL])
def test_few_files_name_a_kind(kind: str) -> None:
    found = naming(kind)
    assert found
    assert len(found) <= NAMED_OFTEN.get(kind, FILES_MAX), f"read the descriptor: {found}"


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if not kind.starts_episode])
def test_the_page_of_the_adapters_has_a_row_for_each_kind(kind: ToolKind) -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|[^|]+\| (.+) \|$", ADAPTERS_README.read_text(), re.M))
    assert rows[kind.name].startswith(kind.summary)

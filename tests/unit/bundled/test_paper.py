from podium.common.v1 import usage_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb2
from podium.registry.v1 import policy_pb2, tool_pb2
from podium_cli.prices.lists import read_price_list
from podium_operations.documents import read_messages
from tool_registry.tools.checks import check_executor, check_tool
from tool_registry.tools.convert import new_spec_from_proto
from unit.bundled.test_manifests import BUNDLED, MANIFESTS, prices, read_spec

INPUT = usage_pb2.USAGE_DIMENSION_INPUT_FRESH
OUTPUT = usage_pb2.USAGE_DIMENSION_OUTPUT_TEXT
PAPER = BUNDLED / "paper"
TEMPLATES = BUNDLED / "tool_templates"
TOOLS = {spec.name: spec for _, spec in read_messages(PAPER / "tools", tool_pb2.ToolSpec)}
# The aliases that the checkpoint was trained with, by tool (the paper's evaluation).
ALIASES = {
    "search": ["search-1", "search-2", "search-3"],
    "enhance_reasoning": ["reasoner-1", "reasoner-2", "reasoner-3"],
    "answer": [*(f"answer-{number}" for number in range(1, 5)), "answer-math-1", "answer-math-2"],
    "call_expert": ["expert-1", "expert-2", "expert-3"],
}


def own_prices() -> dict[str, prices_pb2.PriceSpec]:
    return {spec.sku: spec for spec in read_price_list(PAPER / "prices.csv")}


def test_the_tools_have_the_papers_names_and_aliases() -> None:
    found = {
        name: [each.alias for each in spec.connection.llm.models] for name, spec in TOOLS.items()
    }
    assert found == ALIASES
    assert [name for name, spec in TOOLS.items() if spec.gives_answer] == ["answer"]


def test_each_tool_can_be_registered_beside_the_bundled_ones() -> None:
    bundled = {name: new_spec_from_proto(read_spec(path)) for name, path in MANIFESTS.items()}
    for wire in TOOLS.values():
        spec = new_spec_from_proto(wire)
        check_tool(spec, shared=False)
        check_executor(spec, bundled.get(spec.executor), shared=False)


def test_each_expert_has_one_price() -> None:
    skus = {model.sku for spec in TOOLS.values() for model in spec.connection.llm.models}
    assert not own_prices().keys() & prices().keys()
    assert skus <= own_prices().keys() | prices().keys()


def test_the_policy_allows_the_tools_and_what_they_run() -> None:
    [(_, policy)] = read_messages(PAPER / "policy.yaml", policy_pb2.PolicySpec)
    [web] = read_messages(TEMPLATES / "web_search_tavily.yaml", tool_pb2.ToolSpec)
    executors = {spec.connection.llm.executor.tool for spec in TOOLS.values()} - {""}
    assert set(policy.allow.names) == {*TOOLS, *executors, web[1].name}


def test_the_page_lists_the_aliases_with_their_prices() -> None:
    known = own_prices() | prices()
    rows = [line.split("|")[1:4] for line in (PAPER / "README.md").read_text().splitlines()]
    listed = {
        alias.strip(" `"): price.strip()
        for aliases, _, price in (row for row in rows if len(row) == 3)
        for alias in aliases.split(",")
    }
    for spec in TOOLS.values():
        for model in spec.connection.llm.models:
            units = {part.dimension: part.unit_price for part in known[model.sku].components}
            assert listed[model.alias] == f"{units[INPUT]}, {units[OUTPUT]}"

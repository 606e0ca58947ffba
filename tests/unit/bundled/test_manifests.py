import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.json_format import ParseDict
from jsonschema import Draft202012Validator

from podium.ledger.v1.price_book_service_pb2 import CreatePricesRequest
from podium.registry.v1.tool_pb2 import ToolKind, ToolSpec
from podium_functions.table import FUNCTIONS
from podium_kit.models.rules import RULE_SKU

BUNDLED = Path(__file__).resolve().parents[3] / "bundled"
MANIFESTS = {path.stem: path for path in sorted((BUNDLED / "tools").glob("*.yaml"))}
TEMPLATE = BUNDLED / "tool_templates" / "ask_llm.yaml"


def read_spec(path: Path) -> ToolSpec:
    return ParseDict(yaml.safe_load(path.read_text()), ToolSpec())


def prices() -> dict[str, Any]:
    request = ParseDict(
        yaml.safe_load((BUNDLED / "prices.yaml").read_text()), CreatePricesRequest()
    )
    return {spec.sku: spec for spec in request.specs}


def test_every_function_has_its_manifest() -> None:
    functions = {
        name
        for name, path in MANIFESTS.items()
        if read_spec(path).kind == ToolKind.TOOL_KIND_FUNCTION
    }
    assert functions == set(FUNCTIONS)
    assert set(MANIFESTS) - functions == {"code_interpreter", "search_corpus"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_manifest_has_the_schema_of_its_function(name: str) -> None:
    spec = read_spec(MANIFESTS[name])
    assert spec.connection.function.function == name
    assert json.loads(spec.parameters_json_schema) == FUNCTIONS[name].parameters_schema


@pytest.mark.parametrize("path", [*MANIFESTS.values(), TEMPLATE], ids=lambda path: path.stem)
def test_manifest_is_complete(path: Path) -> None:
    spec = read_spec(path)
    schema = json.loads(spec.parameters_json_schema)
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert spec.name == path.stem
    assert "Example: {" in spec.description
    assert "bundled" in spec.tags
    assert spec.capabilities
    assert spec.side_effect
    assert spec.limits.HasField("timeout")


@pytest.mark.parametrize("path", MANIFESTS.values(), ids=lambda path: path.stem)
def test_arguments_are_flat(path: Path) -> None:
    properties = json.loads(read_spec(path).parameters_json_schema)["properties"]
    kinds = (kind for each in properties.values() for kind in each.get("anyOf", [each]))
    types = {kind["type"] for kind in kinds}
    assert types <= {"string", "integer", "number", "boolean"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_example_in_the_description_works(name: str) -> None:
    description = read_spec(MANIFESTS[name]).description
    start = description.index("{", description.index("Example: "))
    arguments, _ = json.JSONDecoder().raw_decode(description[start:])
    assert FUNCTIONS[name](arguments) is not None


def test_every_tool_has_a_price_above_zero() -> None:
    skus = {read_spec(path).sku for path in MANIFESTS.values()}
    assert skus <= set(prices())
    for sku, spec in prices().items():
        # A rule has no tokens that could cost anything.
        free = sku == RULE_SKU
        assert all((Decimal(part.unit_price) == 0) is free for part in spec.components)
        assert spec.source


def test_template_names_every_placeholder_it_uses() -> None:
    text = TEMPLATE.read_text()
    used = {part.split("}")[0] for part in text.split("${")[1:]} - {"NAME"}
    header = [line.split()[1] for line in text.splitlines() if line.startswith("#   ASK")]
    assert used == set(header)

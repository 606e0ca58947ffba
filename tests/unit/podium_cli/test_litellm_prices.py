"""LiteLLM's price file; the models and prices here are invented."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.common.v1 import usage_pb2
from podium.ledger.v1 import price_book_service_pb2 as pb
from podium_cli.prices.lists import format_price, format_sku
from podium_cli.prices.litellm import NotImported, read_litellm_prices
from podium_operations.documents import InvalidDocument
from temporary_files import data_folder

CHAT: dict[str, Any] = {
    "litellm_provider": "acme",
    "mode": "chat",
    "input_cost_per_token": 1.25e-06,
    "output_cost_per_token": 1e-05,
}


def read(
    folder: Path, models: dict[str, Any], only: str = ""
) -> tuple[dict[str, str], NotImported]:
    """The prices in words by their SKUs."""
    path = folder / "litellm.json"
    path.write_text(json.dumps(models))
    specs, ignored = read_litellm_prices(path, lambda *names: not only or only in names)
    assert len({format_sku(spec) for spec in specs}) == len(specs)
    return {format_sku(spec): format_price(spec) for spec in specs}, ignored


def test_a_model_is_priced_under_its_provider_and_name(tmp_path: Path) -> None:
    models = {
        "sample_spec": {"input_cost_per_token": 0.0, "mode": "one of: chat, embedding"},
        "m-1": CHAT,
        "acme/m-2": CHAT,
        "acme/latest": {"alias_of": "m-1"},
        "router/acme/m-1": CHAT | {"litellm_provider": "router"},
    }
    prices, ignored = read(tmp_path, models)
    assert set(prices) == {"acme/m-1", "acme/m-2", "acme/latest", "router/acme/m-1"}
    assert set(prices.values()) == {"$1.25 per million input fresh; $10 per million output text"}
    assert not list(ignored.rows())
    assert set(read(tmp_path, models, "m-1")[0]) == {"acme/m-1"}
    assert set(read(tmp_path, models, "acme/m-1")[0]) == {"acme/m-1"}


def test_every_kind_of_token_has_the_dimension_that_its_count_has(tmp_path: Path) -> None:
    costs = {
        "cache_read_input_token_cost": 1e-07,
        "cache_creation_input_token_cost": 2e-07,
        "cache_creation_input_token_cost_above_1hr": 3e-07,
        "output_cost_per_reasoning_token": 4e-07,
        "input_cost_per_audio_token": 5e-07,
        "output_cost_per_audio_token": 6e-07,
        "input_cost_per_request": 0.007,
    }
    prices, _ = read(tmp_path, {"m": CHAT | costs})
    assert prices["acme/m"].split("; ") == [
        "$1.25 per million input fresh",
        "$0.1 per million cache read",
        "$0.2 per million cache write short",
        "$0.3 per million cache write long",
        "$10 per million output text",
        "$0.4 per million reasoning",
        "$0.007 per call",
        "$0.5 per million audio input",
        "$0.6 per million audio output",
    ]


def test_sizes_of_the_prompt_and_classes_of_service_are_bands_and_prices(tmp_path: Path) -> None:
    costs = {
        "input_cost_per_token_above_200k_tokens": 2.5e-06,
        "input_cost_per_token_batches": 6e-07,
        "output_cost_per_token_batches": 5e-06,
        "input_cost_per_token_priority": 3e-06,
        "output_cost_per_token_priority": 2e-05,
        "input_cost_per_token_above_200k_tokens_priority": 5e-06,
        "cache_read_input_token_cost_flex": 1e-07,
    }
    prices, ignored = read(tmp_path, {"m": CHAT | costs})
    # Above 200,000: a prompt of just so many is not.
    assert prices == {
        "acme/m": "$1.25 per million input fresh (prompts below 200001 tokens); "
        "$2.5 per million input fresh (prompts from 200001 tokens); $10 per million output text",
        "acme/m (batch)": "$0.6 per million input fresh; $5 per million output text",
        "acme/m (priority)": "$3 per million input fresh (prompts below 200001 tokens); "
        "$5 per million input fresh (prompts from 200001 tokens); $20 per million output text",
    }
    # A price of cached tokens alone would make the others of that class free.
    assert dict(ignored.models) == {
        "no price above 0 of input or output tokens of class flex": ["m"]
    }


def test_tiers_are_bands(tmp_path: Path) -> None:
    tiers = [
        {"range": [0, 32000.0], "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06},
        {"range": [32000.0, 1e6], "input_cost_per_token": 3e-06, "output_cost_per_token": 4e-06},
    ]
    entry = {"litellm_provider": "acme", "mode": "chat", "tiered_pricing": tiers}
    prices, ignored = read(tmp_path, {"m": entry, "n": CHAT | {"tiered_pricing": [{"range": "x"}]}})
    assert prices["acme/m"].count("below 32001 tokens") == 2
    assert prices["acme/m"].endswith("$4 per million output text (prompts from 32001 tokens)")
    assert dict(ignored.keys) == {"tiered_pricing": ["n"]}
    assert "acme/n" in prices


@given(st.decimals("0.000000000000000001", 1, places=24, allow_nan=False))
def test_no_digit_of_a_price_is_lost(cost: Decimal) -> None:
    with data_folder("litellm") as folder:
        path = folder / "litellm.json"
        entry = json.dumps(CHAT | {"input_cost_per_token": "COST"}).replace('"COST"', str(cost))
        path.write_text(f'{{"m": {entry}}}')
        [spec], _ = read_litellm_prices(path, lambda *_: True)
    [fresh] = [
        each for each in spec.components if each.dimension == usage_pb2.USAGE_DIMENSION_INPUT_FRESH
    ]
    assert Decimal(fresh.unit_price) == cost * 10**6
    assert fresh.per == "1000000"
    assert "E" not in fresh.unit_price


@pytest.mark.parametrize("cost", ["0", "0.0", "null", '"1e-6"', "-1e-6", "NaN", "1e400", "1e-30"])
def test_what_is_no_price_above_0_prices_nothing_and_is_reported(tmp_path: Path, cost: str) -> None:
    """0 is free in one entry of the file and unknown in the next."""
    path = tmp_path / "litellm.json"
    entry = json.dumps(CHAT | {"output_cost_per_token": "COST"}).replace('"COST"', cost)
    path.write_text(f'{{"m": {entry}, "n": {json.dumps(CHAT)}}}')
    [spec], ignored = read_litellm_prices(path, lambda *_: True)
    assert spec.sku == "acme/n"
    assert list(ignored.models.values()) == [["m"]]
    assert [key.partition(":")[0] for key in ignored.keys] == ["output_cost_per_token"]


def test_what_is_not_understood_is_counted_with_examples(tmp_path: Path) -> None:
    models: dict[str, Any] = {f"m{number}": CHAT | {"cost_per_wish": 1} for number in range(5)}
    models |= {"drawing": CHAT | {"mode": "image_generation"}, "acme/m1": CHAT, "nothing": {}}
    models |= {"vectors": {**CHAT, "mode": "embedding", "output_cost_per_token": 0.0}}
    models |= {"odd\nname": CHAT}
    prices, ignored = read(tmp_path, models)
    assert "acme/vectors" in prices
    assert list(ignored.rows()) == [
        ("models: the SKU of another model of the file", 1, "m1"),
        ("models: mode image_generation", 1, "drawing"),
        ("models: no price above 0 of input or output tokens", 1, "nothing"),
        ("models: no name that can be a SKU", 1, r"'odd\nname'"),
        ("key cost_per_wish", 4, "m0, m2, m3"),
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("[]", "is no object of models"), ("{", "is not JSON"), ("[" * 10**5, "nested too deeply")],
)
def test_another_file_is_rejected_with_what_is_wrong(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(InvalidDocument, match=complaint):
        read_litellm_prices(path, lambda *_: True)


def test_the_imported_prices_are_deleted_by_their_source(tmp_path: Path) -> None:
    path = tmp_path / "litellm.json"
    path.write_text(json.dumps({"m": CHAT}))
    [spec], _ = read_litellm_prices(path, lambda *_: True)
    assert (spec.source, spec.currency_code, spec.tenant) == ("litellm", "USD", "")
    assert isinstance(spec, pb.PriceSpec)

"""LiteLLM's price file: an object of model names with their costs per token, as price specs.

A key is a base such as `input_cost_per_token`, then perhaps a size of prompt, then perhaps a class
of service: `input_cost_per_token_above_200k_tokens_priority`. Its number is read from the text, so
no digit is lost. In this file 0 may mean free or unknown, so it prices nothing.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from pathlib import Path
from typing import Any

from podium.common.v1 import usage_pb2
from podium.ledger.v1 import price_book_service_pb2 as pb
from podium_operations.documents import InvalidDocument, read_text

# Also what `podium prices delete --source` deletes.
SOURCE = "litellm"
SAMPLE = "sample_spec"
DIMENSIONS = {
    "input_cost_per_token": usage_pb2.USAGE_DIMENSION_INPUT_FRESH,
    "output_cost_per_token": usage_pb2.USAGE_DIMENSION_OUTPUT_TEXT,
    "output_cost_per_reasoning_token": usage_pb2.USAGE_DIMENSION_REASONING,
    "cache_read_input_token_cost": usage_pb2.USAGE_DIMENSION_CACHE_READ,
    # An older name of the same.
    "input_cost_per_token_cache_hit": usage_pb2.USAGE_DIMENSION_CACHE_READ,
    "cache_creation_input_token_cost": usage_pb2.USAGE_DIMENSION_CACHE_WRITE_SHORT,
    "cache_creation_input_token_cost_above_1hr": usage_pb2.USAGE_DIMENSION_CACHE_WRITE_LONG,
    "cache_creation_input_token_cost_above_12hr": usage_pb2.USAGE_DIMENSION_CACHE_WRITE_LONG,
    "input_cost_per_audio_token": usage_pb2.USAGE_DIMENSION_AUDIO_INPUT,
    "output_cost_per_audio_token": usage_pb2.USAGE_DIMENSION_AUDIO_OUTPUT,
    "input_cost_per_request": usage_pb2.USAGE_DIMENSION_CALL,
}
INPUT, OUTPUT = DIMENSIONS["input_cost_per_token"], DIMENSIONS["output_cost_per_token"]
CALL = DIMENSIONS["input_cost_per_request"]
# As providers name them in their replies.
SERVICE_CLASSES = {
    "batches": "batch",
    **{name: name for name in ("flex", "priority", "balanced", "fast", "ultrafast")},
}
PRICE_KEY = re.compile(
    rf"({'|'.join(DIMENSIONS)})"
    rf"(?:_above_([0-9]{{1,6}})k_tokens)?(?:_({'|'.join(SERVICE_CLASSES)}))?"
)
# Other keys describe the model.
ABOUT_PRICES = re.compile(r"cost|pric|multiplier|billing|free|provider_specific")
TIERS = "tiered_pricing"
# Those that answer with text or vectors, as language models and embeddings of tools do.
EMBEDDING = "embedding"
MODES = ("chat", "completion", "responses", EMBEDDING)
# "Above 200k" includes a prompt of just so many tokens.
INCLUSIVE_PROVIDERS = ("xai",)
ALIAS_DEPTH_MAX = 5
EXAMPLES = 3
SKU_CHARACTERS_MAX = 400
MILLION_DIGITS = 6
# What a price of the price book can hold, and no digit more.
PLACES_MAX, DIGITS_MAX = 24, 28
COST_MAX = Decimal(10**5)
# Unit prices by dimension and the smallest prompt that they hold for.
Rates = dict["usage_pb2.UsageDimension.ValueType", dict[int, Decimal]]


@dataclass
class NotImported:
    """Models by the keys of theirs that were not understood, and by why they have no price."""

    keys: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    models: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def rows(self) -> Iterator[tuple[str, int, str]]:
        """Kinds, the most frequent first, with counts and examples."""
        for kind, found in (("models: ", self.models), ("key ", self.keys)):
            for what, names in sorted(found.items(), key=lambda each: -len(each[1])):
                yield f"{kind}{what}", len(names), ", ".join(names[:EXAMPLES])


def read_litellm_prices(
    path: Path, wanted: Callable[[str, str], bool]
) -> tuple[list[pb.PriceSpec], NotImported]:
    """The prices of the models that are wanted by name and SKU. Raises InvalidDocument."""
    entries = _entries(path)
    specs, ignored, seen = list[pb.PriceSpec](), NotImported(), set[str]()
    # A name with its provider is its own SKU, and comes before one that becomes the same.
    for name in sorted(entries, key=lambda name: "/" not in name):
        entry = _resolved(entries, name)
        sku = _sku(name, entry)
        if not wanted(name, sku):
            continue
        if sku in seen:
            ignored.models["the SKU of another model of the file"].append(name)
        elif len(sku) > SKU_CHARACTERS_MAX or not sku.isprintable():
            ignored.models["no name that can be a SKU"].append(ascii(name[:SKU_CHARACTERS_MAX]))
        else:
            seen.add(sku)
            specs += _ModelPrices(name, sku, entry, ignored).specs()
    return specs, ignored


def _entries(path: Path) -> Mapping[str, Mapping[str, Any]]:
    try:
        read = json.loads(read_text(path), parse_float=_decimal, parse_int=_decimal)
    except json.JSONDecodeError as error:
        raise InvalidDocument(path, f"is not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidDocument(path, "is nested too deeply") from error
    if not isinstance(read, dict):
        raise InvalidDocument(path, "is no object of models", "give LiteLLM's price file")
    return {
        name: entry for name, entry in read.items() if isinstance(entry, dict) and name != SAMPLE
    }


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("NaN")


def _resolved(entries: Mapping[str, Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    entry = entries[name]
    for _ in range(ALIAS_DEPTH_MAX):
        target = entry.get("alias_of")
        if not isinstance(target, str) or target not in entries:
            break
        entry = entries[target]
    return entry


def _sku(name: str, entry: Mapping[str, Any]) -> str:
    provider = entry.get("litellm_provider")
    return name if "/" in name or not isinstance(provider, str) else f"{provider}/{name}"


class _ModelPrices:
    """The prices of one model, a spec for each class of service."""

    def __init__(self, name: str, sku: str, entry: Mapping[str, Any], ignored: NotImported) -> None:
        self._name, self._sku, self._entry, self._ignored = name, sku, entry, ignored
        self._mode = entry.get("mode", MODES[0])
        self._rates: defaultdict[str, Rates] = defaultdict(dict)

    def specs(self) -> Iterator[pb.PriceSpec]:
        if self._mode not in MODES:
            self._ignored.models[f"mode {str(self._mode)[:40]}"].append(self._name)
            return
        for key, value in self._entry.items():
            if match := PRICE_KEY.fullmatch(key):
                self._add(key, value, match)
            elif key != TIERS and ABOUT_PRICES.search(key):
                self._ignore(key)
        self._add_tiers()
        needed = {INPUT} if self._mode == EMBEDDING else {INPUT, OUTPUT}
        for service_class in sorted(self._rates.keys() | {""}):
            rates = self._rates[service_class]
            if all(0 in rates.get(dimension, {}) for dimension in needed):
                yield self._spec(service_class, rates)
            else:
                of_class = f" of class {service_class}" if service_class else ""
                reason = f"no price above 0 of input or output tokens{of_class}"
                self._ignored.models[reason].append(self._name)

    def _ignore(self, key: str) -> None:
        self._ignored.keys[key].append(self._name)

    def _add(self, key: str, value: object, match: re.Match[str], from_tokens: int = 0) -> None:
        base, thousands, suffix = match.groups()
        if thousands:
            includes = self._entry.get("litellm_provider") in INCLUSIVE_PROVIDERS
            from_tokens = int(thousands) * 1000 + (not includes)
        if (price := _unit_price(value)) is None:
            zero = isinstance(value, Decimal) and value == 0
            # Embeddings have no output.
            if not (zero and self._mode == EMBEDDING and DIMENSIONS[base] == OUTPUT):
                self._ignore(f"{key}: 0" if zero else f"{key}: not a price")
            return
        rates = self._rates[SERVICE_CLASSES.get(suffix, "")]
        rates.setdefault(DIMENSIONS[base], {}).setdefault(from_tokens, price)

    def _add_tiers(self) -> None:
        """Prices by ranges of the prompt, (from, to]; the last one has no end."""
        tiers = self._entry.get(TIERS, [])
        starts = [_start(tier) for tier in tiers] if isinstance(tiers, list) else [None]
        if None in starts:
            self._ignore(TIERS)
            return
        for tier, start in zip(tiers, starts, strict=True):
            for key, value in tier.items():
                match = PRICE_KEY.fullmatch(key)
                if match and start is not None:
                    self._add(key, value, match, start + bool(start))

    def _spec(self, service_class: str, rates: Rates) -> pb.PriceSpec:
        components = []
        for dimension, by_size in sorted(rates.items()):
            if 0 not in by_size:
                word = usage_pb2.UsageDimension.Name(dimension).removeprefix("USAGE_DIMENSION_")
                self._ignore(f"{word.lower()} of large prompts only")
                continue
            for start, end in pairwise([*sorted(by_size), 0]):
                components.append(_component(dimension, by_size[start], start, end))
        return pb.PriceSpec(
            sku=self._sku,
            currency_code="USD",
            components=components,
            source=SOURCE,
            service_class=service_class,
        )


def _start(tier: object) -> int | None:
    limits = tier.get("range") if isinstance(tier, dict) else None
    start = limits[0] if isinstance(limits, list) and limits else None
    if not isinstance(start, Decimal) or not start.is_finite() or not 0 <= start < 10**9:
        return None
    return int(start)


def _unit_price(value: object) -> Decimal | None:
    """A cost above 0 that the price book can hold to its last digit."""
    if not isinstance(value, Decimal) or not value.is_finite() or not 0 < value < COST_MAX:
        return None
    _, digits, exponent = value.as_tuple()
    fits = len(digits) <= DIGITS_MAX and isinstance(exponent, int) and -exponent <= PLACES_MAX
    return value if fits else None


def _component(
    dimension: "usage_pb2.UsageDimension.ValueType", price: Decimal, start: int, end: int
) -> pb.PriceComponent:
    digits = 0 if dimension == CALL else MILLION_DIGITS
    return pb.PriceComponent(
        dimension=dimension,
        unit_price=f"{price.scaleb(digits).normalize():f}",
        per=str(10**digits),
        band=pb.TokenBand(from_tokens=start, until_tokens=end) if start or end else None,
    )

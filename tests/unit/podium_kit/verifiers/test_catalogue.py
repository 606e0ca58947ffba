"""A verifier that makes no sense is rejected before anything is judged by it."""

import pytest

from podium_kit.verifiers import InvalidVerifier, load_verifier
from podium_kit.verifiers.catalogue import VERIFIERS

LOOK = {"tool": "query_database", "arguments": {"sql": "SELECT 1"}}


@pytest.mark.parametrize(
    ("name", "parameters", "why"),
    [
        ("guess", {}, "there is no verifier 'guess'; use contains"),
        ("exact", {}, "expected"),
        ("exact", {"expected": "noon", "x": 1}, "x: Extra"),
        ("exact", {"expected": []}, "empty"),
        ("exact", {"expected": ["..."]}, "empty"),
        ("numeric", {"expected": "four"}, "not one number"),
        ("numeric", {"expected": ["1", "2"]}, "not one number"),
        ("numeric", {"expected": 1, "tolerance": -1}, "tolerance"),
        ("numeric", {"expected": 1, "tolerance": "NaN"}, "tolerance"),
        ("python", {"code": ""}, "code"),
        ("state", {"look": LOOK}, "either expected or golden_calls"),
        ("state", {"look": LOOK, "expected": 1, "golden_calls": [LOOK]}, "either"),
        ("llm", {"reference": "Paris"}, "tool"),
    ],
)
def test_senseless_verifier_is_rejected(name: str, parameters: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidVerifier, match=why):
        load_verifier(name, parameters)


def test_another_version_is_rejected() -> None:
    assert load_verifier("exact", {"expected": "noon"}, "1").version == "1"
    with pytest.raises(InvalidVerifier, match="version 1, not '7'"):
        load_verifier("exact", {"expected": "noon"}, "7")


def test_every_verifier_is_found_by_its_own_name() -> None:
    assert {name: kind.name for name, kind in VERIFIERS.items()} == {n: n for n in VERIFIERS}
    assert all(kind.version for kind in VERIFIERS.values())

import pytest

from openapi_builders import PETSTORE, read
from tool_registry.tools.openapi import yaml_text
from tool_registry.tools.openapi.errors import InvalidOpenApi
from tool_registry.tools.openapi.yaml_text import loaded_yaml

NODES_MAX = 1_000
DEPTH_MAX = 100


@pytest.fixture(autouse=True)
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "YAML_NODES_MAX", NODES_MAX)
    monkeypatch.setattr(yaml_text, "YAML_DEPTH_MAX", DEPTH_MAX)


def doubling(levels: int, each: str) -> str:
    lines = ["a0: &a0 {k: v}"]
    for level in range(1, levels + 1):
        ten = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} {each.replace('TEN', f'[{ten}]')}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (doubling(2, "{<<: TEN}"), r"line 2: merge keys \(<<\) are not read; write out the fields"),
        ("a: &a {k: v}\nb: {!!merge any: *a}", "line 2: merge keys"),
        (doubling(3, "TEN"), f"more than {NODES_MAX} values, those of an alias counted"),
        ("[" + "a," * NODES_MAX + "]", f"more than {NODES_MAX} values"),
        ("a: " + "[" * DEPTH_MAX + "]" * DEPTH_MAX, f"line 1: .* more than {DEPTH_MAX} deep"),
        ("a: &a\n  b: [*a]", r"line 2: the alias \*a names what it is part of"),
        ("a: *b", r"line 1: the alias \*b names what it is part of, or nothing"),
    ],
    ids=["merges", "tagged merges", "aliases", "values", "depth", "itself", "nothing"],
)
def test_what_expands_without_end_is_rejected_with_its_line(text: str, why: str) -> None:
    with pytest.raises(InvalidOpenApi, match=why):
        loaded_yaml(text)


def test_aliases_and_a_quoted_name_that_looks_like_a_merge_are_read() -> None:
    text = "first: &a {day: 2020-01-01}\nsecond: [*a, *a]\n'<<': 1"
    day = {"day": "2020-01-01"}
    assert loaded_yaml(text) == {"first": day, "second": [day, day], "<<": 1}


def test_a_document_with_a_merge_key_says_so() -> None:
    with pytest.raises(InvalidOpenApi, match="merge keys"):
        read(PETSTORE + "x-more: {<<: {a: 1}}\n")

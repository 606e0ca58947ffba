import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from unit.house.source_files import ROOT, tracked_files

DOCS = ROOT / "docs"
DECISIONS = sorted((DOCS / "adr").glob("*.md"))
NAMED_TEST = re.compile(r"`((?:tests/[\w/]+/)?test_\w+\.py)`")
NAMED_FILE = re.compile(r"`((?:\w+/)+[\w.]+)`")
PARTS = ["Status", "Context", "Decision", "Consequences"]
LINK = re.compile(r"\]\((\d{4}[\w-]*\.md)\)")
# A figure of a page, and the line of the code that decides it.
FIGURES = [
    (
        "docs/operations.md",
        r"`time_limit_s`, ([\d,]+) s by default",
        "services/episodes/admission/checks.py",
        r"DEFAULT_TIME_LIMIT_S = (\d+)",
    ),
    (
        "docs/operations.md",
        r"([\d,]+) s at most",
        "protos/podium/episodes/v1/episode.proto",
        r"maximum: (86400)",
    ),
    (
        "docs/operations.md",
        r"14 days \((\d+) hours\)",
        "charts/podium/values.yaml",
        r"retentionHours: (336)",
    ),
    (
        "docs/operations.md",
        r"7 days \((\d+) hours\)",
        "charts/podium/values.yaml",
        r"retentionHours: (168)",
    ),
    (
        "docs/operations.md",
        r"Temporal's histories \| (\d+) hours",
        "charts/podium/values.yaml",
        r"temporal: \{enabled: true, retentionHours: (\d+)\}",
    ),
    (
        "docs/operations.md",
        r"effectful calls \| (\d+) days",
        "services/tool_adapters/config.py",
        r"effects_kept_days: float = Field\(\s*(\d+)",
    ),
    (
        "docs/operations.md",
        r"(\d+) days after the last call",
        "services/tool_adapters/config.py",
        r"workspaces_kept_days: float = Field\(\s*(\d+)",
    ),
    (
        "docs/concepts/episodes.md",
        r"is older than (\d+) s",
        "services/episodes/config.py",
        r"long_after_s: float = Field\(\s*(\d+)",
    ),
    (
        "docs/concepts/episodes.md",
        r"more than (\d+) turns",
        "services/episodes/config.py",
        r"long_turns: int = Field\(\s*(\d+)",
    ),
    (
        "docs/capacity.md",
        r"that are older than (\d+) s",
        "services/episodes/config.py",
        r"long_after_s: float = Field\(\s*(\d+)",
    ),
    (
        "services/gateway/README.md",
        r"`Idempotency-Key` \(1 to (\d+) characters",
        "services/gateway/episode_ids.py",
        r"IDEMPOTENCY_KEY_CHARACTERS_MAX = (\d+)",
    ),
    (
        "charts/podium/values.yaml",
        r"a body has (\d+) MiB at most",
        "services/gateway/config.py",
        r"body_bytes_max: int = Field\((\d+) \* MIB",
    ),
    (
        "charts/podium/values.yaml",
        r"an OpenAPI document (\d+)\.",
        "services/gateway/http/request_body.py",
        r'read-openapi": (\d+) \* 1024',
    ),
    (
        "services/tool_registry/README.md",
        r"COST_LEDGER_TARGET=localhost:(\d+)",
        "charts/podium/values.yaml",
        r"cost-ledger:\s+args: .*\s+protocol: grpc\s+port: (\d+)",
    ),
    (
        "docs/security.md",
        r"at most (\d+) entries a minute from each replica",
        "services/gateway/audit/attempts.py",
        r"ENTRIES_PER_TENANT = (\d+)",
    ),
    (
        "services/tool_registry/README.md",
        r"Facts are of the last (\d+) minutes",
        "services/tool_adapters/calls/facts.py",
        r"WINDOW_S = (\d+)",
    ),
    (
        "docs/capacity.md",
        r"at most (\d+) to PostgreSQL",
        "libs/podium_kit/postgres/engine.py",
        r"pool_size: int = (\d+)",
    ),
    ("docs/capacity.md", r"(\d+) \(episodes\)", "services/episodes/server.py", r"pool_size=(\d+)"),
    (
        "docs/capacity.md",
        r"(\d+) \(adapters\)",
        "services/tool_adapters/server.py",
        r"pool_size=(\d+)",
    ),
    (
        "docs/capacity.md",
        r"(\d+) \(episode\s+worker\)",
        "services/episodes/worker.py",
        r"pool_size=(\d+)",
    ),
    (
        "docs/tenancy.md",
        r"`EPISODES_FILES_PER_TENANT` \(([\d,]+)\)",
        "services/episodes/config.py",
        r"files_per_tenant: int = Field\(\s*([\d_]+)",
    ),
    (
        "docs/tenancy.md",
        r"`GATEWAY_RUNNING_EPISODES`, (\d+)\)",
        "services/gateway/config.py",
        r"running_episodes: int = Field\(\s*([\d_]+)",
    ),
    (
        "services/orchestrator_inference/policy_engines/README.md",
        r"goes up to ([\d,]+) s",
        "protos/podium/episodes/v1/episode.proto",
        r"maximum: (86400)",
    ),
]
# One entry counts what is beyond the others; a window is stated in minutes.
DERIVED: dict[str, Callable[[int], int]] = {
    "ENTRIES_PER_TENANT": lambda value: value + 1,
    "WINDOW_S": lambda value: value // 60,
}


def section(page: str, title: str) -> str:
    _, _, rest = (DOCS / page).read_text(encoding="utf-8").partition(f"## {title}\n")
    return rest.partition("\n## ")[0]


@pytest.mark.parametrize("title", ["The walk of an episode", "Where things are"])
def test_files_that_the_architecture_names_exist(title: str) -> None:
    named = NAMED_FILE.findall(section("architecture.md", title))
    assert named
    missing = [path for path in named if not (ROOT / path).exists()]
    assert not missing, f"moved? name the new place in docs/architecture.md: {missing}"


def test_tests_that_the_pages_name_exist() -> None:
    pages = [path for path in tracked_files() if path.endswith(".md")]
    names = {path.rsplit("/", 1)[-1] for path in tracked_files()}
    missing = [
        f"{page}: {name}"
        for page in pages
        for name in NAMED_TEST.findall((ROOT / page).read_text(encoding="utf-8"))
        if not ((ROOT / name).exists() if "/" in name else name in names)
    ]
    assert not missing, f"moved? name the new place: {missing}"


def test_the_walk_has_at_most_twelve_steps_that_each_name_a_file() -> None:
    steps = re.split(r"\n(?=\d+\. )", section("architecture.md", "The walk of an episode"))[1:]
    assert 1 < len(steps) <= 12
    assert [step for step in steps if not NAMED_FILE.search(step)] == []


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: path.name[:4])
def test_a_decision_has_status_context_decision_and_consequences(decision: Path) -> None:
    text = decision.read_text(encoding="utf-8")
    assert text.startswith(f"# {int(decision.name[:4])}. ")
    positions = [text.find(f"\n## {part}\n") for part in PARTS]
    assert positions[0] > 0
    assert all(before < after for before, after in pairwise(positions)), PARTS


def test_no_two_decisions_have_one_number() -> None:
    numbers = Counter(path.name[:4] for path in DECISIONS)
    assert [number for number, count in numbers.items() if count > 1] == []


def test_superseded_decisions_and_what_supersedes_them_link_to_each_other() -> None:
    linked = {}
    for path in DECISIONS:
        status = path.read_text(encoding="utf-8").partition("\n## Context")[0]
        linked[path.name] = set(LINK.findall(status))
    one_way = [
        f"{name} -> {other}"
        for name, others in linked.items()
        for other in others
        if name not in linked[other]
    ]
    assert one_way == []


@pytest.mark.parametrize(("page", "stated", "source", "decided"), FIGURES, ids=lambda value: None)
def test_a_page_states_the_figure_of_the_code(
    page: str, stated: str, source: str, decided: str
) -> None:
    on_page = re.search(stated, (ROOT / page).read_text(encoding="utf-8"))
    in_code = re.search(decided, (ROOT / source).read_text(encoding="utf-8"))
    assert on_page, f"{page} states nothing like {stated!r}"
    assert in_code, f"{source} decides nothing like {decided!r}: change this test, and {page}"
    value = int(in_code[1].replace("_", ""))
    for name, derive in DERIVED.items():
        value = derive(value) if name in decided else value
    assert int(on_page[1].replace(",", "")) == value, f"{page} and {source} differ"

"""Measures how often the tools that a task needs are among the eight best, and what ranking takes.

The bundled tools among thousands of invented ones, for tasks from the training split; and, where
its package is installed, the functions of the Berkeley Function Calling Leaderboard.
"""

import importlib.util
import json
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice, product
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import json_format

from bench.figures import Figures, say
from podium.registry.v1 import tool_pb2
from podium_kit.bundled_files import bundled_folder
from podium_kit.models.static_embeddings import StaticEmbeddings
from podium_training.imitation.course import draw_tasks
from tool_registry.models import ToolVersion
from tool_registry.ranking.search import ToolSearch
from tool_registry.tools.catalogue import Tools
from tool_registry.tools.convert import stored_spec

TASKS, SEED, OFFERED = 1_000, 7, 8
SIZE = 10_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)
INVENTED = Path(__file__).with_name("invented_tools.yaml")
LANGUAGES = Path(__file__).with_name("questions_by_language.yaml")
LANGUAGES_SIZE = 2_000


async def measure_ranking(figures: Figures) -> None:
    bundled, tasks = _bundled(), list(draw_tasks(TASKS, SEED))
    questions = [(task.question, frozenset(task.tools)) for task in tasks if task.tools]
    many = [*bundled, *islice(_invented(), SIZE - len(bundled))]
    say(f"ranking tools for {len(questions)} generated tasks")
    await _measure(figures, "bundled", bundled, questions)
    await _measure(figures, f"among_{SIZE}", many, questions)
    await _measure_languages(figures, many[:LANGUAGES_SIZE])
    if found := importlib.util.find_spec("bfcl_eval"):
        folder = Path((found.submodule_search_locations or [""])[0]) / "data"
        functions, asked = _bfcl(folder)
        say(f"ranking {len(functions)} functions of BFCL for {len(asked)} questions")
        await _measure(figures, "bfcl", functions, asked)
    else:
        say("BFCL is not ranked: uv pip install --no-deps bfcl-eval")


async def _measure(
    figures: Figures,
    name: str,
    tools: Sequence[ToolVersion],
    questions: Sequence[tuple[str, frozenset[str]]],
) -> None:
    search = ToolSearch(StaticEmbeddings())
    snapshot = Tools({tool.spec.name: (tool,) for tool in tools})
    begin = time.perf_counter()
    await search.rank(snapshot, "anything")
    figures.note(f"rank.first_s_{name}", round(time.perf_counter() - begin, 2))
    found, took = 0, []
    for question, needed in questions:
        begin = time.perf_counter()
        ranked = await search.rank(snapshot, question)
        took.append(time.perf_counter() - begin)
        found += needed <= {tool.spec.name for tool in ranked[:OFFERED]}
    figures.note(f"rank.recall_at_{OFFERED}_{name}", round(found / len(questions), 3))
    figures.note(f"rank.p50_ms_{name}", round(statistics.median(took) * 1000, 2))


async def _measure_languages(figures: Figures, tools: Sequence[ToolVersion]) -> None:
    asked = yaml.safe_load(LANGUAGES.read_text(encoding="utf-8"))
    languages = [name for name in asked[0] if name != "tool"]
    say(f"ranking {len(tools)} tools for {len(asked)} questions in {len(languages)} languages")
    search = ToolSearch(StaticEmbeddings())
    snapshot = Tools({tool.spec.name: (tool,) for tool in tools})
    for language in languages:
        found = 0
        for question in asked:
            ranked = await search.rank(snapshot, question[language])
            found += question["tool"] in [tool.spec.name for tool in ranked[:OFFERED]]
        name = f"rank.found_of_{len(asked)}_{language}"
        figures.ratio(name, found, ">=", len(asked) - 1)


def _bundled() -> list[ToolVersion]:
    files = sorted((bundled_folder() / "tools").glob("*.yaml"))
    texts = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in files]
    return [_version(json_format.ParseDict(text, tool_pb2.ToolSpec())) for text in texts]


def _invented() -> Sequence[ToolVersion]:
    words = yaml.safe_load(INVENTED.read_text(encoding="utf-8"))
    pairs = product(words["nouns"], words["verbs"])
    return [
        _tool(f"{verb}_{noun.replace(' ', '_')}", f"To {verb} a {noun}.", {"id": f"of the {noun}"})
        for noun, verb in pairs
    ]


def _bfcl(folder: Path) -> tuple[list[ToolVersion], list[tuple[str, frozenset[str]]]]:
    """Its functions, and the questions that need one of them."""
    tools: dict[str, ToolVersion] = {}
    asked = []
    for path in sorted(folder.glob("BFCL_v*_*.json")):
        if not re.search("simple|multiple|parallel", path.name):
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            for function in case["function"]:
                named = {
                    key: str(part.get("description", ""))
                    for key, part in function["parameters"].get("properties", {}).items()
                }
                name = function["name"]
                tools.setdefault(name, _tool(name, function["description"], named))
            if "simple" in path.name:
                asked.append((case["question"][0][-1]["content"], frozenset({name})))
    return list(tools.values()), asked


def _tool(name: str, description: str, arguments: Mapping[str, str]) -> ToolVersion:
    properties: Any = {key: {"description": text} for key, text in arguments.items()}
    return _version(
        tool_pb2.ToolSpec(
            name=name,
            kind=tool_pb2.TOOL_KIND_FUNCTION,
            description=description,
            parameters_json_schema=json.dumps({"type": "object", "properties": properties}),
        )
    )


def _version(spec: tool_pb2.ToolSpec) -> ToolVersion:
    return ToolVersion("acme", 1, stored_spec(spec.SerializeToString()), "", NOW, "ada")

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from podium_kit.embedded.ports import free_port
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.embedded.vllm.server import EmbeddedVllm
from podium_training.synthesis import prompts
from podium_training.synthesis.draft import Draft, call_schema, draft_schema
from podium_training.synthesis.filters import ANSWER
from podium_training.synthesis.journal import Journal
from podium_training.synthesis.model import ChatModel
from podium_training.synthesis.schema import row_schema
from podium_training.synthesis.steps import Review
from unit.podium_training.synthesis.library_domain import make_domain

pytestmark = pytest.mark.vllm

MODEL = "smollm2-135m-instruct"
DOMAIN = make_domain()
LENGTH_MAX = 24
IDS: dict[str, list[str]] = {"members": ["m0", "m1"], "loans": []}


@pytest_asyncio.fixture
async def model(tmp_path: Path) -> AsyncIterator[ChatModel]:
    log_path = tmp_path / "vllm.log"
    server = EmbeddedVllm(SmolLM2().directory, MODEL, free_port(), log_path=log_path)
    await server.start()
    async with httpx.AsyncClient(trust_env=False) as client:
        journal = Journal(tmp_path / "replies.jsonl")
        yield ChatModel(server.base_url, MODEL, client, journal, 0, asyncio.Semaphore(2))
    await server.stop()


def shortened(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with texts of a few tokens: a CPU writes some ten a second."""
    short: dict[str, Any] = {
        key: shortened(value)
        if isinstance(value, dict)
        else [shortened(each) if isinstance(each, dict) else each for each in value]
        if isinstance(value, list)
        else value
        for key, value in schema.items()
    }
    if short.get("type") == "string":
        short["maxLength"] = min(short.get("maxLength", LENGTH_MAX), LENGTH_MAX)
    return short


@pytest.mark.timeout(600)
async def test_replies_of_the_smallest_model_fit_every_schema(model: ChatModel) -> None:
    loans = DOMAIN.tables.tables[1]
    schema = shortened(row_schema(loans, IDS, 1))
    [row] = await model.ask("rows", prompts.table_text(loans), schema, lambda reply: reply["rows"])
    assert row["member"] in IDS["members"]
    assert row["status"] in ("lent", "returned")
    schema = shortened(Review.model_json_schema())
    await model.ask("review", "Is 2 a number?", schema, Review.model_validate)
    schema = shortened(draft_schema(DOMAIN.tools))
    schema["properties"]["calls"]["maxItems"] = schema["properties"]["say"]["maxItems"] = 1
    draft = await model.ask("draft", "Give a book back.", schema, Draft.model_validate)
    assert DOMAIN.tool(draft.calls[0].tool)
    schema = shortened({"anyOf": [ANSWER, *(call_schema(tool) for tool in DOMAIN.tools)]})
    said = await model.ask("turn", "Who has Emma?", schema, dict)
    assert said.keys() in ({"answer"}, {"tool", "arguments"})
    assert model.tokens["completion"] > 0
    assert not model.unreported

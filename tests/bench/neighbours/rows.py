import asyncio
import base64
import json
import random
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bench.neighbours.tenant import Tenant
from builders.corpus_documents import make_pdf

Act = Callable[[Tenant], Awaitable[object]]
WORDS = [f"word{number}" for number in range(20_000)]


@dataclass(frozen=True)
class Row:
    """A flood of `at_once` clients that each do `flood` again and again, and the call beside it."""

    service: str
    flood_name: str
    flood: Act
    call_name: str
    call: Act
    at_once: int = 16
    prepare: Act | None = None


async def calculate(tenant: Tenant) -> None:
    await tenant.call("calculator", expression="6*7")


async def query(tenant: Tenant) -> None:
    await tenant.call("query_database", sql="SELECT count(*) FROM airlines")


async def read_limits(tenant: Tenant) -> None:
    await tenant.ask("GET", "/v1/limits")


async def deliver(tenant: Tenant) -> None:
    feedback_id = f"feedback-{uuid.uuid4()}"
    arrived = tenant.receiver.arrival_of(feedback_id)
    await tenant.give_feedback(feedback_id)
    await arrived.wait()


async def search_library(tenant: Tenant) -> None:
    await tenant.ask("GET", "/v1/corpora/library/search", query="word7 word77")


async def search_tools(tenant: Tenant) -> None:
    await tenant.ask("GET", "/v1/tool-search", query="how far is it from Oslo to Rome?")


async def measure_distances(tenant: Tenant) -> None:
    city = "in " * 26
    await tenant.call("city_distance", from_city=city, to_city=city)


async def join_flights(tenant: Tenant) -> None:
    sql = "SELECT count(*) FROM flights a, flights b WHERE a.distance + b.distance = 77"
    await tenant.call("query_database", sql=sql)


async def fill_corpus(tenant: Tenant) -> None:
    for number in range(10):
        await _put(tenant, {"id": f"big-{number}", "content": _text(90_000)})


async def search_corpus(tenant: Tenant) -> None:
    await tenant.ask("GET", "/v1/corpora/library/search", query=_text(200), top_k=50)


async def upload_pdf(tenant: Tenant) -> None:
    document = {"id": str(uuid.uuid4()), "media_type": "application/pdf", "data": PDF}
    await _put(tenant, document)


async def fill_library(tenant: Tenant) -> None:
    await _put(tenant, {"id": "small", "content": "word7 and word77"})


async def register_tools(tenant: Tenant) -> None:
    specs = [_tool(f"flood_{uuid.uuid4().hex[:12]}") for _ in range(100)]
    await tenant.ask("POST", "/v1/tools/batch", {"specs": specs})


async def search_with_long_queries(tenant: Tenant) -> None:
    await tenant.ask("GET", "/v1/tool-search", query=_text(200), page_size=100)


async def ask_for_large_answers(tenant: Tenant) -> None:
    await tenant.start_episode(answer_json_schema=_large_schema())


async def subscribe_slow_receivers(tenant: Tenant) -> None:
    for number in range(5):
        await tenant.subscribe(f"slow-{number}", "/slow")


async def give_feedback(tenant: Tenant) -> None:
    await tenant.give_feedback(f"feedback-{uuid.uuid4()}")


async def send_large_body(tenant: Tenant) -> None:
    messages = [{"role": "user", "content": LARGE}]
    await tenant.ask("POST", "/v1/chat/completions", {"model": "podium", "messages": messages})


async def verify(tenant: Tenant) -> None:
    await tenant.ask("GET", "/v1/audit/verify")


async def fill_journal(tenant: Tenant) -> None:
    for _ in range(20):
        await asyncio.gather(*(calculate(tenant) for _ in range(20)))


async def _put(tenant: Tenant, document: dict[str, Any]) -> None:
    await tenant.ask("PUT", "/v1/corpora/library/documents", {"documents": [document]})


def _text(words: int) -> str:
    return " ".join(random.choices(WORDS, k=words))


def _tool(name: str) -> dict[str, Any]:
    properties = {"expression": {"type": "string", "description": _text(200)}}
    return {
        "name": name,
        "kind": "TOOL_KIND_FUNCTION",
        "description": _text(400),
        "parameters_json_schema": json.dumps({"type": "object", "properties": properties}),
        "connection": {"function": {"function": "calculator"}},
        "side_effect": "SIDE_EFFECT_PURE",
    }


def _large_schema() -> str:
    """A schema of sixty kilobytes, another one each time, so that none is known already."""
    names = random.sample(WORDS, 300)
    properties = {
        name: {"type": "string", "enum": random.choices(WORDS, k=12), "maxLength": 40}
        for name in names
    }
    return json.dumps({"type": "object", "properties": properties, "required": names})


PDF = base64.b64encode(make_pdf(*("many words on a page " * 200 for _ in range(300)))).decode()
LARGE = "x" * 15_000_000
CALCULATOR, EPISODE = ("calculator", calculate), ("an episode", Tenant.run_episode)
ROWS = (
    Row("gateway", "bodies of 15 MB", send_large_body, "GET /v1/limits", read_limits, at_once=8),
    Row("tool_adapters", "slow city_distance", measure_distances, *CALCULATOR),
    Row("tool_adapters", "slow query_database", join_flights, *CALCULATOR),
    Row("tool_adapters", "slow query_database", join_flights, "query_database", query),
    Row(
        "tool_adapters",
        "searches of a corpus of 10 MB",
        search_corpus,
        "a corpus search",
        search_library,
        prepare=fill_corpus,
    ),
    Row("tool_adapters", "PDFs of 300 pages", upload_pdf, *CALCULATOR, at_once=4),
    Row("tool_registry", "batches of 100 tools", register_tools, *EPISODE, at_once=4),
    Row(
        "tool_registry",
        "tool searches",
        search_with_long_queries,
        "a tool search",
        search_tools,
    ),
    Row("orchestrator_inference", "answer schemas of 60 kB", ask_for_large_answers, *EPISODE),
    Row("episodes", "episode starts", Tenant.start_episode, *EPISODE),
    Row(
        "episodes",
        "feedback to slow receivers",
        give_feedback,
        "a webhook's delivery",
        deliver,
        prepare=subscribe_slow_receivers,
    ),
    Row("episodes", "direct calls", calculate, *CALCULATOR),
    Row("cost_ledger", "audit verification", verify, *CALCULATOR, prepare=fill_journal),
)

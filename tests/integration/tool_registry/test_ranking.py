import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
import pytest

from callers import make_key_pair, write_verify_keys
from embedded_servers import Database
from integration.tool_registry.builders import (
    INPUT,
    make_facts,
    make_llm_spec,
    make_model,
    make_price,
    make_spec,
    used,
)
from integration.tool_registry.running_registry import (
    Caller,
    RunningRegistry,
    rejected,
    running_registry,
)
from podium.episodes.v1 import check_pb2, episode_pb2
from podium.episodes.v1 import episode_service_pb2 as episodes_pb
from podium.episodes.v1 import episode_service_pb2_grpc as rpc
from podium.registry.v1 import policy_pb2, tool_pb2
from podium.registry.v1 import policy_service_pb2 as policies_pb
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_kit.rpc.identity import Scope, current_identity
from podium_kit.rpc.server import Service, running_server
from podium_kit.rpc.settings import ServerSettings

# What the endpoint knows: words that mean alike point the same way.
MEANINGS = {"weather": (1, 0, 0), "rain": (1, 0, 0), "umbrella": (0.9, 0.1, 0), "sum": (0, 1, 0)}
NONE_OF_THESE = [0.0, 0.0, 1.0]


class EmbeddingsEndpoint(BaseHTTPRequestHandler):
    broken = False

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert (self.path, self.headers["authorization"]) == ("/v1/embeddings", "Bearer key")
        data = [
            {"index": index, "embedding": self._vector(text)}
            for index, text in enumerate(body["input"])
        ]
        self.send_response(500 if type(self).broken else 200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": data[::-1]}).encode())

    def _vector(self, text: str) -> list[float]:
        known = [MEANINGS[word] for word in MEANINGS if word in text.lower()]
        return [sum(part) for part in zip(*known, strict=True)] if known else NONE_OF_THESE

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def embeddings() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), EmbeddingsEndpoint)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    EmbeddingsEndpoint.broken = False
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def selector(**fields: Any) -> policy_pb2.ToolSelector:
    return policy_pb2.ToolSelector(**fields)


async def search(caller: Caller, query: str, **fields: object) -> pb.SearchToolsResponse:
    request = pb.SearchToolsRequest(query=query, **fields)  # type: ignore[arg-type]
    reply: pb.SearchToolsResponse = await caller.tools.SearchTools(request)
    return reply


async def names(caller: Caller, query: str, **fields: object) -> list[str]:
    return [found.tool.spec.name for found in (await search(caller, query, **fields)).results]


async def register_some(registry: RunningRegistry) -> Caller:
    ada = registry.as_()
    await registry.platform().register(
        make_spec("get_weather", description="Tells whether rain falls."), shared=True
    )
    await ada.register(make_spec("add-up", description="Makes a sum.", tags=["maths"]))
    await registry.as_("globex").register(make_spec("secret", description="Their rain."))
    return ada


async def test_names_descriptions_and_tags_are_searched_best_first(
    registry: RunningRegistry,
) -> None:
    ada = await register_some(registry)
    await ada.register(make_spec("rain_gauge", description="Rain, rain and rain."))
    assert await names(ada, "rain") == ["rain_gauge", "get_weather"]
    # One has the word in its name, the other is about it.
    assert await names(ada, "weather") == ["get_weather", "rain_gauge"]
    assert await names(ada, "MATHS") == ["add-up"]
    assert await names(ada, "rain", page_size=1) == ["rain_gauge"]
    assert await names(ada, "rain", kinds=[tool_pb2.TOOL_KIND_LLM]) == []
    assert (await search(ada, "rain")).embeddings_used


async def test_a_change_is_found_by_the_next_search(registry: RunningRegistry) -> None:
    ada = await register_some(registry)
    await ada.deprecate("add-up")
    assert await names(ada, "sum") == []
    await ada.register(make_spec("total", description="Makes a sum, too."))
    assert await names(ada, "sum") == ["total"]
    runner = registry.as_("acme", Scope.EPISODES_RUN)
    assert await names(runner, "sum") == ["total"]


async def test_what_a_policy_denies_is_not_found(registry: RunningRegistry) -> None:
    ada, platform = await register_some(registry), registry.platform()
    runner = registry.as_("acme", Scope.EPISODES_RUN)
    await platform.create_policy("platform-floor", deny=selector(names=["get_weather"]))
    assert await names(ada, "rain") == await names(runner, "rain") == []
    await platform.create_policy("platform-floor", allow=selector(names=["get_weather"]))
    assert await names(runner, "rain") == ["get_weather"]
    assert await names(runner, "sum") == []
    await platform.create_policy("platform-floor")
    await ada.create_policy("mine", deny=selector(tags=["maths"]))
    assert await names(runner, "sum") == ["add-up"]
    await ada.policies.ActivatePolicy(policies_pb.ActivatePolicyRequest(name="mine", version=1))
    assert await names(runner, "sum") == []


async def test_an_empty_query_is_rejected(registry: RunningRegistry) -> None:
    error = await rejected(search(registry.as_(), " "))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_with_embeddings_other_words_find_what_is_meant(
    database: Database, tmp_path: Path, embeddings: str
) -> None:
    settings: dict[str, Any] = {"embeddings_base_url": embeddings, "embeddings_api_key": "key"}
    async with running_registry(await database("tool_registry"), tmp_path, **settings) as registry:
        ada = await register_some(registry)
        reply = await search(ada, "umbrella")
        assert reply.embeddings_used
        assert [found.tool.spec.name for found in reply.results] == ["get_weather"]
        await ada.register(make_spec("umbrella_shop", description="Sells things."))
        # Found by its word and by its meaning, so before what only means alike.
        assert await names(ada, "umbrella") == ["umbrella_shop", "get_weather"]


async def test_without_an_answer_of_the_endpoint_words_still_find(
    database: Database, tmp_path: Path, embeddings: str
) -> None:
    EmbeddingsEndpoint.broken = True
    settings: dict[str, Any] = {"embeddings_base_url": embeddings, "embeddings_api_key": "key"}
    async with running_registry(await database("tool_registry"), tmp_path, **settings) as registry:
        ada = await register_some(registry)
        reply = await search(ada, "rain")
        assert [found.tool.spec.name for found in reply.results] == ["get_weather"]
        assert not reply.embeddings_used


ABOUT = {
    "calculator": "Calculates sums, products and percentages.",
    "translate": "Translates a text into another language.",
    "weather": "Forecasts rain, wind and temperature of a place.",
    "stock_quote": "Gives the price of a share at the exchange.",
    "recipes": "Finds dishes to cook from some ingredients.",
    "timetable": "Gives departures of trains between two stations.",
}


async def registered(registry: RunningRegistry, tenant: str = "acme") -> Caller:
    ada = registry.as_(tenant)
    for name, description in ABOUT.items():
        await ada.register(make_spec(name, description=description))
    await ada.create_policy("mine")
    # While vectors are not there, tools are ranked by words alone.
    search = pb.SearchToolsRequest(query="anything")
    while not (await ada.tools.SearchTools(search)).embeddings_used:
        pass
    return ada


async def offered(caller: Caller, task: str, places: int = 2, *known: str) -> list[str]:
    request = pb.ResolveToolsetRequest(
        policy="mine", task=task, tools_max=places, known_tool_names=known
    )
    reply = await caller.tools.ResolveToolset(request)
    return [tool.name for tool in reply.toolset.tools]


@pytest.mark.parametrize(
    ("task", "fits"),
    [
        ("Do I need an umbrella in Bergen tomorrow?", "weather"),
        ("What shall I make for dinner with leeks and potatoes?", "recipes"),
        ("When is the next railway connection from Ghent to Bruges?", "timetable"),
        ("How do you say good morning in Portuguese?", "translate"),
        ("What is 17% of 230?", "calculator"),
    ],
)
async def test_tools_fit_a_task_that_has_no_word_of_theirs(
    registry: RunningRegistry, task: str, fits: str
) -> None:
    names = await offered(await registered(registry), task)
    assert fits in names and len(names) == 3
    assert names[-1] == "find_tools"


async def test_an_example_task_brings_a_tool_to_tasks_like_it(registry: RunningRegistry) -> None:
    ada = await registered(registry)
    task = "Who has the keys of the boathouse?"
    assert "stock_quote" not in await offered(ada, task)
    examples = ["Who has the keys of the garage?"]
    await ada.register(
        make_spec("stock_quote", description=ABOUT["stock_quote"], example_tasks=examples)
    )
    assert "stock_quote" in await offered(ada, task, 1)


async def test_what_is_known_or_denied_is_not_found(registry: RunningRegistry) -> None:
    ada = await registered(registry)
    task = "a hot meal in cold weather"
    assert "recipes" in await offered(ada, task, 6)
    assert "recipes" not in await offered(ada, task, 6, "recipes", "find_tools")
    await ada.create_policy("mine", deny=policy_pb2.ToolSelector(names=["recipes"]))
    assert "recipes" not in await offered(ada, task, 4)


async def test_every_tool_is_offered_where_there_is_room(registry: RunningRegistry) -> None:
    assert await offered(await registered(registry), "anything", 6) == sorted(ABOUT)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (make_spec("find_tools"), "the platform's own tool is named find_tools"),
        (make_spec(example_tasks=["?"] * 51), "example_tasks holds 51; give at most 50"),
        (make_spec(example_tasks=["ok", " "]), "example_tasks[1] is blank"),
        (
            make_spec(example_tasks=["x" * 301]),
            "example_tasks[0] has 301 characters",
        ),
        (make_spec(kind=9), "it is offered, not registered"),
    ],
)
async def test_what_cannot_be_registered_says_why(
    registry: RunningRegistry, spec: object, problem: str
) -> None:
    error = await rejected(registry.as_().register(spec))  # type: ignore[arg-type]
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert problem in str(error.details())


async def test_finding_is_named_like_a_tool_and_denied_like_one(registry: RunningRegistry) -> None:
    ada = await registered(registry)
    reply = await ada.resolve("mine", "weather", "find_tools")
    assert [tool.name for tool in reply.toolset.tools] == ["weather", "find_tools"]
    denied = policy_pb2.ToolSelector(names=["find_tools"])
    await ada.create_policy("floor", deny=denied)
    assert "find_tools" not in await offered(ada, "rain")
    error = await rejected(ada.resolve("mine", "weather", "find_tools"))
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "find_tools is not allowed: denied by name" in str(error.details())


ADMIT = policy_pb2.UNKNOWN_PRICE_RULE_ADMIT
TOKENS = {"INPUT_FRESH": ("0.20", "1000000"), "OUTPUT_TEXT": ("0.80", "1000000")}
Weights = policy_pb2.PreferenceVector


async def test_estimates_are_means_or_before_any_call_of_a_stated_size(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_llm_spec(make_model("strong"), make_model("quick"), make_model("new")))
    registry.prices.give(make_price("llm/strong", TOKENS), make_price("llm/quick", TOKENS))
    await registry.as_("acme", Scope.LEDGER_WRITE).record(
        make_facts("answer", "strong", p50_s=31, p95_s=40, usage=[used(INPUT, "400000")])
    )
    [tool] = (await ada.resolve()).toolset.tools
    strong, quick, new = tool.estimates
    assert (strong.model_alias, strong.cost.amount) == ("strong", "0.0002")
    assert strong.latency.seconds == 20
    # 500 tokens in at $0.20 a million, and 500 out at $0.80.
    assert (quick.cost.amount, quick.HasField("latency")) == ("0.0005", False)
    assert not new.HasField("cost")
    [scaled] = (await ada.resolve(**{"llm/strong": "3", "llm/quick": "2"})).toolset.tools
    assert [each.cost.amount for each in scaled.estimates] == ["0.0005", "0.001", ""]


async def test_estimates_of_calls_bear_costs_and_weights(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.register(make_llm_spec(make_model("strong"), make_model("quick")))
    weights = Weights(outcome=1, tools={"answer": 0.5, "answer/quick": 0.25})
    await ada.create_policy(unknown_price=ADMIT, preferences=weights)
    toolset = (await ada.resolve("mine")).toolset
    estimates = {tool.name: tool.estimates for tool in toolset.tools}
    assert [(each.model_alias, each.weight) for each in estimates["answer"]] == [
        ("strong", 0.5),
        ("quick", 0.75),
    ]
    [calculator] = estimates["calculator"]
    assert (calculator.model_alias, calculator.weight) == ("", 0.0)
    assert not any(each.HasField("latency") for each in estimates["answer"])
    assert not any(each.HasField("cost") for each in estimates["answer"])


PAST = "Who has the keys of the garage?"
TASK = "Who has the keys of the boathouse?"


def returned(tool: str, problem: str = "") -> episode_pb2.EpisodeEvent:
    event = episode_pb2.EpisodeEvent()
    event.tool_returned.observation.call.tool_name = tool
    if problem:
        event.tool_returned.observation.failure.message = problem
    return event


def judged(score: float | None) -> episode_pb2.EpisodeEvent:
    judgement = check_pb2.Judgement(verifier="llm", score=score)
    return episode_pb2.EpisodeEvent(judged=judgement)


class Episodes(rpc.EpisodeServiceServicer):
    def __init__(self) -> None:
        self.events: dict[str, Sequence[episode_pb2.EpisodeEvent]] = {}
        self.watched: list[str] = []

    async def ListEpisodes(self, request: Any, context: Any) -> episodes_pb.ListEpisodesResponse:
        # Nothing is asked for that a policy did not consent to.
        consents = request.filter.training_consent
        found = self.events if consents and current_identity().tenant == "acme" else {}
        spec = episode_pb2.EpisodeSpec(task=PAST)
        return episodes_pb.ListEpisodesResponse(
            episodes=[
                episode_pb2.Episode(
                    id=each,
                    spec=spec,
                    stop_reason=episode_pb2.STOP_REASON_ANSWERED,
                    tool_call_count=1,
                )
                for each in found
            ]
        )

    async def WatchEpisode(
        self, request: Any, context: Any
    ) -> AsyncIterator[episodes_pb.WatchEpisodeResponse]:
        self.watched.append(request.episode_id)
        for event in self.events[request.episode_id]:
            yield episodes_pb.WatchEpisodeResponse(event=event)


async def once_read(registry: RunningRegistry, episodes: Episodes, count: int) -> list[str]:
    ada = await registered(registry)
    async with asyncio.timeout(60):
        while len(set(episodes.watched)) < count:
            await offered(ada, TASK, 1)
            await asyncio.sleep(0.01)
    for _ in range(20):
        found = await offered(ada, TASK, 1)
        await asyncio.sleep(0.01)
    return found


@pytest.mark.parametrize(
    ("events", "learnt"),
    [
        ([returned("stock_quote")], True),
        ([returned("stock_quote"), judged(1.0)], True),
        ([returned("stock_quote"), judged(0.0)], False),
        ([returned("stock_quote"), judged(None)], False),
        ([returned("stock_quote", "no such share")], False),
    ],
    ids=["answered", "right", "wrong", "unjudged", "failed"],
)
async def test_a_tool_that_answered_comes_first_for_tasks_alike(
    database: Database, tmp_path: Path, events: list[episode_pb2.EpisodeEvent], learnt: bool
) -> None:
    keys = make_key_pair()
    episodes = Episodes()  # type: ignore[abstract]  # two calls are made
    service = Service(
        rpc.add_EpisodeServiceServicer_to_server, episodes, "podium.episodes.v1.EpisodeService"
    )
    keys_file = write_verify_keys(tmp_path / "keys.json", [keys])
    settings = ServerSettings(port=0, verify_keys_file=keys_file, drain_grace_s=0)
    async with (
        running_server(settings, [service], {}) as port,
        running_registry(
            await database("tool_registry"),
            tmp_path,
            keys=keys,
            episodes_target=f"127.0.0.1:{port}",
            past_tasks_cache_s=0,
        ) as registry,
    ):
        assert "stock_quote" not in await offered(await registered(registry), TASK, 1)
        episodes.events["e1"] = events
        assert ("stock_quote" in await once_read(registry, episodes, 1)) == learnt
        # Episodes of others teach nothing.
        assert "stock_quote" not in await offered(await registered(registry, "bolt"), TASK, 1)

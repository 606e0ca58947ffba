import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from uuid_utils import uuid7

from embedded_servers import Database
from integration.gateway.gateway_under_test import Gateway, run_gateway
from podium.episodes.v1 import episode_service_pb2 as pb

CALCULATOR = {
    "spec": {
        "name": "calculator",
        "kind": "TOOL_KIND_FUNCTION",
        "description": "Evaluates arithmetic.",
        "connection": {"function": {"function": "calculator"}},
        "parametersJsonSchema": '{"type": "object"}',
        "side_effect": "SIDE_EFFECT_PURE",
    }
}


async def start(gateway: Gateway, task: str = "6*7?", **spec: object) -> str:
    reply = await gateway.post("/v1/episodes", json={"spec": {"task": task, **spec}})
    assert reply.status_code == 200, reply.text
    assert reply.headers["x-podium-episode"] == reply.json()["episode"]["id"]
    return str(reply.json()["episode"]["id"])


async def test_camel_and_snake_case_go_in_and_the_contracts_names_come_out(
    gateway: Gateway,
) -> None:
    made = await gateway.post("/v1/tools", json=CALCULATOR)
    found = await gateway.get("/v1/tools/calculator", params={"version": "1"})
    assert made.json()["created"] is True
    spec = found.json()["tool"]["spec"]
    assert spec["parameters_json_schema"] == '{"type": "object"}'
    assert spec["side_effect"] == "SIDE_EFFECT_PURE"
    assert spec["tags"] == []


async def test_a_program_and_its_environment_are_no_part_of_a_request(gateway: Gateway) -> None:
    shell = {"PYTHONWARNINGS": "all:0:antigravity.x:0:0", "BROWSER": "sh -c id #%s"}
    stdio = {"command": "tau2-mock-mcp-eval", "env": shell}
    body = {"connection": {"stdio": stdio}}
    reply = await gateway.post(
        "/v1/tools/discover-mcp", json=body, key=await gateway.new_key(scopes=["tools:write"])
    )
    assert (reply.status_code, reply.json()["error"]["reason"]) == (400, "MALFORMED_REQUEST")
    assert "command: there is no such field" in reply.json()["error"]["message"]


async def test_what_is_unset_has_no_word(gateway: Gateway) -> None:
    async with gateway.http() as http:
        document = await http.get("/openapi.json")
        url = {"method": "GET", "url_template": "https://api.example/x"}
        spec = {**CALCULATOR["spec"], "connection": {"http": url}}
        await http.post("/v1/tools", json={"spec": spec})
        kept = (await http.get("/v1/tools/calculator")).json()["tool"]["spec"]
    assert "TOOL_KIND_FUNCTION" in document.text
    assert "_UNSPECIFIED" not in document.text
    assert kept["kind"] == "TOOL_KIND_FUNCTION"
    assert "body_encoding" not in kept["connection"]["http"]


async def test_validate_only_stores_nothing(gateway: Gateway) -> None:
    await gateway.post("/v1/tools", json={**CALCULATOR, "validate_only": True})
    reply = await gateway.get("/v1/tools/calculator")
    error = reply.json()["error"]
    assert (reply.status_code, error["reason"]) == (404, "TOOL_NOT_FOUND")
    assert error["metadata"]["tool"] == "calculator"


async def test_the_query_fills_lists_enums_booleans_and_times(gateway: Gateway) -> None:
    query = "kinds=TOOL_KIND_MCP&kinds=TOOL_KIND_LLM&includeDeprecated=true&page_size=7"
    await gateway.get(f"/v1/tools?{query}")
    prices = await gateway.get("/v1/prices/effective?skus=a/b&at=2026-01-02T03:04:05Z")
    (asked,) = gateway.tools.listed
    assert list(asked.kinds) == [3, 6]
    assert (asked.include_deprecated, asked.page_size) == (True, 7)
    assert prices.json()["prices"]["a/b"]["spec"]["start_time"] == "2026-01-02T03:04:05Z"


async def test_the_query_fills_maps_with_a_dot(gateway: Gateway) -> None:
    mine = await start(gateway, labels={"team": "search"})
    await start(gateway)
    reply = await gateway.get("/v1/episodes?filter.labels.team=search")
    assert [each["id"] for each in reply.json()["episodes"]] == [mine]


async def test_the_path_decides_over_the_body(gateway: Gateway) -> None:
    reply = await gateway.post("/v1/budgets/mine/close", json={"id": "yours"})
    assert reply.json()["budget"]["id"] == "mine"


async def test_a_slash_in_an_id_belongs_to_it(gateway: Gateway) -> None:
    closed = await gateway.post("/v1/budgets/episode%2Fe1/close")
    unknown = await gateway.get("/v1/budgets/episode%2Fe1")
    assert closed.json()["budget"]["id"] == "episode/e1"
    assert "there is no budget episode/e1" in unknown.text


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("POST", "/v1/tools", b"{not json", "not JSON"),
        ("POST", "/v1/tools", b"[]", "must be a JSON object"),
        ("POST", "/v1/tools", b'{"sepc": {}}', "did you mean spec?"),
        ("POST", "/v1/tools", b'{"spec": {"kind": "MAGIC"}}', "MAGIC"),
        ("GET", "/v1/tools?kidns=1", b"", "known are page_size"),
        ("GET", "/v1/tools?page_size=many", b"", "many"),
    ],
)
async def test_a_request_that_does_not_fit_is_400(
    gateway: Gateway, method: str, path: str, body: bytes, words: str
) -> None:
    async with gateway.http() as http:
        reply = await http.request(method, path, content=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["reason"] == "MALFORMED_REQUEST"
    assert words in reply.json()["error"]["message"]


async def test_a_missing_scope_is_403(gateway: Gateway) -> None:
    reply = await gateway.post(
        "/v1/tools", json=CALCULATOR, key=await gateway.new_key(scopes=["episodes:run"])
    )
    assert (reply.status_code, reply.json()["error"]["reason"]) == (403, "SCOPE_MISSING")
    assert "tools:write" in reply.json()["error"]["message"]


async def test_an_internal_error_shows_no_internals(gateway: Gateway) -> None:
    reply = await gateway.get("/v1/entries")
    assert (reply.status_code, reply.json()["error"]["reason"]) == (500, "UPSTREAM_FAULT")
    assert "secret" not in reply.text
    assert reply.headers["x-request-id"] == reply.json()["request_id"]


async def test_another_tenants_episode_is_not_found(gateway: Gateway) -> None:
    episode_id = await start(gateway)
    for path in ("", "/events", "/trajectory"):
        reply = await gateway.get(
            f"/v1/episodes/{episode_id}{path}", key=await gateway.new_key("umbrella")
        )
        assert (reply.status_code, reply.json()["error"]["reason"]) == (
            404,
            "EPISODE_NOT_FOUND",
        )


async def test_an_episode_id_must_be_a_uuid7(gateway: Gateway) -> None:
    reply = await gateway.post(
        "/v1/episodes", json={"episode_id": "first", "spec": {"task": "6*7?"}}
    )
    assert (reply.status_code, reply.json()["error"]["reason"]) == (400, "INVALID_EPISODE_ID")


async def test_the_callers_id_makes_a_start_safe_to_repeat(gateway: Gateway) -> None:
    body = {"episode_id": str(uuid7()), "spec": {"task": "6*7?"}}
    replies = [await gateway.post("/v1/episodes", json=body) for _ in range(2)]
    assert {reply.json()["episode"]["id"] for reply in replies} == {body["episode_id"]}
    assert len(gateway.episodes.episodes) == 1


async def test_parts_of_an_answer_are_events_without_an_id_for_those_who_ask(
    gateway: Gateway,
) -> None:
    episode_id = await start(gateway)
    gateway.episodes.answer_parts = [pb.EpisodeAnswerPart(turn=2, text="4\u2028\n2")]
    async with gateway.http() as http:
        path = f"/v1/episodes/{episode_id}/events"
        plain, shown = [
            (await http.get(path, params=params)).text for params in ({}, {"answer_parts": "true"})
        ]
        wrong = await http.get(path, params={"answer_parts": "yes"})
    part = shown.removesuffix(plain).removeprefix("event: answer_part\ndata: ").strip("\n")
    assert json.loads(part) == {"turn": 2, "start": 0, "text": "4\u2028\n2"}
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "answer_parts")


async def test_the_end_alone_is_sent_to_those_who_ask_for_it(gateway: Gateway) -> None:
    episode_id = await start(gateway)
    async with gateway.http() as http:
        path = f"/v1/episodes/{episode_id}/events"
        sent = (await http.get(path, params={"end_only": "true"})).text
    assert [line for line in sent.splitlines() if line.startswith("event: ")] == ["event: finished"]


async def test_events_resume_after_the_last_one_seen(gateway: Gateway) -> None:
    episode_id = await start(gateway)
    async with gateway.http() as http:
        whole = (await http.get(f"/v1/episodes/{episode_id}/events")).text
        rest = (
            await http.get(f"/v1/episodes/{episode_id}/events", headers={"last-event-id": "3"})
        ).text
        after_the_end = await http.get(f"/v1/episodes/{episode_id}/events?after_sequence=5")
    assert after_the_end.status_code == 200 and "event: " not in after_the_end.text
    assert [line for line in whole.split("\n") if line.startswith("event: ")] == [
        "event: started",
        "event: action_decided",
        "event: tool_returned",
        "event: action_decided",
        "event: finished",
    ]
    assert whole.endswith(rest)
    assert rest.startswith("id: 4\n")


async def test_cancel_approve_and_trajectory_reach_the_episode(gateway: Gateway) -> None:
    gateway.episodes.script = lambda request: []
    episode_id = await start(gateway)
    path = f"/v1/episodes/{episode_id}"
    async with gateway.http() as http:
        await http.post(f"{path}/approve", json={"turn": 2, "callIndex": 1, "approved": True})
        cancelled = await http.post(f"{path}/cancel", json={"reason": "enough"})
        trajectory = await http.get(f"{path}/trajectory")
    (approval,) = gateway.episodes.approvals
    assert (approval.turn, approval.call_index, approval.approved) == (2, 1, True)
    assert gateway.episodes.cancel_reasons == {episode_id: "enough"}
    assert cancelled.json()["episode"]["stop_reason"] == "STOP_REASON_CANCELLED"
    assert trajectory.json()["trajectory"]["episode_id"] == episode_id


async def test_results_of_the_callers_own_tools_reach_the_episode(gateway: Gateway) -> None:
    gateway.episodes.script = lambda request: []
    episode_id = await start(gateway)
    results = [{"callIndex": 1, "content": "cold"}, {"error": "closed"}]
    path = f"/v1/episodes/{episode_id}/tool-results"
    reply = await gateway.post(path, json={"turn": 2, "results": results})
    assert reply.json()["episode"]["id"] == episode_id
    (answered,) = gateway.episodes.answers
    assert (answered.turn, answered.results[0].call_index) == (2, 1)
    assert [(each.content, each.error) for each in answered.results] == [
        ("cold", ""),
        ("", "closed"),
    ]


async def test_documents_put_into_a_corpus_are_found(gateway: Gateway) -> None:
    documents = [{"id": "a", "content": "the quick fox"}, {"id": "b", "content": "the dog"}]
    put = await gateway.put("/v1/corpora/animals/documents", json={"documents": documents})
    hits = await gateway.get("/v1/corpora/animals/search", params={"query": "fox"})
    assert put.json()["changed_count"] == 2
    assert [hit["document_id"] for hit in hits.json()["hits"]] == ["a"]


async def test_unknown_paths_and_methods_answer_in_the_error_shape(gateway: Gateway) -> None:
    async with gateway.http() as http:
        path = await http.get("/v1/nothing")
        method = await http.delete("/v1/tools")
        others = [
            await http.patch("/v1/api-keys"),
            await http.delete("/v1/budgets/episode/1/close"),
            await http.post("/v1/tenants/acme/limits"),
            await http.get("/v1/mcp"),
        ]
    assert (path.status_code, path.json()["error"]["reason"]) == (404, "UNKNOWN_ROUTE")
    assert (method.status_code, method.json()["error"]["reason"]) == (405, "HTTP_405")
    allowed = [reply.headers.get_list("allow") for reply in (method, *others)]
    assert allowed == [["GET, POST"], ["GET, POST"], ["POST"], ["DELETE, GET, PUT"], ["POST"]]


async def test_what_is_answered_is_documented(gateway: Gateway) -> None:
    document = await gateway.get("/openapi.json")
    far = await gateway.get("/v1/episodes/x/events", headers={"last-event-id": "9" * 10})
    for path, operations in document.json()["paths"].items():
        for operation in operations.values():
            answers = operation["responses"].keys()
            assert {"400", "401", "403", "404", "405", "429", "500", "503"} < answers, path
            assert "default" not in answers
    assert (far.status_code, far.json()["error"]["param"]) == (400, "Last-Event-ID")


async def test_a_body_that_is_too_large_is_413_announced_or_not(
    database: Database, tmp_path: Path
) -> None:
    async def in_pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 100

    async with (
        run_gateway(await database("gateway"), tmp_path, body_bytes_max=1000) as gateway,
        gateway.http() as http,
    ):
        announced = await http.post("/v1/tools", content=b" " * 2000)
        pieces = await http.post("/v1/tools", content=in_pieces())
        chat = await http.post("/v1/chat/completions", content=in_pieces())
    assert {announced.status_code, pieces.status_code, chat.status_code} == {413}


async def test_the_largest_document_that_the_registry_takes_fits(
    database: Database, tmp_path: Path
) -> None:
    # As quotes are: twice as long in JSON.
    document = '"' * (10 * 1024 * 1024) + "x" * (10 * 1024 * 1024)
    async with run_gateway(await database("gateway"), tmp_path) as gateway, gateway.http() as http:
        read = await http.post("/v1/tools/read-openapi", json={"document": document})
        rejected = await http.post("/v1/tools/read-openapi", json={"document": document * 2})
    assert read.status_code != 413
    assert rejected.status_code == 413


async def test_a_body_that_never_arrives_is_408(database: Database, tmp_path: Path) -> None:
    async with run_gateway(await database("gateway"), tmp_path, body_timeout_s=0.1) as gateway:
        address = httpx.URL(gateway.base_url)
        reader, writer = await asyncio.open_connection(address.host, address.port)
        head = f"POST /v1/tools HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {gateway.key}\r\n"
        writer.write(f"{head}content-length: 2\r\n\r\n{{".encode())
        status = await reader.readline()
        writer.close()
    assert status.startswith(b"HTTP/1.1 408")

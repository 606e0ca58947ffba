from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientPayloadError, web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from builders.orchestrator import make_completion
from orchestrator_inference.engine import merged
from orchestrator_inference.engine.client import EngineReply, engine_client
from orchestrator_inference.engine.engine import EnginePool, ModelCall, TextListener
from orchestrator_inference.engine.errors import rejection
from orchestrator_inference.engine.merged import MergedEngines
from orchestrator_inference.engine.models import ModelCatalogue
from orchestrator_inference.engine.reply import NotACompletion, completion_from
from orchestrator_inference.errors import (
    EngineRejected,
    EngineUnreachable,
    EngineUnwell,
    ModelNotFound,
)
from orchestrator_inference.models import (
    Completion,
    Constraint,
    EngineModel,
    Message,
    Sampling,
)
from orchestrator_inference.policy_engines.blueprint import Json
from orchestrator_inference.policy_engines.keeper import EngineKeeper
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium_kit.models.model_families import ModelFamiliesFile
from podium_kit.policy_versions import VersionStore
from podium_kit.rpc.errors import DomainError, FailedPrecondition


@dataclass
class OneModel:
    name: str
    fault: DomainError | None = None

    async def model(self, name: str) -> EngineModel:
        if self.fault:
            raise self.fault
        if name not in ("", self.name):
            raise ModelNotFound(name, [self.name])
        return EngineModel(self.name)

    async def models(self) -> tuple[EngineModel, ...]:
        return (await self.model(""),)

    async def count_tokens(self, call: ModelCall) -> int:
        return 1

    async def complete(self, call: ModelCall, on_text: TextListener | None = None) -> Completion:
        return make_completion(self.name)


AWAY = EngineUnreachable("main", ConnectionRefusedError())


async def test_a_version_is_found_while_the_main_engine_is_away() -> None:
    main, other = OneModel("base"), OneModel("policy-demo-v1")
    pool = EnginePool(main, lambda: [other])
    found = await pool.model(other.name)
    main.fault = AWAY
    assert await pool.model(other.name) == found
    with pytest.raises(EngineUnreachable):
        await pool.model("base")
    other.fault = AWAY
    with pytest.raises(EngineUnreachable):
        await pool.model(other.name)


async def test_a_replica_that_is_unwell_is_passed_over() -> None:
    unwell = OneModel("policy-demo-v1", EngineUnwell("first", 503, None))
    pool = EnginePool(OneModel("base"), lambda: [unwell, OneModel("policy-demo-v1")])
    for _ in range(2):
        assert await pool.model("policy-demo-v1") == EngineModel("policy-demo-v1")
    assert [each.name for each in await pool.models()] == ["base", "policy-demo-v1"]


class Engines:
    def __init__(self, *versions: str, kept: str) -> None:
        self.made = list(versions)
        self.kept = kept

    async def versions(self) -> dict[str, Json]:
        return {version: {} for version in self.made}

    async def bring(self, version: str, found: Json | None) -> None:
        raise AssertionError

    async def remove(self, version: str) -> None:
        if version == self.kept:
            raise FailedPrecondition("a webhook rejects it")
        self.made.remove(version)

    async def changed(self, timeout_s: float) -> None:
        raise AssertionError


async def test_an_engine_that_cannot_be_deleted_keeps_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"policy-demo-v{number}" for number in range(1, 6)]
    engines = Engines(*names, kept=names[2])
    keeper = EngineKeeper(VersionStore(tmp_path), engines, newest=1, retire_after_s=0)
    await keeper.reconcile()
    assert engines.made == [names[2]]
    assert f"engine of {names[2]} is not wanted, and stays: a webhook rejects it" in caplog.text
    engines.kept = ""
    await keeper.reconcile()
    assert engines.made == []


BLUE, GREEN = "http://blue/v1", "http://green/v1"


@pytest.mark.parametrize(("timeout_s", "closed"), [(0, True), (3600, False)])
async def test_the_client_of_an_engine_that_has_gone_is_closed_once_no_call_is_under_way(
    timeout_s: float, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = [BLUE]

    async def addresses(_: str) -> list[str]:
        return there

    monkeypatch.setattr(merged, "replica_urls", addresses)
    async with MergedEngines(["http://engines/v1"], None, timeout_s, 4) as engines:
        (blue,) = await engines.replicas()
        assert await engines.replicas() == [blue]
        assert not blue._client._session.closed
        there[:] = [GREEN]
        (green,) = await engines.replicas()
        assert (green.url, green._client._session.closed) == (GREEN, False)
        assert blue._client._session.closed == closed
    assert blue._client._session.closed
    assert green._client._session.closed


CALL = ModelCall(
    "e/1/model/0", EngineModel("m"), (Message("user", "?"),), Sampling(), Constraint({}, "{}", "")
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("content", "tool_calls", "finish_reason", "token_ids", "logprobs")


def read(body: Any) -> Completion:
    return completion_from(body, CALL, latency_s=0.1, constrained=True)


def reply(message: Any = None, **fields: Any) -> dict[str, Any]:
    top: dict[str, Any] = {
        name: fields.pop(name) for name in ("model", "usage", "id") if name in fields
    }
    return {"choices": [{"message": message or {"content": "42"}, **fields}], **top}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([], "dictionary"),
        ({}, "choices"),
        ({"choices": []}, "choices"),
        ({"choices": ["text"]}, "dictionary"),
        (reply({"content": ["42"]}), "message.content"),
        (reply({"tool_calls": [{"function": {"arguments": "{}"}}]}), "tool_calls.0.function.name"),
        (reply(finish_reason=7), "finish_reason"),
        (reply(token_ids=["1"]), "token_ids.0"),
        (reply(token_ids=[-1]), "token_ids.0"),
        (reply(token_ids=[2**31]), "token_ids.0"),
        (reply(logprobs={"content": [{"logprob": "0"}]}), "logprobs.content.0.logprob"),
        (reply(model={"name": "m"}), "model"),
    ],
)
def test_a_field_of_another_type_is_named(body: Any, field: str) -> None:
    with pytest.raises(NotACompletion, match=field.replace(".", r"\.")):
        read(body)


def test_half_a_character_becomes_a_whole_one() -> None:
    half = "a \ud83d"
    call = {"id": half, "function": {"name": half, "arguments": half}}
    found = read(reply({"content": half, "tool_calls": [call]}, finish_reason=half, model=half))
    [native] = found.native_calls
    texts = [found.text, found.finish_reason, found.model_version, native.name, native.call_id]
    assert texts == ["a \ufffd"] * 5


def test_a_usage_that_is_none_is_estimated() -> None:
    assert read(reply(usage=[])).usage.source == "estimated"


@given(st.sampled_from(FIELDS), JSON, JSON)
def test_whatever_a_field_holds_can_be_sent_on_or_is_no_completion(
    name: str, value: Any, other: Any
) -> None:
    inside = {"content": "42", name: value}
    body = reply(inside, model=other, usage=other, id=other, **{name: value})
    try:
        found = read(body)
    except NotACompletion:
        return
    pb.NextActionResponse(
        completion_text=found.text,
        finish_reason=found.finish_reason,
        completion_token_ids=found.token_ids,
        completion_logprobs=found.logprobs,
        model_version=found.model_version,
    ).SerializeToString()


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, EngineRejected), (408, EngineUnwell), (409, EngineUnwell), (503, EngineUnwell)],
)
def test_what_passes_by_itself_is_a_reason_to_ask_again(
    status: int, kind: type[DomainError]
) -> None:
    reply = EngineReply(status, {}, b'{"error": {"message": "the operation timed out"}}')
    assert isinstance(rejection("engine", "m", reply, None), kind)


async def listed(card: dict[str, Any], page: str, status: int = 200) -> EngineModel:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/v1/models":
            return web.json_response({"data": [{"id": "m", **card}]})
        return web.Response(text=page, status=status)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with (
        TestServer(app) as server,
        engine_client(str(server.make_url("/v1")), None, 1) as client,
    ):
        [model] = await ModelCatalogue(client, "", {}, ModelFamiliesFile()).all()
    return model


@pytest.mark.parametrize(
    ("page", "status"),
    [
        ("<html>Welcome</html>", 200),
        ('["version"]', 200),
        ('{"version": 3, "chat_template": {}}', 200),
        ("{}", 200),
        ("", 404),
    ],
)
async def test_a_page_in_the_place_of_vllms_endpoints_says_nothing(page: str, status: int) -> None:
    model = await listed({"owned_by": "vllm"}, page, status)
    assert (model.engine, model.is_vllm, model.prompt_digest) == ("vllm", True, "")


@pytest.mark.parametrize(
    ("card", "tokens"),
    [
        ({"max_model_len": 4096}, 4096),
        ({"max_model_len": None, "context_length": 8192}, 8192),
        ({"context_length": "8192"}, 0),
        ({"context_length": -1}, 0),
        ({}, 0),
    ],
)
async def test_a_context_that_is_no_number_is_unknown(card: dict[str, Any], tokens: int) -> None:
    assert (await listed(card, "", 404)).context_tokens == tokens


async def test_a_reply_above_the_limit_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator_inference.engine.client.REPLY_BYTES_MAX", 1000)
    with pytest.raises(ClientPayloadError, match="more than 1000 bytes"):
        await listed({"root": "x" * 1000}, "")

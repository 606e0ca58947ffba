import base64
import hashlib
import hmac
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from integration.sdks.scripted_api import LOST, Answer, ScriptedApi, answer, events, rejected
from podium_client import (
    ApiError,
    AsyncPodium,
    BadRequest,
    ConfigurationError,
    Conflict,
    ConnectionFailed,
    InvalidWebhook,
    NotFound,
    Podium,
    RateLimited,
    RetryPolicy,
    Unavailable,
    new_id,
    verify_webhook,
)
from podium_client.models import EpisodeSpec, Money
from podium_client.retries import retry_after_s

AT_ONCE = RetryPolicy(attempts=3, first_wait_s=0.0)
SECRET = f"whsec_{base64.b64encode(bytes(range(32))).decode()}"
EVENT = (
    '{"type": "episode.ended", "timestamp": "2026-11-24T12:00:00Z", "data": {"episode_id": "e"}}'
)
EPISODE = {"episode": {"id": "e", "spec": {"task": "a"}}}


def client(api: ScriptedApi, retries: RetryPolicy = AT_ONCE) -> Podium:
    return Podium(api.url, "pod_key", retries=retries)


def test_a_start_that_is_repeated_is_one_episode() -> None:
    away = rejected(503, "AWAY", "server_error", retry_after="0")
    with ScriptedApi(LOST, away, answer(EPISODE)) as api:
        assert client(api).episodes.start("a").id == "e"
    ids = {request.body["episode_id"] for request in api.requests}
    assert len(api.requests) == 3
    assert UUID(ids.pop()).version == 7
    assert not ids


def test_the_callers_own_key_names_the_episode() -> None:
    with ScriptedApi(answer(EPISODE)) as api:
        client(api).episodes.start("a", idempotency_key="order-7")
    (request,) = api.requests
    assert request.headers["idempotency-key"] == "order-7"
    assert request.headers["authorization"] == "Bearer pod_key"
    assert "episode_id" not in request.body


def test_a_rejection_has_a_class_a_reason_and_the_request_id() -> None:
    with ScriptedApi(rejected(404, "POLICY_NOT_FOUND")) as api, pytest.raises(NotFound) as caught:
        client(api).policies.get("none")
    error = caught.value
    assert (error.status, error.reason, error.param) == (404, "POLICY_NOT_FOUND", "task")
    assert error.request_id == "request-7"
    assert str(error) == "because of POLICY_NOT_FOUND (request request-7)"


def test_what_cannot_succeed_later_is_sent_once() -> None:
    for given, expected in (
        (rejected(400, "MALFORMED"), BadRequest),
        (rejected(409, "EPISODE_EXISTS"), Conflict),
        (rejected(503, "WATCH_LOST", "server_error", x_should_retry="false"), Unavailable),
        (rejected(429, "LIMIT", "rate_limit_error", retry_after="3600"), RateLimited),
        (Answer(418, b"<html>"), ApiError),
    ):
        with ScriptedApi(given) as api, pytest.raises(expected):
            client(api).episodes.start("a")
        assert len(api.requests) == 1


def test_lost_changes_and_full_rates_are_retried() -> None:
    lost = rejected(409, "TRANSACTION_CONFLICT", "server_error")
    full = rejected(429, "TOO_MANY_REQUESTS", "rate_limit_error", retry_after="0")
    with ScriptedApi(lost, full, answer({"budget": {"id": "b"}})) as api:
        assert client(api).budgets.close("b").id == "b"
    assert len(api.requests) == 3


def test_attempts_end() -> None:
    with ScriptedApi(*[LOST] * 4) as api, pytest.raises(ConnectionFailed, match=api.url):
        client(api).episodes.get("e")
    assert len(api.requests) == 4


def test_a_new_keys_text_is_not_asked_for_twice() -> None:
    with ScriptedApi(LOST) as api, pytest.raises(ConnectionFailed):
        client(api).keys.create("ada", roles=["developer"])
    assert len(api.requests) == 1


def test_a_watch_goes_on_where_it_broke() -> None:
    parts = (events(1, 2, cut=True), LOST, events(3, 4), events(5, finished=True))
    with ScriptedApi(*parts) as api:
        seen = [event.sequence for event in client(api).episodes.watch("e")]
    assert seen == [1, 2, 3, 4, 5]
    resumed = [request.headers["last-event-id"] for request in api.requests]
    assert resumed == ["0", "2", "2", "4"]


async def test_the_asynchronous_watch_goes_on_as_well() -> None:
    with ScriptedApi(events(1, 2, cut=True), events(3, finished=True)) as api:
        async with AsyncPodium(api.url, "pod_key", retries=AT_ONCE) as podium:
            seen = [event.sequence async for event in podium.episodes.watch("e")]
    assert seen == [1, 2, 3]


@pytest.mark.parametrize(
    ("parts", "pieces"),
    [
        (((0, "Oua"), (3, "gadou")), ["Oua", "gadou", "gou \U0001f600."]),
        # A later attempt repeats what was shown, and a part after a lost one is not shown.
        (((0, "Ouag"), (0, "Ou"), (2, "agad"), (9, "gou")), ["Ouag", "ad", "ougou \U0001f600."]),
        # What another attempt writes anew is not true of what was shown.
        (((0, "Bobo"), (0, "Ouaga"), (5, "d")), ["Bobo"]),
    ],
)
def test_the_pieces_of_an_answer_are_its_beginning_and_its_rest(
    parts: tuple[tuple[int, str], ...], pieces: list[str]
) -> None:
    whole = "Ouagadougou \U0001f600."
    first, *rest = parts
    streams = (
        events(1, cut=True, parts=[first]),
        events(2, finished=True, parts=rest, final=whole),
    )
    started, shown = answer({"episode": {"id": "e"}}), list[str]()
    with ScriptedApi(started, *streams) as api:
        episode = client(api).episodes.run("Capital?", on_text=shown.append)
    assert episode.answer == whole
    assert shown == pieces
    assert api.requests[0].body["spec"]["stream_answer"] is True
    assert [each.query for each in api.requests[1:]] == [[("answer_parts", "true")]] * 2


def test_an_error_inside_a_stream_is_raised() -> None:
    body = rejected(404, "EPISODE_NOT_FOUND").body.decode()
    broken = Answer(200, f"event: error\ndata: {body}\n\n".encode())
    with ScriptedApi(broken) as api, pytest.raises(BadRequest, match="EPISODE_NOT_FOUND"):
        list(client(api).episodes.watch("e"))


def test_lists_are_fetched_page_by_page() -> None:
    first = answer({"tools": [{"version": 1}], "next_page_token": "t"})
    with ScriptedApi(first, answer({"tools": [{"version": 2}]})) as api:
        tools = client(api).tools.list(kinds=["TOOL_KIND_HTTP", "TOOL_KIND_LLM"], tags=["a"])
        assert [tool.version for tool in tools] == [1, 2]
    kinds = [("kinds", "TOOL_KIND_HTTP"), ("kinds", "TOOL_KIND_LLM"), ("tags", "a")]
    assert [request.query for request in api.requests] == [kinds, [*kinds, ("page_token", "t")]]


def test_queries_hold_times_labels_and_names_with_slashes() -> None:
    with ScriptedApi(answer({}), answer({}), answer({"status": {}})) as api:
        podium = client(api)
        assert not podium.episodes.list(states=["waiting"], labels={"team": "x&y"}).all()
        assert not podium.ledger.spend(["day"], start_time=datetime(2026, 1, 2, tzinfo=UTC)).all()
        podium.budgets.get("episode/e")
        with pytest.raises(ValueError, match="time zone"):
            podium.ledger.spend(start_time=datetime(2026, 1, 2)).all()
    listed, spent, budget = api.requests
    assert listed.query == [
        ("filter.states", "EPISODE_STATE_WAITING"),
        ("filter.labels.team", "x&y"),
    ]
    assert spent.query == [
        ("group_by", "SPEND_DIMENSION_DAY"),
        ("start_time", "2026-01-02T00:00:00+00:00"),
    ]
    assert budget.path == "/v1/budgets/episode%2Fe"


def test_a_newer_platform_may_say_more() -> None:
    episode = {"id": "e", "state": "EPISODE_STATE_DREAMING", "mood": "fine"}
    with ScriptedApi(answer({"episode": episode})) as api:
        found = client(api).episodes.get("e")
    assert found.state == "EPISODE_STATE_DREAMING"
    assert found.model_extra == {"mood": "fine"}


def test_money_and_durations_keep_their_digits() -> None:
    spec = EpisodeSpec(
        task="a",
        budget=Money(currency_code="USD", amount=Decimal("0.0000001")),
        time_limit=timedelta(seconds=90, microseconds=5),
    )
    sent = spec.to_json()
    assert sent == {
        "task": "a",
        "budget": {"currency_code": "USD", "amount": "0.0000001"},
        "time_limit": "90.000005s",
    }
    assert EpisodeSpec.model_validate(sent) == spec
    assert EpisodeSpec.model_validate({"time_limit": "-1.5s"}).time_limit == timedelta(seconds=-1.5)


def test_floats_are_no_money() -> None:
    with ScriptedApi() as api, pytest.raises(TypeError, match="not exact"):
        client(api).episodes.start("a", budget=0.1)  # type: ignore[arg-type]


def test_a_client_without_a_platform_or_a_key_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PODIUM_URL", raising=False)
    monkeypatch.delenv("PODIUM_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="PODIUM_URL"):
        Podium()
    with pytest.raises(ConfigurationError, match="PODIUM_API_KEY"):
        Podium("http://127.0.0.1:1/v1")


def test_waits_grow_up_to_a_limit_and_heed_what_is_asked() -> None:
    policy = RetryPolicy(attempts=10, first_wait_s=1.0, longest_wait_s=4.0)
    for attempt, longest in ((0, 1), (1, 2), (2, 4), (9, 4)):
        wait_s = policy.wait_s(attempt)
        assert wait_s is not None
        assert longest / 2 <= wait_s <= longest
    assert policy.wait_s(10) is None
    assert policy.wait_s(0, retry_after_s=7) == 7
    assert retry_after_s({"retry-after": "1.5"}) == 1.5
    assert retry_after_s({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert retry_after_s({"retry-after": "Mon, 01 Jan 99999999999999 00:00:00 GMT"}) is None
    assert retry_after_s({"retry-after": "soon"}) is retry_after_s({}) is None


def test_ids_sort_by_their_time() -> None:
    ids = [UUID(new_id()) for _ in range(100)]
    assert {each.version for each in ids} == {7}
    assert {each.variant for each in ids} == {"specified in RFC 4122"}
    assert len(set(ids)) == 100
    times = [each.int >> 80 for each in ids]
    assert times == sorted(times)


def signed_at(moment: float, body: str, secret: str = SECRET) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    sent = f"{int(moment)}"
    digest = hmac.digest(key, f"m-1.{sent}.{body}".encode(), hashlib.sha256)
    signature = f"v1a,other v1,AAAA v1,{base64.b64encode(digest).decode()}"
    return {"Webhook-Id": "m-1", "Webhook-Timestamp": sent, "Webhook-Signature": signature}


def test_an_event_is_believed_only_with_its_signature_and_in_time() -> None:
    now, other = time.time(), f"whsec_{base64.b64encode(bytes(32)).decode()}"
    event = verify_webhook(EVENT, signed_at(now, EVENT), SECRET)
    assert (event.id, event.type, event.data) == ("m-1", "episode.ended", {"episode_id": "e"})
    assert verify_webhook(EVENT.encode(), signed_at(now, EVENT), SECRET) == event
    for body, headers, secret in (
        (EVENT.replace('"e"', '"f"'), signed_at(now, EVENT), SECRET),
        (EVENT, signed_at(now, EVENT), other),
        (EVENT, signed_at(now - 3_600, EVENT), SECRET),
        (EVENT, signed_at(now, EVENT) | {"Webhook-Id": "m-2"}, SECRET),
        (EVENT, {}, SECRET),
        (EVENT, signed_at(now, EVENT), "whsec_!"),
        ("[]", signed_at(now, "[]"), SECRET),
    ):
        with pytest.raises(InvalidWebhook):
            verify_webhook(body, headers, secret)

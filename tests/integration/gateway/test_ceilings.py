import tracemalloc

import pytest

from integration.gateway.gateway_under_test import Gateway
from podium_kit.limits.json_cost import require_bounded_json
from podium_kit.money import InvalidMoney, Money

MIB = 1024 * 1024
NUMBERS = ["1e200000000", "1e-200000000", "-1e200000000", "9" * MIB, "0." + "1" * MIB, "NaN", "inf"]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:12])
async def test_a_budget_of_a_gigabyte_of_digits_is_rejected_without_writing_them(
    gateway: Gateway, number: str
) -> None:
    body = {
        "model": "podium",
        "messages": [{"role": "user", "content": "6*7?"}],
        "podium": {"budget_usd": number},
    }
    tracemalloc.start()
    reply = await gateway.post("/v1/chat/completions", json=body)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "podium.budget_usd")
    assert len(reply.content) < 1_000
    assert peak_bytes < 40 * MIB
    assert not gateway.episodes.episodes


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:12])
def test_money_of_a_gigabyte_of_digits_is_rejected_without_writing_them(number: str) -> None:
    with pytest.raises(InvalidMoney) as caught:
        Money.parse(number, "USD")
    assert len(caught.value.message) < 200


async def test_a_made_up_name_of_a_megabyte_is_not_echoed(gateway: Gateway) -> None:
    task = [{"role": "user", "content": "6*7?"}]
    made_ups: list[dict[str, object]] = [
        {"x" * MIB: 1},
        {"podium": {"x" * MIB: 1}},
        {"model": "x" * MIB},
    ]
    for made_up in made_ups:
        reply = await gateway.post(
            "/v1/chat/completions", json={"model": "podium", "messages": task, **made_up}
        )
        # An unknown parameter is reported in a header.
        assert reply.status_code < 500
        headers = sum(len(name) + len(value) for name, value in reply.headers.items())
        assert len(reply.content) + headers < 10_000


EMPTY_MESSAGES = b'{"spec": {"task": "6*7?", "history": [%s{}]}}' % (b"{}," * 3_670_000)
BOM = b"\xef\xbb\xbf"
DEEP = b'{"spec": ' + b"[" * 40_000 + b"]" * 40_000 + b"}"
# In bytes a name of two texts and a half: the rest seems to be one.
UTF_16 = ('{"\u2200": ' + "[" * 40_000 + "]" * 40_000 + "}").encode("utf-16-le")


@pytest.mark.parametrize("body", [EMPTY_MESSAGES, DEEP, BOM + DEEP, UTF_16], ids=len)
@pytest.mark.parametrize("path", ["/v1/episodes", "/v1/chat/completions"])
async def test_json_that_costs_more_than_its_bytes_is_rejected_unparsed(
    gateway: Gateway, path: str, body: bytes
) -> None:
    tracemalloc.start()
    reply = await gateway.post(path, content=body, headers={"content-type": "application/json"})
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (reply.status_code, reply.json()["error"]["reason"]) == (400, "MALFORMED_REQUEST")
    # The client's copy, what arrived, and its brackets.
    assert peak_bytes < 8 * len(body) + 8 * MIB


COUNT = 90_000
TASK = {"role": "user", "content": "6*7?"}


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("embeddings", {"input": [-1] * COUNT}),
        ("embeddings", {"input": [[-1]] * (COUNT // 3)}),
        ("chat/completions", {"messages": [TASK], "tools": [1] * COUNT}),
        ("chat/completions", {"messages": [TASK], "podium": dict.fromkeys(range(COUNT), 1)}),
        ("chat/completions", {"messages": [{"role": "user", "content": [1] * COUNT}]}),
        ("responses", {"input": [1] * COUNT}),
        ("messages", {"max_tokens": 1, "messages": [1] * COUNT}),
    ],
)
async def test_a_body_of_faults_is_rejected_without_writing_them_down(
    gateway: Gateway, path: str, fields: dict[str, object]
) -> None:
    body = {"model": "tool/x", **fields}
    tracemalloc.start()
    reply = await gateway.post(f"/v1/{path}", json=body)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reply.status_code == 400
    assert len(reply.content) < 1_000
    assert peak_bytes < 40 * MIB


@pytest.mark.parametrize("part", [b'\\"', b'"', b"\\", b'"\\"'])
def test_an_endless_string_is_read_once(part: bytes) -> None:
    """Read again from each of its quotes, it would take days."""
    require_bounded_json(b'{"task": "' + part * (4 * MIB))


def test_brackets_and_commas_inside_strings_count_nothing() -> None:
    require_bounded_json(b'{"task": "' + b'[{,\\"' * 200_000 + b'"}')

from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from integration.tool_registry.builders import make_spec
from integration.tool_registry.running_registry import RunningRegistry, rejected
from podium.registry.v1 import guardrail_pb2, policy_pb2
from podium.registry.v1 import policy_service_pb2 as pb

BLOCK = guardrail_pb2.GUARDRAIL_ACTION_BLOCK
REDACT = guardrail_pb2.GUARDRAIL_ACTION_REDACT
ANSWER = guardrail_pb2.GUARDRAIL_STAGE_ANSWER
INPUT = guardrail_pb2.GUARDRAIL_STAGE_INPUT
SECRETS = guardrail_pb2.SecretPatterns()


def guardrail(name: str = "guard", **fields: Any) -> policy_pb2.Guardrail:
    return policy_pb2.Guardrail(name=name, **{"action": BLOCK, **fields})


def http(**fields: Any) -> dict[str, Any]:
    return {"http": guardrail_pb2.HttpGuard(**{"url": "https://guard.example/x", **fields})}


UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({}, "checks nothing; set one of secrets, personal_data, json_schema, size, deny, http"),
    ({"secrets": SECRETS, "action": 0}, "action is unset; write block, redact or flag"),
    ({"secrets": SECRETS, "stages": [0]}, "write input, output or answer"),
    ({"secrets": SECRETS, "tools": policy_pb2.ToolSelector()}, "tools names nothing"),
    ({"secrets": SECRETS, "name": "No"}, "name"),
    ({"size": guardrail_pb2.SizeCheck()}, "max_characters"),
    (
        {"size": guardrail_pb2.SizeCheck(max_characters=9), "action": REDACT},
        "size finds nothing to redact; block or flag",
    ),
    ({"deny": guardrail_pb2.DenyList()}, "lists nothing; add words or patterns"),
    ({"deny": guardrail_pb2.DenyList(words=[" "])}, "a word is blank"),
    ({"deny": guardrail_pb2.DenyList(patterns=["(?=a)"])}, "patterns[0]: invalid perl operator"),
    ({"deny": guardrail_pb2.DenyList(patterns=["a*"])}, "finds the empty text everywhere"),
    ({"json_schema": guardrail_pb2.JsonSchemaCheck(schema_json="{")}, "json_schema.schema_json"),
    (http(url="ftp://x"), "is not an http or https URL"),
    (http(url="http://guard.example/x"), "is not encrypted"),
    (http(timeout=Duration(seconds=31)), "at most 30 s"),
    (http(sku="gpt"), "does not begin with guardrails/"),
]


@pytest.mark.parametrize(("fields", "words"), UNUSABLE)
async def test_a_guardrail_that_cannot_do_what_it_states_is_rejected(
    registry: RunningRegistry, fields: dict[str, Any], words: str
) -> None:
    error = await rejected(registry.as_().create_policy(guardrails=[guardrail(**fields)]))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert words in str(error.details())


async def test_two_guardrails_of_one_name_are_rejected(registry: RunningRegistry) -> None:
    twice = [guardrail(secrets=SECRETS), guardrail(size=guardrail_pb2.SizeCheck(max_characters=1))]
    error = await rejected(registry.as_().create_policy(guardrails=twice))
    assert "guardrails[1]: another one is named guard" in str(error.details())


async def test_guardrails_of_floors_read_before_those_of_the_policy(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec("mail"))
    await ada.register(make_spec("clock"))
    only_mail = policy_pb2.ToolSelector(names=["mail"])
    of_policy = [
        guardrail("of-mail", secrets=SECRETS, tools=only_mail),
        guardrail("of-answers", secrets=SECRETS, stages=[ANSWER]),
        guardrail("asks", **http()),
    ]
    await ada.create_policy("floor", guardrails=[guardrail("of-all", secrets=SECRETS)])
    await ada.create_policy("mine", guardrails=of_policy)
    decisions = [await ada.decided("mine", tool) for tool in ("mail", "clock")]
    names = [[each.name for each in decision.guardrails] for decision in decisions]
    assert names == [["of-all", "of-mail", "asks"], ["of-all", "asks"]]
    assert decisions[0].guardrails[2].http.timeout.ToSeconds() == 2
    toolset = (await ada.resolve("mine")).toolset
    assert [each.name for each in toolset.guardrails] == [
        "of-all",
        "of-mail",
        "of-answers",
        "asks",
    ]


async def test_a_policy_is_shown_as_its_author_wrote_it(registry: RunningRegistry) -> None:
    written = [guardrail(**http(), stages=[INPUT])]
    await registry.as_().create_policy("mine", guardrails=written)
    request = pb.GetPolicyRequest(name="mine")
    reply = await registry.as_().policies.GetPolicy(request)
    assert list(reply.policy.spec.guardrails) == written

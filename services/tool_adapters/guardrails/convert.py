from collections.abc import Iterable

from podium.registry.v1 import guardrail_pb2, policy_pb2
from podium_kit.wire import duration_from_proto
from tool_adapters.errors import InvalidCall
from tool_adapters.guardrails.checks import SchemaCheck, SizeCheck
from tool_adapters.guardrails.models import Guardrail, GuardrailAction, ServerCheck, TextCheck
from tool_adapters.guardrails.patterns import deny_check, personal_data_check, secret_check
from tool_adapters.models import GuardrailDecision, Stage, Verdict

STAGES = {
    guardrail_pb2.GuardrailStage.Value(f"GUARDRAIL_STAGE_{stage.name}"): stage for stage in Stage
}
STAGE_TO_WIRE = {stage: number for number, stage in STAGES.items()}
ACTIONS = {
    guardrail_pb2.GuardrailAction.Value(f"GUARDRAIL_ACTION_{action.name}"): action
    for action in GuardrailAction
}
VERDICTS = {
    verdict: guardrail_pb2.GuardrailVerdict.Value(f"GUARDRAIL_VERDICT_{verdict.name}")
    for verdict in Verdict
}
VERDICT_FROM_WIRE = {number: verdict for verdict, number in VERDICTS.items()}
KINDS = {
    number: name.removeprefix("PERSONAL_DATA_KIND_").lower()
    for name, number in guardrail_pb2.PersonalDataKind.items()
}


def guardrails_from_proto(messages: Iterable[policy_pb2.Guardrail]) -> tuple[Guardrail, ...]:
    """Raises InvalidCall for one that the registry would have rejected."""
    return tuple(map(_guardrail, messages))


def _guardrail(message: policy_pb2.Guardrail) -> Guardrail:
    if message.action not in ACTIONS:
        raise InvalidCall(f"guardrail {message.name} has no action")
    stages = frozenset(STAGES[number] for number in message.stages) or frozenset(Stage)
    priced = bool(message.http.sku)
    return Guardrail(message.name, ACTIONS[message.action], stages, _check(message), priced)


def _check(message: policy_pb2.Guardrail) -> TextCheck | ServerCheck:
    match message.WhichOneof("check"):
        case "secrets":
            return secret_check()
        case "personal_data":
            return personal_data_check(
                frozenset(KINDS[each] for each in message.personal_data.kinds)
            )
        case "json_schema":
            return SchemaCheck(message.json_schema.schema_json)
        case "size":
            return SizeCheck(message.size.max_characters)
        case "deny":
            return deny_check(tuple(message.deny.words), tuple(message.deny.patterns))
        case "http":
            return _server(message.http)
        case _:
            # A newer registry's: what it would have found is not known.
            raise InvalidCall(f"guardrail {message.name} has no check that is known here")


def _server(message: guardrail_pb2.HttpGuard) -> ServerCheck:
    return ServerCheck(
        url=message.url,
        secret=message.secret.name,
        timeout_s=duration_from_proto(message.timeout),
        passes_on_error=message.on_error == guardrail_pb2.GUARDRAIL_ERROR_RULE_ALLOW,
    )


def decision_to_proto(decision: GuardrailDecision) -> guardrail_pb2.GuardrailDecision:
    return guardrail_pb2.GuardrailDecision(
        guardrail=decision.guardrail,
        stage=STAGE_TO_WIRE[decision.stage],
        verdict=VERDICTS[decision.verdict],
        reason=decision.reason,
        ledger_key=decision.ledger_key,
    )


def decision_from_proto(message: guardrail_pb2.GuardrailDecision) -> GuardrailDecision:
    return GuardrailDecision(
        message.guardrail,
        STAGES[message.stage],
        VERDICT_FROM_WIRE[message.verdict],
        message.reason,
        message.ledger_key,
    )
